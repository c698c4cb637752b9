"""Looks and measures for the page: what is offered, a run that others can watch, and what is shown after it."""

import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from unslow.commands._diagnosis_options import Looking
from unslow.commands._fix_commands import spelled
from unslow.commands._output import Progress, Silent
from unslow.commands.bench import BenchRequest
from unslow.commands.bench.bencher import QUICK as QUICK_PROTOCOL
from unslow.commands.bench.bencher import STANDARD, Protocol, requests_for
from unslow.commands.bench.measurement import Result, benchmark
from unslow.commands.bench.server import place_of
from unslow.commands.diagnose.look import Looked, with_log_of, with_notes
from unslow.commands.diagnose.request import EVICT, EVICTED, QUICK, Discretion, limits_of, refusal, wish_of
from unslow.commands.diagnose.target import is_live
from unslow.commands.diagnose.visit import ANYWAY, NONE_SENT, Visit
from unslow.facts.bench import Bench
from unslow.facts.errors import UserError
from unslow.facts.machine import Machine
from unslow.facts.snapshot import Snapshot, Subject
from unslow.facts.values import Unknown
from unslow.look.observer import ObservedAnswer, Observer, observed_by
from unslow.look.sampler import Sampler
from unslow.look.system.live import ClosingSystem, LiveSystem
from unslow.page.build import SeenMachine, seen_of, view_target
from unslow.page.html.document import panel
from unslow.page.server.runs import (
    DoneLine,
    ErrorLine,
    NotThereError,
    Offer,
    PanelLine,
    PassLine,
    ProgressLine,
    RunLine,
    RunWanted,
    StartedRun,
)
from unslow.page.server.state import ServeOptions, ServerState
from unslow.page.timeline import timeline_view
from unslow.page.what_if import Memory, memory_of
from unslow.show.clean import without_controls
from unslow.show.units import rate, span
from unslow.think.judge.judge import diagnose
from unslow.think.stats.verification_report import VerifyReport
from unslow.think.view import Shown, TimelineView


def glance(request: Looking, progress: Progress) -> Snapshot:
    """What can be seen at once of the machine and of what the request names; no subjects where nothing runs."""
    discretion = Discretion.about(request.api_key, request.target)
    with discretion.errors():
        place = place_of(request.target, request.api_key or "", discretion.progress(progress), bandwidth=False)
        subjects = place.snapshot.subjects
        if request.log and subjects:
            subjects = with_log_of(place.system, subjects, request.log)
        seen = msgspec.structs.replace(place.snapshot, subjects=subjects, wish=wish_of(request))
        return discretion.facts(seen)


MeasurementKind = Literal["diagnose", "bench", "depth", "users"]
LABELS: dict[MeasurementKind, str] = {
    "diagnose": "Measure",
    "bench": "Benchmark",
    "depth": "Depth sweep",
    "users": "Users sweep",
}
NOTHING_RUNS = "nothing runs here: the embedded engine is started on a made-up model, and nobody else is asked"


class Offered(NamedTuple):
    """A measurement that could be made."""

    kind: MeasurementKind
    words: str
    refused: str = ""  # Why it can't be made; empty where it can


def offered(seen: Snapshot, subject: Subject | None, request: Looking, kind: MeasurementKind) -> Offered:
    """What one kind would send to a subject, or to the embedded engine where there is none."""
    if request.passive:
        return Offered(kind, "", "--passive was given: start it again without")
    if subject is None or subject.runtime.embedded:
        return Offered(kind, NOTHING_RUNS)
    why = refusal(subject)
    if kind == "diagnose":
        if why:
            return Offered(kind, f"{why.why}: it is only observed, nothing is sent")
        visit = Visit(LiveSystem(), seen, subject, request, limits_of(request))
        return Offered(kind, f"sends {visit.announcement()}")
    if why:
        return Offered(kind, "", f"{why.why}: {why.how_to_get}")
    url = subject.runtime.url.value_or("the server")
    protocol = QUICK_PROTOCOL if limits_of(request) == QUICK else STANDARD
    return Offered(kind, f"{_traffic(kind, subject, protocol)} to {url}")


