"""The standard protocol: two questions that ask for a long answer, and one prompt that fills 4K of context.

A warm-up counts for nothing; then rounds of all three, so that a slow minute touches each of them. Every prompt is new
from its first word on, so no cache answers. Three rounds at least, more while they disagree. After each request comes a
tiny one that counts for nothing: llama-server saves what it has read when another prompt comes, and who comes waits.
"""

from typing import Literal, NamedTuple

from unslow.app.bench.bencher import Bencher, Wanted
from unslow.app.bench.remaining import Remaining, work_of
from unslow.facts.bench import DECODE, PREFILL, Failure, Pass
from unslow.think.bench.figures import figures_of

SHORT, LONG, WARM_UP, SETTLE = "short", "long", "warm-up", "settle"
WARM_UP_TOKENS = 16
ROOM_TOKENS = 64
"""Of the context, for what a chat template adds and for tokens that were counted wrong."""
FIT_STEP, SPARE = 512, 4
"""Long prompts nearly fill whole batches of the usual size: one token more would be a batch of its own."""
LONGEST_WARM_UP_S = 20.0
SETTLE_PROMPT = 8
SAVES = ("llama.cpp", "Ollama")
"""How the names of runtimes end that save what they have read when another prompt comes."""
WIDE = 0.04
"""More rounds where the interval of a figure is wider than this on either side."""
MOST_IN_A_ROW = 3


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
    def pair(self) -> tuple[Wanted, Wanted]:
        """One question of each kind, as two servers are asked in turns."""
        short, _, long = self.cases
        return short, long

    @property
    def cases(self) -> tuple[Wanted, Wanted, Wanted]:
        """One round."""
        short = Wanted(SHORT, self.tokens)
        return short, short, Wanted(LONG, self.long_tokens, self.long_prompt)


STANDARD = Protocol()
QUICK = Protocol("quick", 128, 1020, 48, 3, 3)


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
            remaining.step(f"round {number} of {max(number, protocol.rounds)}: {_words(wanted)}", wanted)
            remaining.done(wanted, bencher.ask(wanted._replace(round=number)))
            settle(bencher)
            if given_up(bencher):
                return f"{MOST_IN_A_ROW} requests in a row failed"
    remaining.finish()
    return ""


def _warm_up(bencher: Bencher, protocol: Protocol, remaining: Remaining) -> str:
    """Two requests that count for nothing, the long one only where it does not take long; why there is no point."""
    short = Wanted(WARM_UP, WARM_UP_TOKENS, round=0)
    remaining.say("warming up")
    for _ in range(MOST_IN_A_ROW):
        done = bencher.ask(short)
        if isinstance(done, Pass):
            remaining.done(short, done)
            break
    else:
        return f"the server did not answer: {bencher.failures[-1].why}"
    long = Wanted(WARM_UP, WARM_UP_TOKENS, protocol.long_prompt, round=0)
    if work_of(long, done) < LONGEST_WARM_UP_S:
        remaining.say("warming up: a long prompt")
        remaining.done(long, bencher.ask(long))
        settle(bencher)
    return ""


def requests_of(bencher: Bencher, protocol: Protocol) -> int:
    """How many requests it takes, warm-ups and all, where no more rounds are needed."""
    return requests_for(protocol, bencher.target.runtime)


def requests_for(protocol: Protocol, runtime: str) -> int:
    """The same by the name of the runtime, before there is anybody to ask."""
    followed = len(protocol.cases) * protocol.rounds + 1
    return 1 + followed * (2 if runtime.endswith(SAVES) else 1)


def _saves(bencher: Bencher) -> bool:
    return bencher.target.runtime.endswith(SAVES)


def settle(bencher: Bencher) -> None:
    """Have the server save what it has read; its prompt is none of the protocol's own, which take turns."""
    if _saves(bencher):
        bencher.ask(Wanted(SETTLE, 1, SETTLE_PROMPT, round=0))


def _words(wanted: Wanted) -> str:
    return f"{wanted.prompt_tokens} tokens to read" if wanted.prompt_tokens else f"{wanted.tokens} tokens to generate"


def _wide(passes: list[Pass]) -> bool:
    """Whether more rounds would tell more."""
    spreads = [s for name, s in figures_of(passes).figures.items() if name in (DECODE, PREFILL)]
    return any(not s.agree or s.high - s.low > 2 * WIDE * s.median for s in spreads)


def given_up(bencher: Bencher) -> bool:
    """Whether the last requests all failed, one after the other."""
    if len(bencher.failures) < MOST_IN_A_ROW:
        return False
    first: Failure = bencher.failures[-MOST_IN_A_ROW]
    return all(done.started_s < first.started_s for done in bencher.passes)
