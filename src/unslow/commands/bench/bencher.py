"""Asks a server, one request after the other or many at once, keeps every answer and failure.

Whoever measures (the protocol, a sweep) decides what to ask; the bencher asks it, times it, tells the sampler where
the phases of the request were, and keeps the ledger.
"""

from collections.abc import Callable, Sequence
from threading import Lock, Thread
from typing import Literal, NamedTuple

import msgspec

from unslow.commands._output import Progress
from unslow.facts.bench import DECODE, PREFILL, Failure, Pass
from unslow.facts.run import Phase, Span
from unslow.facts.snapshot import Case, Subject
from unslow.look.bench.prompts import Prompts
from unslow.look.bench.timing import ask
from unslow.look.kernel.processors import read_run_delay
from unslow.look.observer import ObservedAnswer, current_observer
from unslow.look.requests import AskError, Question, Reply, Target
from unslow.look.sampler import Sampler
from unslow.look.system import LookError, System
from unslow.think.stats.figures import decode_rate, figures_of, gaps_of, prefill_rate

FLUSH_EVERY_S = 10.0


class Wanted(NamedTuple):
    """A request to make."""

    case: str
    tokens: int
    prompt_tokens: int = 0  # How long the prompt shall be; 0 takes one of the protocol's own
    prompt: str = ""  # The prompt itself, where the case needs a certain one
    round: int = 1
    keep: bool = False
    greedy: bool = False
    slot: int | None = None
    stream: bool = True
    """Whether each token is sent as it comes; else the answer comes whole, and only the server's clock tells."""


class Bencher:
    """One server and everything that was asked of it."""

    def __init__(
        self, system: System, subject: Subject, target: Target, progress: Progress, sampler: Sampler | None = None
    ) -> None:
        self.system, self.subject, self.target, self.progress, self.sampler = system, subject, target, progress, sampler
        self.case = Case(runtime=subject.runtime, model=subject.model, run=subject.run)
        """What expectations are worked out from; with the machine, where it is known."""
        self.prompts = Prompts(system, target)
        self.passes: list[Pass] = []
        self.failures: list[Failure] = []
        self.interrupted = False
        self.flush: Callable[[], None] | None = None
        """Writes down what there is so far; long measurements call it now and then."""
        self.last_text = ""
        """How the last answer began: a conversation goes on from it; kept nowhere."""
        self.slot: int | None = None
        self.silence_s, self.deadline_s = 300.0, 3600.0
        self.began_s = self._flushed_s = system.clock()
        self._lock = Lock()
        self._watcher = current_observer()

    def ask(self, wanted: Wanted) -> Pass | Failure:
        """One request; whatever comes of it is in the ledger too."""
        self._go_on()
        done = self._ask(wanted)
        self._go_on()
        self._flush()
        return done

    def _go_on(self) -> None:
        """As with Ctrl-C, where somebody who watches has seen enough."""
        if self._watcher and self._watcher.is_stopping:
            raise KeyboardInterrupt

    def _ask(self, wanted: Wanted, users: int = 1) -> Pass | Failure:
        prompt = wanted.prompt or self.prompts.prompt(wanted.prompt_tokens)
        slot = wanted.slot if wanted.slot is not None else self.slot
        question = Question(
            prompt,
            wanted.tokens,
            slot,
            keep=wanted.keep,
            greedy=wanted.greedy,
            stream=wanted.stream,
            silence_s=self.silence_s,
            deadline_s=self.deadline_s,
        )
        waited = cpu_wait_s(self.system, self.target.pid) if users == 1 else None
        start = self.system.clock()
        try:
            reply = ask(self.system, self.target, question)
        except AskError as error:
            return self._failed(wanted, start, error)
        self.prompts.learn(len(question.prompt.split()), reply.prompt_tokens + reply.cached_tokens)
        done = pass_of(wanted, reply, start - self.began_s, users)
        if waited is not None and (now := cpu_wait_s(self.system, self.target.pid)) is not None:
            done = msgspec.structs.replace(done, waited_for_cpu_s=max(0.0, now - waited))
        with self._lock:
            self.passes.append(done)
            self.last_text = reply.text
        if self._watcher:
            self._watcher.answered(answer_of(done))
        if wanted.stream and self.sampler:  # one that came whole does not show when its first token was there
            for span in spans_of(done, start):
                self.sampler.note(span)
        return done

    def together(self, wanted: Sequence[Wanted]) -> list[Pass | Failure]:
        """Several requests at the same time, each on a connection of its own; Ctrl-C waits for none of them."""
        self._go_on()
        answers: dict[int, Pass | Failure] = {}

        def one(number: int) -> None:
            answers[number] = self._ask(wanted[number], len(wanted))

        threads = []
        for number in range(len(wanted)):
            thread = Thread(target=one, args=(number,), daemon=True)
            try:
                thread.start()
                threads.append(thread)
            except RuntimeError as error:
                why = AskError("error", f"this machine has no room for so many threads: {error}")
                answers[number] = self._failed(wanted[number], self.system.clock(), why)
        for thread in threads:
            thread.join()
        self._go_on()
        self._flush()
        return [answers[number] for number in sorted(answers)]

    def _flush(self) -> None:
        """Between two requests, and not often: writing takes a moment, and must not fall into one."""
        if self.flush is not None and self.system.clock() - self._flushed_s > FLUSH_EVERY_S:
            self.flush()
            self._flushed_s = self.system.clock()

    def _failed(self, wanted: Wanted, start: float, error: AskError) -> Failure:
        failure = Failure(
            case=wanted.case,
            round=wanted.round,
            started_s=max(0.0, start - self.began_s),
            lasted_s=max(0.0, self.system.clock() - start),
            kind=error.kind,
            why=error.why,
            generated_tokens=error.pieces,
        )
        if self._watcher and self._watcher.is_stopping:
            return failure  # it was cut off from here: no failure of the server
        with self._lock:
            self.failures.append(failure)
        return failure