def _traffic(kind: MeasurementKind, subject: Subject, protocol: Protocol) -> str:
    context = subject.runtime.context_per_slot.value_or(subject.runtime.context_length.value_or(None))
    if kind == "bench":
        protocol = protocol.within(context)
        count = requests_for(protocol, subject.runtime.name.value_or("llama.cpp"))
        largest = max(wanted.tokens + wanted.prompt_tokens for wanted in protocol.cases)
        return f"sends {count} requests or more, of up to {largest:,} tokens each,"
    if kind == "depth":
        room = f"up to {context:,} tokens" if context else "the whole context"
        return f"sends longer and longer prompts, {room}, for up to ten minutes,"
    return "sends more and more requests at once, for up to ten minutes,"


def first_look(wanted: ServeOptions) -> SeenMachine:
    """What can be shown at once: a stored target whole, of a live one whatever needs no measuring."""
    if not is_live(wanted.request.target):
        return view_target(wanted.request, Silent(), benches=wanted.benches, verified=wanted.verified)
    snapshot = glance(wanted.request, Silent())
    report = spelled(diagnose(snapshot), snapshot)
    return seen_of(report, Looked(snapshot), live=True, benches=wanted.benches, verified=wanted.verified)


def memory_at(seen: SeenMachine, number: int, *, live: bool) -> Memory:
    """What answers the sliders of a subject; NotThereError where nothing can be laid out, and why."""
    subjects = seen.view.report.subjects
    if not 0 <= number < len(subjects):
        raise NotThereError(f"there is no subject {number}", f"there are {len(subjects)}, counted from 0")
    case = list(seen.snapshot.cases())[subjects[number].number]
    memory = memory_of(LiveSystem() if live else None, case)
    if isinstance(memory, Unknown):
        raise NotThereError(f"its memory can't be laid out: {memory.why}", memory.how_to_get)
    return memory


def offers_of(seen: SeenMachine, wanted: ServeOptions) -> list[Offer]:
    """All of them; none for what was stored, which nobody can measure any more."""
    if not is_live(wanted.request.target):
        return []
    numbers: list[int | None] = list(range(len(seen.view.report.subjects))) or [None]
    kinds = [kind for kind in LABELS if kind in ("diagnose", "bench") or numbers != [None]]
    offers = []
    for number in numbers:
        subject = subject_at(seen, number)
        measured = subject is not None and "decode_tokens_per_s" in seen.view.report.subjects[number or 0].measured
        for kind in kinds:
            told = offered(seen.snapshot, subject, wanted.request, kind)
            label = "Measure again" if kind == "diagnose" and measured else LABELS[kind]
            offers.append(Offer(kind=kind, subject=number, label=label, words=told.words, refused=told.refused))
    return offers


def check_offered(seen: SeenMachine, wanted: ServeOptions, asked: RunWanted) -> None:
    """UserError where a run is not among the offers, or is refused."""
    found = [one for one in offers_of(seen, wanted) if one.kind == asked.kind]
    # None is whatever runs; where nothing runs, there is no subject to name
    mine = [one for one in found if asked.subject is None or one.subject in (asked.subject, None)]
    if not mine:
        raise UserError("that can't be measured here", "GET /api/v1/offers tells what can")
    if all(one.refused for one in mine):
        raise UserError(mine[0].refused, "GET /api/v1/offers tells what can be measured")


def subject_at(seen: SeenMachine, number: int | None) -> Subject | None:
    """The subject of a place in the report; None for none."""
    if number is None or not seen.view.report.subjects:
        return None
    return seen.snapshot.subjects[seen.view.report.subjects[number].number]


EventKind = Literal["progress", "said", "answer", "timeline", "done", "failed"]
MOST_EVENTS = 500  # Of a run of hours, the last ones
_NEWEST_ONLY: frozenset[EventKind] = frozenset({"progress", "timeline"})
"""Each of these makes the one before it pointless."""


