"""The standard protocol: two questions that ask for a long answer, and one prompt that fills 4K of context.

A warm-up counts for nothing; then rounds of all three, so that a slow minute touches each of them. Every prompt is
new from its first word on, so no cache answers. Three rounds at least, more while they disagree. After each request
comes a tiny one that counts for nothing: llama-server saves what it has read when another prompt comes, and who comes
waits.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from unslow.commands._output import Progress
from unslow.commands.bench.bencher import Bencher, BenchWish
from unslow.facts.bench import DECODE, PREFILL, Failure, Pass
from unslow.think.stats.figures import figures_of

SHORT, LONG, WARM_UP, SETTLE = "short", "long", "warm-up", "settle"
WARM_UP_TOKENS = 16
ROOM_TOKENS = 64  # Of the context, for what a chat template adds and for tokens that were counted wrong
FIT_STEP, SPARE = 512, 4
"""Long prompts nearly fill whole batches of the usual size: one token more would be a batch of its own."""
LONGEST_WARM_UP_S = 20.0
SETTLE_PROMPT = 8
SAVES = ("llama.cpp", "Ollama")  # How the names of runtimes end that save what they have read when another prompt comes
WIDE = 0.04  # More rounds where the interval of a figure is wider than this on either side
MOST_IN_A_ROW = 3
_MINUTE_S = 60.0
_LONG_S = 300.0


class Protocol(NamedTuple):
    """What is asked, and how often."""

    name: Literal["standard", "quick"] = "standard"
    tokens: int = 512
    long_prompt: int = 3580
    long_tokens: int = 128
    rounds: int = 3
    most_rounds: int = 6

    def within(self, context: int | None) -> "Protocol":
        """The same for a server whose context is smaller."""
        if context is None:
            return self
        fitting = self._replace(tokens=max(1, min(self.tokens, context - 2 * ROOM_TOKENS)))
        room = max(0, context - self.long_tokens - ROOM_TOKENS)
        if self.long_prompt <= room:
            return fitting
        return fitting._replace(long_prompt=room // FIT_STEP * FIT_STEP - SPARE if room >= FIT_STEP else room // 2)

    @property
    def cases(self) -> tuple[BenchWish, BenchWish, BenchWish]:
        """One round."""
        short = BenchWish(SHORT, self.tokens)
        return short, short, BenchWish(LONG, self.long_tokens, self.long_prompt)


STANDARD = Protocol()
QUICK = Protocol("quick", 128, 1020, 48, 3, 3)


class Remaining:
    """Says what is being done and how much is left; the share is of the time, not of the requests."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._seconds: dict[tuple[str, int], float] = {}
        self._like: Pass | None = None
        self._plan: list[BenchWish] = []
        self._spent = 0.0

    def announce(self, plan: Sequence[BenchWish], *, quick: bool = False) -> None:
        """What is to be asked; a long benchmark is said to be one before it starts."""
        self._plan = list(plan)
        left = self._left()
        if left > _LONG_S:
            shorter = "" if quick else "; --quick is shorter"
            self._progress.say(f"this takes {about(left)}; Ctrl-C keeps the results so far{shorter}")

    def step(self, text: str, wanted: BenchWish) -> None:
        """The next request."""
        if not self._plan:
            self._plan = [wanted]  # a round that was not planned
        left = self._left()
        self._progress.step(f"{text}, {about(left)} left", self._spent / max(self._spent + left, 1e-9))

    def done(self, wanted: BenchWish, outcome: Pass | Failure) -> None:
        """What came of it."""
        took = outcome.client_total_s if isinstance(outcome, Pass) else outcome.lasted_s
        if isinstance(outcome, Pass):
            self._like = outcome
            self._seconds[wanted.case, wanted.prompt_tokens] = took
        if self._plan:
            self._plan.pop(0)
            self._spent += took

    def _left(self) -> float:
        like = self._like
        return sum(
            self._seconds.get((wanted.case, wanted.prompt_tokens), work_of(wanted, like) if like else 0.0)
            for wanted in self._plan
        )