def cpu_wait_s(system: System, pid: int | None) -> float | None:
    """For how long the server's threads have waited for a processor so far; None where it can't be told."""
    try:
        return read_run_delay(system, pid) if pid is not None else None
    except LookError:
        return None


def pass_of(wanted: Wanted, reply: Reply, started_s: float, users: int) -> Pass:
    """A reply as the ledger has it."""
    return Pass(
        case=wanted.case,
        round=wanted.round,
        started_s=max(0.0, started_s),
        asked_tokens=wanted.tokens,
        prompt_tokens=reply.prompt_tokens,
        cached_tokens=reply.cached_tokens,
        generated_tokens=reply.generated_tokens,
        thinking_tokens=reply.thinking_tokens,
        ended_early=reply.ended_early,
        server_prefill_s=reply.server_prefill_s,
        server_decode_s=reply.server_decode_s,
        server_load_s=reply.server_load_s,
        server_queue_s=reply.server_queue_s,
        client_first_token_s=reply.arrivals_s[0] if reply.arrivals_s else reply.total_s,
        client_last_token_s=reply.arrivals_s[-1] if reply.arrivals_s else reply.total_s,
        client_total_s=reply.total_s,
        gaps=gaps_of(reply.arrivals_s, reply.generated_tokens),
        users=users,
    )


def answer_of(done: Pass) -> ObservedAnswer:
    """A pass as whoever watches is told of it."""
    return ObservedAnswer(
        case=done.case,
        prompt_tokens=done.prompt_tokens,
        generated_tokens=done.generated_tokens,
        decode_tokens_per_s=decode_rate(done),
        prefill_tokens_per_s=prefill_rate(done),
        round=done.round,
    )


def spans_of(done: Pass, start: float) -> list[Span]:
    """Where the phases of a request were: what came before the prompt was read is waiting, or loading."""
    first, last = start + done.client_first_token_s, start + done.client_last_token_s
    told = done.server_prefill_s if done.server_prefill_s is not None else done.client_first_token_s
    prefill = first - min(told, done.client_first_token_s)
    load = start + min(done.server_load_s or 0.0, prefill - start)
    edges: tuple[tuple[Phase, float, float], ...] = (
        ("load", start, load),
        ("queue", load, prefill),
        ("prefill", prefill, first),
        ("decode", first, last),
    )
    return [Span(phase=phase, start_s=a, end_s=b) for phase, a, b in edges if b > a]


_MINUTE_S = 60.0
_LONG_S = 300.0


def work_of(wanted: Wanted, like: Pass) -> float:
    """About how long a request takes, by one that was answered."""
    step = like.client_last_token_s - like.client_first_token_s
    token = step / max(1, like.generated_tokens - 1)
    prompt_token = like.client_first_token_s / max(1, like.prompt_tokens)
    return wanted.tokens * token + (wanted.prompt_tokens or like.prompt_tokens) * min(prompt_token, token)


def about(seconds: float) -> str:
    """A duration in words."""
    if seconds < _MINUTE_S:
        return f"about {max(1.0, seconds):.0f} s"
    return f"about {seconds / _MINUTE_S:.0f} min" if seconds >= 2 * _MINUTE_S else "about a minute or two"