class AnswerSeen(Shown, frozen=True, kw_only=True):
    """One request that was answered, and how fast; a speed that it is too short to tell is None."""

    case: str
    prompt_tokens: int
    generated_tokens: int
    decode_tokens_per_s: float | None = None
    prefill_tokens_per_s: float | None = None
    first_token_s: float | None = None
    users: int = 1
    round: int = 1
    """0 is the warm-up, which counts for nothing."""


class Event(Shown, frozen=True, kw_only=True):
    """One thing that a run told; `number` counts from 1."""

    number: int
    kind: EventKind
    at_s: float
    """Since the run began."""
    text: str = ""
    hint: str = ""
    share: float | None = None
    answer: AnswerSeen | None = None
    timeline: TimelineView | None = None
    stopped: bool = False
    """Of the last one: whether it was ended early."""


class Events:
    """A bounded list that any thread may write and read."""

    def __init__(self) -> None:
        self._kept: list[Event] = []
        self._count = 0
        self._began_s = time.monotonic()
        self._lock = threading.Lock()

    def tell(self, kind: EventKind, **what: Any) -> None:
        with self._lock:
            self._count += 1
            kept = [event for event in self._kept if event.kind != kind] if kind in _NEWEST_ONLY else self._kept
            event = Event(number=self._count, kind=kind, at_s=round(time.monotonic() - self._began_s, 3), **what)
            self._kept = [*kept[-(MOST_EVENTS - 1) :], event]

    def after(self, since: int) -> list[Event]:
        """Those with a larger number, oldest first."""
        with self._lock:
            return [event for event in self._kept if event.number > since]


# Nothing is worked out for nobody: the picture of the samples is made when events are asked for.

LiveKind = Literal["diagnose", "bench"]
LiveState = Literal["waiting", "running", "done", "stopped", "failed"]
PICTURE_EVERY_S = 1.0  # Between two pictures of the samples: nobody follows more, and each takes some milliseconds

_TOO_SOON = "it was stopped before anything was measured"


class LiveRun(Observer):
    """One diagnosis or one benchmark. Its own thread measures, any other may ask or stop it."""

    def __init__(
        self,
        kind: LiveKind,
        request: Looking | BenchRequest,
        *,
        benches: Sequence[Bench] = (),
        verified: VerifyReport | None = None,
    ) -> None:
        self.kind: LiveKind = kind
        self.state: LiveState = "waiting"
        self.seen: SeenMachine | None = None
        """What a diagnosis came to."""
        self.result: Result | None = None
        """What a benchmark came to."""
        self.error: UserError | None = None
        self.bug: BaseException | None = None
        if isinstance(request, Looking) != (kind == "diagnose"):
            raise TypeError(f"{kind} takes the request of one")
        self._request, self._benches, self._verified = request, benches, verified
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
                text = self._measure()
        except UserError as error:
            if self.is_stopping:  # then that is why
                self._end("stopped", _TOO_SOON)
            else:
                self.error = error
                self._end("failed", error.message, error.hint)
        except KeyboardInterrupt:
            self._end("stopped", _TOO_SOON)
        except BaseException as bug:  # noqa: BLE001 (a thread has nobody who would catch it)
            self.bug = bug
            self._end("failed", f"a bug in unslow: {type(bug).__name__}: {bug}", "please report it")
        else:
            self._end("stopped" if self.is_stopping else "done", text)

    def _measure(self) -> str:
        if isinstance(self._request, Looking):
            self.seen = view_target(self._request, self, benches=self._benches, verified=self._verified)
            return " ".join(subject.summary for subject in self.seen.view.report.subjects)
        self.result = benchmark(self._request, self)
        return live_words(self.result.bench)

    def _end(self, state: LiveState, text: str, hint: str = "") -> None:
        self._pictured_s = -PICTURE_EVERY_S  # the last samples are drawn, however soon after the others
        self._picture()
        self.state = state
        self._events.tell(
            "failed" if state == "failed" else "done", text=text, hint=hint, share=1.0, stopped=state == "stopped"
        )

    def say(self, text: str) -> None:
        self._events.tell("said", text=text)

    def step(self, text: str, share: float) -> None:
        self._events.tell("progress", text=text, share=min(1.0, max(0.0, share)))

    def looked_at(self, machine: Machine) -> None:
        self._machine = machine

    def sampling(self, sampler: Sampler) -> None:
        """A sampler has started: from now on the picture is of what it sees."""
        self._sampler, self._pictured = sampler, 0

    def answered(self, answer: ObservedAnswer) -> None:
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