def run_protocol(bencher: Bencher, protocol: Protocol) -> str:
    """Ask it all, into the bencher's ledger; why it ended before its time, or nothing."""
    remaining = Remaining(bencher.progress)
    if why := _warm_up(bencher, protocol, remaining):
        return why
    remaining.announce(protocol.cases * protocol.rounds, quick=protocol.name == "quick")
    number = 0
    while number < protocol.rounds or (number < protocol.most_rounds and _wide(bencher.passes)):
        number += 1
        for wanted in protocol.cases:
            to_read, to_generate = wanted.prompt_tokens, wanted.tokens
            what = f"{to_read} tokens of prefill" if to_read else f"{to_generate} tokens of decode"
            remaining.step(f"round {number} of {max(number, protocol.rounds)}: {what}", wanted)
            remaining.done(wanted, bencher.ask(wanted._replace(round=number)))
            settle(bencher)
            if given_up(bencher):
                return f"{MOST_IN_A_ROW} requests in a row failed"
    bencher.progress.step("measured", 1.0)
    return ""


def _warm_up(bencher: Bencher, protocol: Protocol, remaining: Remaining) -> str:
    """Two requests that count for nothing, the long one only where it does not take long; why there is no point."""
    short = BenchWish(WARM_UP, WARM_UP_TOKENS, round=0)
    bencher.progress.step("warming up", 0.0)
    for _ in range(MOST_IN_A_ROW):
        done = bencher.ask(short)
        if isinstance(done, Pass):
            remaining.done(short, done)
            break
    else:
        return f"the server did not respond: {bencher.failures[-1].why}"
    long = BenchWish(WARM_UP, WARM_UP_TOKENS, protocol.long_prompt, round=0)
    if work_of(long, done) < LONGEST_WARM_UP_S:
        bencher.progress.step("warming up: a long prompt", 0.0)
        remaining.done(long, bencher.ask(long))
        settle(bencher)
    return ""


def settle(bencher: Bencher) -> None:
    """Have the server save what it has read; its prompt is none of the protocol's own, which take turns."""
    if bencher.target.runtime.endswith(SAVES):
        bencher.ask(BenchWish(SETTLE, 1, SETTLE_PROMPT, round=0))


def given_up(bencher: Bencher) -> bool:
    """Whether the last requests all failed, one after the other."""
    if len(bencher.failures) < MOST_IN_A_ROW:
        return False
    first: Failure = bencher.failures[-MOST_IN_A_ROW]
    return all(done.started_s < first.started_s for done in bencher.passes)


def _wide(passes: list[Pass]) -> bool:
    spreads = [s for name, s in figures_of(passes).figures.items() if name in (DECODE, PREFILL)]
    return any(not s.agree or s.high - s.low > 2 * WIDE * s.median for s in spreads)


def requests_for(protocol: Protocol, runtime: str) -> int:
    """How many requests it takes, warm-ups and all, where no more rounds are needed; by the name of the runtime."""
    followed = len(protocol.cases) * protocol.rounds + 1
    return 1 + followed * (2 if runtime.endswith(SAVES) else 1)


def work_of(wanted: BenchWish, like: Pass) -> float:
    """About how long a request takes, by one that was answered."""
    step = like.client_last_token_s - like.client_first_token_s
    token = step / max(1, like.generated_tokens - 1)
    prompt_token = like.client_first_token_s / max(1, like.prompt_tokens)
    return wanted.tokens * token + (wanted.prompt_tokens or like.prompt_tokens) * min(prompt_token, token)


def about(seconds: float) -> str:
    """A duration in words."""
    if seconds < _MINUTE_S:
        return f"about {max(1.0, seconds):.0f} s"
    return f"about {seconds / _MINUTE_S:.0f} min" if seconds >= 2 * _MINUTE_S else "a minute or two"