class Remaining:
    """Says what is being done and how much is left; the share is of the time, not of the requests."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._seconds: dict[tuple[str, int], float] = {}
        self._like: Pass | None = None
        self._plan: list[Wanted] = []
        self._spent = 0.0

    def announce(self, plan: Sequence[Wanted], *, quick: bool = False) -> None:
        """What is to be asked; a long benchmark is said to be one before it starts."""
        self._plan = list(plan)
        left = self._left()
        if left > _LONG_S:
            shorter = "" if quick else ", and --quick is shorter"
            self._progress.say(f"this takes {about(left)}; Ctrl-C keeps what was measured{shorter}")

    def step(self, text: str, wanted: Wanted) -> None:
        """The next request."""
        if not self._plan:
            self._plan = [wanted]  # a round that was not planned
        left = self._left()
        self._progress.step(f"{text}, {about(left)} left", self._spent / max(self._spent + left, 1e-9))

    def done(self, wanted: Wanted, outcome: Pass | Failure) -> None:
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


# The standard protocol: two questions that ask for a long answer, and one prompt that fills 4K of context.
#
# A warm-up counts for nothing; then rounds of all three, so that a slow minute touches each of them. Every prompt is
# new from its first word on, so no cache answers. Three rounds at least, more while they disagree. After each request
# comes a tiny one that counts for nothing: llama-server saves what it has read when another prompt comes, and who comes
# waits.

SHORT, LONG, WARM_UP, SETTLE = "short", "long", "warm-up", "settle"
WARM_UP_TOKENS = 16
ROOM_TOKENS = 64  # Of the context, for what a chat template adds and for tokens that were counted wrong
FIT_STEP, SPARE = 512, 4
"""Long prompts nearly fill whole batches of the usual size: one token more would be a batch of its own."""
LONGEST_WARM_UP_S = 20.0
SETTLE_PROMPT = 8
SAVES = ("llama.cpp", "Ollama")
"""How the names of runtimes end that save what they have read when another prompt comes."""
WIDE = 0.04  # More rounds where the interval of a figure is wider than this on either side
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
            to_read, to_generate = wanted.prompt_tokens, wanted.tokens
            what = f"{to_read} tokens to read" if to_read else f"{to_generate} tokens to generate"
            remaining.step(f"round {number} of {max(number, protocol.rounds)}: {what}", wanted)
            remaining.done(wanted, bencher.ask(wanted._replace(round=number)))
            settle(bencher)
            if given_up(bencher):
                return f"{MOST_IN_A_ROW} requests in a row failed"
    bencher.progress.step("measured", 1.0)
    return ""


def _warm_up(bencher: Bencher, protocol: Protocol, remaining: Remaining) -> str:
    """Two requests that count for nothing, the long one only where it does not take long; why there is no point."""
    short = Wanted(WARM_UP, WARM_UP_TOKENS, round=0)
    bencher.progress.step("warming up", 0.0)
    for _ in range(MOST_IN_A_ROW):
        done = bencher.ask(short)
        if isinstance(done, Pass):
            remaining.done(short, done)
            break
    else:
        return f"the server did not answer: {bencher.failures[-1].why}"
    long = Wanted(WARM_UP, WARM_UP_TOKENS, protocol.long_prompt, round=0)
    if work_of(long, done) < LONGEST_WARM_UP_S:
        bencher.progress.step("warming up: a long prompt", 0.0)
        remaining.done(long, bencher.ask(long))
        settle(bencher)
    return ""


def requests_for(protocol: Protocol, runtime: str) -> int:
    """How many requests it takes, warm-ups and all, where no more rounds are needed; by the name of the runtime."""
    followed = len(protocol.cases) * protocol.rounds + 1
    return 1 + followed * (2 if runtime.endswith(SAVES) else 1)


def settle(bencher: Bencher) -> None:
    """Have the server save what it has read; its prompt is none of the protocol's own, which take turns."""
    if bencher.target.runtime.endswith(SAVES):
        bencher.ask(Wanted(SETTLE, 1, SETTLE_PROMPT, round=0))


def _wide(passes: list[Pass]) -> bool:
    spreads = [s for name, s in figures_of(passes).figures.items() if name in (DECODE, PREFILL)]
    return any(not s.agree or s.high - s.low > 2 * WIDE * s.median for s in spreads)


def given_up(bencher: Bencher) -> bool:
    """Whether the last requests all failed, one after the other."""
    if len(bencher.failures) < MOST_IN_A_ROW:
        return False
    first: Failure = bencher.failures[-MOST_IN_A_ROW]
    return all(done.started_s < first.started_s for done in bencher.passes)