def live_words(bench: Bench) -> str:
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


def run_of(seen: SeenMachine, wanted: ServeOptions, asked: RunWanted) -> LiveRun:
    """The run, not started yet."""
    if asked.evict:
        wanted = wanted._replace(request=wanted.request._replace(evict=True))
    if asked.kind == "diagnose":
        request = diagnosis_of(seen, wanted.request, asked)
        return LiveRun("diagnose", request, benches=wanted.benches, verified=wanted.verified)
    return LiveRun("bench", bench_of(seen, wanted.request, asked))


def diagnosis_of(seen: SeenMachine, request: Looking, asked: RunWanted) -> Looking:
    """The diagnosis of one server, or of all there are."""
    request = request._replace(quick=True, seconds=None) if asked.quick else request
    url = only_url(seen, asked)
    return request._replace(target=url) if url else request


def only_url(seen: SeenMachine, asked: RunWanted) -> str:
    """The one server that a diagnosis is of; empty where there is one at most, or none is named."""
    subject = subject_at(seen, asked.subject)
    return subject.runtime.url.value_or("") if subject and len(seen.snapshot.subjects) > 1 else ""


def bench_of(seen: SeenMachine, request: Looking, asked: RunWanted) -> BenchRequest:
    """The benchmark or sweep of one subject, or of the embedded engine where nothing runs."""
    subject = subject_at(seen, asked.subject if asked.subject is not None else 0)
    quick = asked.quick or limits_of(request) == QUICK
    target, model = None, request.model
    if subject and not subject.runtime.embedded:
        target = subject.runtime.url.value_or(None)
        same = [one for one in seen.snapshot.subjects if one.runtime.url == subject.runtime.url]
        model = subject.model.name.value_or(None) if len(same) > 1 else None
    sweep = () if asked.kind == "bench" else (asked.kind,)
    return BenchRequest(
        target=target, quick=quick, sweep=sweep, model=model, evict=request.evict, api_key=request.api_key
    )


def with_diagnosis(before: SeenMachine, after: SeenMachine, wanted: ServeOptions, url: str) -> SeenMachine:
    """The new diagnosis; where it is of one server among several, the others stay as they were seen."""
    old = [(subject, _notes(before, n)) for n, subject in enumerate(before.snapshot.subjects)]
    new = [(subject, _notes(after, n)) for n, subject in enumerate(after.snapshot.subjects)]
    others = [one for one in old if one[0].runtime.url.value_or("") != url]
    if not url or not others:
        return after
    all_of_them = [*new, *others]
    snapshot = msgspec.structs.replace(after.snapshot, subjects=tuple(subject for subject, _ in all_of_them))
    looked = Looked(snapshot, tuple(notes for _, notes in all_of_them), after.looked.course)
    return _seen(looked, wanted, before.benches)


def _notes(seen: SeenMachine, number: int) -> tuple[str, ...]:
    notes = seen.looked.notes
    return notes[number] if number < len(notes) else ()


def with_bench(before: SeenMachine, bench: Bench, wanted: ServeOptions) -> SeenMachine:
    """The same subjects with the curves and the timeline of a benchmark."""
    return _seen(before.looked, wanted, (bench, *before.benches))


def _seen(looked: Looked, wanted: ServeOptions, benches: tuple[Bench, ...]) -> SeenMachine:
    report = with_notes(spelled(diagnose(looked.snapshot), looked.snapshot), looked)
    live = is_live(wanted.request.target)
    return seen_of(report, looked, live=live, benches=benches, verified=wanted.verified)


_OFTEN_S, _SELDOM_S = 0.15, 1.0  # Between two looks at a run: while somebody follows it, and while nobody does


def begin(desk: ServerState) -> None:
    """Start the diagnosis that was asked for on the command line."""
    desk.book.start(RunWanted(kind="diagnose", subject=None), lambda entry: perform(desk, entry))


