"""A run that others can watch: it goes on in a thread of its own, and tells whoever asks how far it is.

Nothing is worked out for nobody: the picture of the samples is made when events are asked for.
"""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Literal

from unslow.app.bench.command import Result, benchmark
from unslow.app.bench.request import Request as BenchRequest
from unslow.app.request import Request
from unslow.app.view.build import Seen, view_target
from unslow.app.view.events import AnswerSeen, Event, Events
from unslow.facts.bench import Bench
from unslow.facts.errors import UserError
from unslow.facts.machine import Machine
from unslow.look.observed import Answer, Observer, observed_by
from unslow.look.sampler import Sampler
from unslow.look.system.closing import ClosingSystem
from unslow.show._units import rate, span
from unslow.think.verify.report import VerifyReport
from unslow.think.view.timeline import timeline_view

Kind = Literal["diagnose", "bench"]
State = Literal["waiting", "running", "done", "stopped", "failed"]
PICTURE_EVERY_S = 1.0
"""Between two pictures of the samples: nobody follows more, and each takes some milliseconds."""

_TOO_SOON = "it was stopped before anything was measured"


class LiveRun(Observer):
    """One diagnosis or one benchmark. Its own thread measures, any other may ask or stop it."""

    def __init__(
        self,
        kind: Kind,
        request: Request | BenchRequest,
        *,
        benches: Sequence[Bench] = (),
        verified: VerifyReport | None = None,
    ) -> None:
        self.kind: Kind = kind
        self.state: State = "waiting"
        self.seen: Seen | None = None
        """What a diagnosis came to."""
        self.result: Result | None = None
        """What a benchmark came to."""
        self.error: UserError | None = None
        self.bug: BaseException | None = None
        self._work = self._diagnosis(request, benches, verified) if kind == "diagnose" else self._bench(request)
        self._events = Events()
        self._machine = Machine()
        self._sampler: Sampler | None = None
        self._doors: list[ClosingSystem] = []
        self._pictured_s, self._pictured = -PICTURE_EVERY_S, 0
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=f"unslow {kind}", daemon=True)

    def start(self) -> "LiveRun":
        """Begin; a second call is a mistake."""
        self.state = "running"
        self._thread.start()
        return self

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes."""
        return self.state not in ("waiting", "running")

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for its end; whether it has come."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def stop(self) -> None:
        """As with Ctrl-C: no more is measured, and what is known by now is the result."""
        self.is_stopping = True
        for door in tuple(self._doors):
            door.stop_from_afar()

    def events(self, since: int = 0, *, pictures: bool = True) -> list[Event]:
        """What was told after that number, oldest first, with a new picture of the samples where it is time for one."""
        if pictures:
            self._picture()
        return self._events.after(since)

    def _run(self) -> None:
        try:
            with observed_by(self):
                text = self._work()
        except UserError as error:
            self._failed(error)
        except KeyboardInterrupt:
            self._end("stopped", _TOO_SOON)
        except BaseException as bug:  # noqa: BLE001 (a thread has nobody who would catch it)
            self.bug = bug
            self._end("failed", f"a bug in unslow: {type(bug).__name__}: {bug}", "please report it")
        else:
            self._end("stopped" if self.is_stopping else "done", text)

    def _failed(self, error: UserError) -> None:
        """The end of a run that could not be done; where somebody stopped it, that is why."""
        if self.is_stopping:
            self._end("stopped", _TOO_SOON)
            return
        self.error = error
        self._end("failed", error.message, error.hint)

    def _end(self, state: State, text: str, hint: str = "") -> None:
        self._pictured_s = -PICTURE_EVERY_S  # the last samples are drawn, however soon after the others
        self._picture()
        self.state = state
        self._events.tell(
            "failed" if state == "failed" else "done", text=text, hint=hint, share=1.0, stopped=state == "stopped"
        )

    def _diagnosis(
        self, request: Request | BenchRequest, benches: Sequence[Bench], verified: VerifyReport | None
    ) -> Callable[[], str]:
        if not isinstance(request, Request):
            raise TypeError("a diagnosis takes the request of one")

        def work() -> str:
            self.seen = view_target(request, self, benches=benches, verified=verified)
            return " ".join(subject.summary for subject in self.seen.view.report.subjects)

        return work

    def _bench(self, request: Request | BenchRequest) -> Callable[[], str]:
        if not isinstance(request, BenchRequest):
            raise TypeError("a benchmark takes the request of one")

        def work() -> str:
            self.result = benchmark(request, self)
            return words_of(self.result.bench)

        return work

    def say(self, text: str) -> None:
        """A line that stays."""
        self._events.tell("said", text=text)

    def step(self, text: str, share: float) -> None:
        """What is being done now, and how much of it is done."""
        self._events.tell("progress", text=text, share=min(1.0, max(0.0, share)))

    def looked_at(self, machine: Machine) -> None:
        """The machine, for the limits in the picture."""
        self._machine = machine

    def sampling(self, sampler: Sampler) -> None:
        """A sampler has started: from now on the picture is of what it sees."""
        self._sampler, self._pictured = sampler, 0

    def answered(self, answer: Answer) -> None:
        """A request was answered; one that tells no speed is only in the way."""
        if answer.decode_tokens_per_s is not None or answer.prefill_tokens_per_s is not None:
            self._events.tell("answer", answer=AnswerSeen(**answer._asdict()))

    def entered(self, door: ClosingSystem) -> None:
        """The door that `stop` closes."""
        self._doors.append(door)
        if self.is_stopping:
            door.stop_from_afar()

    def _picture(self) -> None:
        sampler, now = self._sampler, time.monotonic()
        with self._lock:
            if sampler is None or now - self._pictured_s < PICTURE_EVERY_S:
                return
            self._pictured_s = now
            timeline = sampler.timeline()
            if timeline is None or sampler.samples == self._pictured:
                return
            self._pictured = sampler.samples
        self._events.tell("timeline", timeline=timeline_view(timeline, self._machine))


def words_of(bench: Bench) -> str:
    """What a benchmark came to, in a line."""
    parts = [f"{sweep.axis}: {sweep.verdict.replace('_', ' ')}, {sweep.because}" for sweep in bench.sweeps]
    told = [words(bench.figures[name].median) for name, words in _FIGURES.items() if name in bench.figures]
    said = "; ".join([*parts, ", ".join(told)] if told else parts) or "nothing was measured"
    if not bench.failures:
        return said
    asked = len(bench.passes) + len(bench.failures)
    return f"{said}; {len(bench.failures)} of {asked} requests failed: {bench.failures[0].why}"


_FIGURES: dict[str, Callable[[float], str]] = {
    "decode_tokens_per_s": lambda speed: f"answers at {rate(speed)} tok/s",
    "prefill_tokens_per_s": lambda speed: f"prompts at {rate(speed)} tok/s",
    "time_to_first_token_s": lambda seconds: f"the first token after {span(seconds)}",
}
