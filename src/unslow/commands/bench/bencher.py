"""Asks a server, one request after the other or many at once, keeps every answer and failure.

Whoever measures (the protocol, a sweep) decides what to ask; the bencher asks it, times it, tells the sampler where
the phases of the request were, and keeps the ledger.
"""

from collections.abc import Callable, Sequence
from threading import Lock, Thread
from typing import NamedTuple

import msgspec

from unslow.commands._output import Progress
from unslow.facts.bench import Failure, Pass
from unslow.facts.run import Phase, Span
from unslow.facts.snapshot import Case, Subject
from unslow.look.bench.prompts import Prompts
from unslow.look.bench.timing import ask, run_delay
from unslow.look.observer import ObservedAnswer, current_observer
from unslow.look.requests import AskError, Question, Reply, Target
from unslow.look.sampler import Sampler
from unslow.look.system import System
from unslow.think.case.view import CaseView
from unslow.think.stats.figures import decode_rate, gaps_of, prefill_rate

FLUSH_EVERY_S = 10.0


class BenchWish(NamedTuple):
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
        self.case = CaseView(Case(runtime=subject.runtime, model=subject.model, run=subject.run))
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

    def ask(self, wanted: BenchWish) -> Pass | Failure:
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

    def _ask(self, wanted: BenchWish, users: int = 1) -> Pass | Failure:
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
        waited = run_delay(self.system, self.target.pid) if users == 1 else None
        start = self.system.clock()
        try:
            reply = ask(self.system, self.target, question)
        except AskError as error:
            return self._note_failure(wanted, start, error)
        self.prompts.learn(len(question.prompt.split()), reply.prompt_tokens + reply.cached_tokens)
        done = pass_of(wanted, reply, start - self.began_s, users)
        if waited is not None and (now := run_delay(self.system, self.target.pid)) is not None:
            done = msgspec.structs.replace(done, waited_for_cpu_s=max(0.0, now - waited))
        with self._lock:
            self.passes.append(done)
            self.last_text = reply.text
        if self._watcher:
            seen = ObservedAnswer(
                case=done.case,
                prompt_tokens=done.prompt_tokens,
                generated_tokens=done.generated_tokens,
                decode_tokens_per_s=decode_rate(done),
                prefill_tokens_per_s=prefill_rate(done),
                round=done.round,
            )
            self._watcher.on_answer(seen)
        if wanted.stream and self.sampler:  # one that came whole does not show when its first token was there
            for span in spans_of(done, start):
                self.sampler.note(span)
        return done

    def together(self, wanted: Sequence[BenchWish]) -> list[Pass | Failure]:
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
                why = AskError("error", f"this machine cannot start that many threads: {error}")
                answers[number] = self._note_failure(wanted[number], self.system.clock(), why)
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

    def _note_failure(self, wanted: BenchWish, start: float, error: AskError) -> Failure:
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


def pass_of(wanted: BenchWish, reply: Reply, started_s: float, users: int) -> Pass:
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