def perform(desk: ServerState, entry: StartedRun) -> None:
    """The whole of a run; it ends with a line that says how, whatever happens."""
    try:
        seen = desk.seen()
        live = run_of(seen, desk.wanted, entry.wanted)
        entry.run = live.start()
        if entry.is_unwanted:
            live.stop()
        since, over = 0, False
        while not over:
            over = live.wait(_OFTEN_S if entry.watchers else _SELDOM_S)
            for event in live.events(since, pictures=entry.watchers > 0):  # drawn only where somebody looks
                since = event.number
                if line := _line(event, entry, seen):
                    entry.tell(line)
        entry.tell(_ending(desk, entry, live))
    except Exception as bug:  # noqa: BLE001 (a page that waits for ever would be worse)
        sys.stderr.write(without_controls(traceback.format_exc()))
        entry.tell(ErrorLine(message=f"a bug in unslow: {type(bug).__name__}", hint="the terminal says more"))


def _line(event: Event, entry: StartedRun, seen: SeenMachine) -> RunLine | None:
    """An event as the page is told it; the last one waits until the page's view is new."""
    if event.kind in ("progress", "said"):
        # What is told in a terminal, where no command was given and a button stops
        text = event.text.removesuffix(NONE_SENT).removesuffix(ANYWAY).replace("Ctrl-C", "Stop")
        return ProgressLine(text=text, share=event.share)
    if event.kind == "timeline" and event.timeline and entry.watchers:
        return _picture(event.timeline, entry.wanted.subject or 0, seen)
    if event.kind == "answer" and event.answer and event.answer.round:
        answer = event.answer
        words = f"{answer.case}: {answer.generated_tokens:,} tokens after {answer.prompt_tokens:,}"
        return PassLine(text=words, tokens_per_s=answer.decode_tokens_per_s)
    return None


def _picture(timeline: TimelineView, number: int, seen: SeenMachine) -> PanelLine | None:
    if number >= len(seen.view.subjects):
        return None  # an engine that was started for this: the page has no place for it yet
    subjects = list(seen.view.subjects)
    subjects[number] = msgspec.structs.replace(subjects[number], timeline=timeline)
    view = msgspec.structs.replace(seen.view, subjects=tuple(subjects))
    return PanelLine(subject=number, name="timeline", html=str(panel(view, number, "timeline")))


def _ending(desk: ServerState, entry: StartedRun, live: LiveRun) -> RunLine:
    if live.error:
        if live.error.hint == EVICT:
            return ErrorLine(message=live.error.message, anyway=EVICTED)
        return ErrorLine(message=live.error.message, hint=live.error.hint)
    if live.bug:
        sys.stderr.write(without_controls("".join(traceback.format_exception(live.bug))))
        return ErrorLine(message=f"a bug in unslow: {type(live.bug).__name__}", hint="the terminal says more")
    if desk.closing:
        return DoneLine(text="the page was closed", stopped=True)
    before = desk.seen()
    if live.seen:
        desk.take(with_diagnosis(before, live.seen, desk.wanted, only_url(before, entry.wanted)))
    elif live.result:
        desk.take(with_bench(before, live.result.bench, desk.wanted))
    desk.prepare()
    last = live.events()[-1]
    moved = _order(before) != _order(desk.seen())
    speeds = [subject.run.decode_tokens_per_s for subject in live.seen.snapshot.subjects] if live.seen else []
    # Whether nothing was asked for the sake of a conversation
    only_observed = any(isinstance(speed, Unknown) and speed.how_to_get == EVICT for speed in speeds)
    # What came of it in a sentence: the rest stands in the verdict
    first, stop, _ = last.text.partition(". ")
    said = first + stop.strip()
    ended = f"stopped: {said}" if last.stopped and "stopped" not in said else said
    return DoneLine(text=ended, stopped=last.stopped, reload=moved, anyway=EVICTED if only_observed else "")


def _order(seen: SeenMachine) -> list[tuple[int, str]]:
    """Which subject is where: another order, or another number of them, is another page."""
    return [(subject.number, subject.url) for subject in seen.view.report.subjects]
