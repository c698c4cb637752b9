"""Looks and measures for the page: what is offered, a run that others can watch, and what is shown after it."""

import threading
from collections.abc import Callable
from itertools import chain, repeat

import msgspec

from unslow.commands._command_lines import with_fix_commands
from unslow.commands._formats import Looking
from unslow.commands._output import Silent
from unslow.commands.bench import BenchRequest
from unslow.commands.bench.measurement import benchmark
from unslow.commands.bench.protocol import QUICK as QUICK_PROTOCOL
from unslow.commands.bench.protocol import STANDARD, requests_for
from unslow.commands.bench.server import place_of
from unslow.commands.diagnose.discretion import Discretion
from unslow.commands.diagnose.look import LookResult, with_log_of, with_notes
from unslow.commands.diagnose.permission import EVICT, EVICTED, refusal
from unslow.commands.diagnose.request import QUICK, limits_of, wish_of
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
from unslow.page.build import SeenMachine, build_view, view_target
from unslow.page.html.document import panel
from unslow.page.html.markup import Offer, RunKind
from unslow.page.server import runs
from unslow.page.server.state import ServeOptions, ServerState
from unslow.page.timeline import timeline_view
from unslow.page.view import TimelineView
from unslow.page.what_if import memory_of
from unslow.page.what_if.memory_view import Memory
from unslow.show.units import rate, span
from unslow.think.case.view import views_of
from unslow.think.judge.judge import diagnose

LABELS: dict[RunKind, str] = {
    "diagnose": "Measure",
    "bench": "Benchmark",
    "depth": "Depth sweep",
    "users": "User sweep",
}
NOTHING_RUNS = "no server is running: this starts the embedded engine on a synthetic model and contacts nothing else"
_TOO_SOON = "stopped before anything was measured"
_PICTURE_EVERY_S = (
    1.0  # Between two pictures of the samples: more are too fast to follow, and each takes some milliseconds
)
_FIGURES: dict[str, Callable[[float], str]] = {
    "decode_tokens_per_s": lambda speed: f"decode {rate(speed)} tok/s",
    "prefill_tokens_per_s": lambda speed: f"prefill {rate(speed)} tok/s",
    "time_to_first_token_s": lambda seconds: f"time to first token {span(seconds)}",
}


def first_look(wanted: ServeOptions) -> SeenMachine:
    """What can be shown at once: a stored target whole, of a live one whatever needs no measuring."""
    if not is_live(wanted.request.target):
        return view_target(wanted.request, Silent(), benches=wanted.benches, verified=wanted.verified)
    return _rediagnose(LookResult(inspect_target(wanted.request)), wanted, wanted.benches)


def inspect_target(request: Looking) -> Snapshot:
    """What can be seen at once of the machine and of what the request names; no subjects where nothing runs."""
    discretion = Discretion.about(request.api_key, request.target)
    with discretion.errors():
        place = place_of(request.target, request.api_key or "", Silent(), bandwidth=False)
        subjects = place.snapshot.subjects
        if request.log and subjects:
            subjects = with_log_of(place.system, subjects, request.log)
        seen = msgspec.structs.replace(place.snapshot, subjects=subjects, wish=wish_of(request))
        return discretion.facts(seen)


def memory_at(seen: SeenMachine, number: int, *, live: bool) -> Memory:
    """What answers the sliders of a subject; NotThereError where nothing can be laid out, and why."""
    subjects = seen.view.report.subjects
    if not 0 <= number < len(subjects):
        raise runs.NotThereError(f"no subject {number}", f"there are {len(subjects)}, numbered from 0")
    case = list(views_of(seen.snapshot))[subjects[number].number]
    memory = memory_of(LiveSystem() if live else None, case)
    if isinstance(memory, Unknown):
        raise runs.NotThereError(f"its memory layout is unknown: {memory.why}", memory.how_to_get)
    return memory


def offers_of(seen: SeenMachine, wanted: ServeOptions) -> list[Offer]:
    """All of them; none for what was stored, which is not measured again."""
    if not is_live(wanted.request.target):
        return []
    numbers: list[int | None] = list(range(len(seen.view.report.subjects))) or [None]
    kinds = [kind for kind in LABELS if kind in ("diagnose", "bench") or numbers != [None]]
    offers = []
    for number in numbers:
        subject = subject_at(seen, number)
        measured = subject is not None and "decode_tokens_per_s" in seen.view.report.subjects[number or 0].measured
        for kind in kinds:
            label = "Measure again" if kind == "diagnose" and measured else LABELS[kind]
            offer = make_offer(seen.snapshot, subject, wanted.request, kind)
            offers.append(msgspec.structs.replace(offer, subject=number, label=label))
    return offers


def make_offer(seen: Snapshot, subject: Subject | None, request: Looking, kind: RunKind) -> Offer:
    """What one kind would send to a subject, or to the embedded engine where there is none."""
    offer = Offer(kind=kind, label=LABELS[kind], words=NOTHING_RUNS)
    if request.passive:
        return msgspec.structs.replace(offer, words="", refused="started with --passive: restart without it to measure")
    if subject is None or subject.runtime.embedded:
        return offer
    why = refusal(subject)
    context = subject.runtime.context.per_slot.value_or(subject.runtime.context.length.value_or(None))
    if kind == "diagnose" and why:
        words = f"{why.why}: it is only observed, nothing is sent"
    elif kind == "diagnose":
        visit = Visit(LiveSystem(), seen, subject, request, limits_of(request))
        words = f"sends {visit.announcement()}"
    elif why:
        return msgspec.structs.replace(offer, words="", refused=f"{why.why}: {why.how_to_get}")
    elif kind == "bench":
        protocol = (QUICK_PROTOCOL if limits_of(request) == QUICK else STANDARD).within(context)
        count = requests_for(protocol, subject.runtime.name.value_or("llama.cpp"))
        largest = max(wanted.tokens + wanted.prompt_tokens for wanted in protocol.cases)
        words = f"sends at least {count} requests of up to {largest:,} tokens each"
    elif kind == "depth":
        room = f"up to {context:,} tokens" if context else "up to the full context"
        words = f"sends increasingly long prompts, {room}, for up to 10 minutes,"
    else:
        words = "sends increasingly many concurrent requests, for up to 10 minutes,"
    to = "" if kind == "diagnose" else f" to {subject.runtime.process.url.value_or('the server')}"
    return msgspec.structs.replace(offer, words=f"{words}{to}")


def check_offered(seen: SeenMachine, wanted: ServeOptions, asked: runs.RunWanted) -> None:
    """UserError where a run is not among the offers, or is refused."""
    found = [one for one in offers_of(seen, wanted) if one.kind == asked.kind]
    # None is whatever runs; where nothing runs, there is no subject to name
    mine = [one for one in found if asked.subject is None or one.subject in (asked.subject, None)]
    if not mine:
        raise UserError("this cannot be measured here", "GET /api/v1/offers lists what can")
    if all(one.refused for one in mine):
        raise UserError(mine[0].refused, "GET /api/v1/offers lists what can be measured")


def subject_at(seen: SeenMachine, number: int | None) -> Subject | None:
    """The subject of a place in the report; None for none."""
    if number is None or not seen.view.report.subjects:
        return None
    return seen.snapshot.subjects[seen.view.report.subjects[number].number]


class LiveRun(Observer):
    """One diagnosis or one benchmark. Its own thread measures and tells its lines, any other may stop it."""

    def __init__(
        self, request: Looking | BenchRequest, wanted: ServeOptions, tell: Callable[[runs.RunLine], None]
    ) -> None:
        self.seen: SeenMachine | None = None  # What a diagnosis came to
        self.bench: Bench | None = None  # What a benchmark came to
        self.text = ""  # The same in words
        self.was_stopped = False
        self.failure: BaseException | None = None
        self._request, self._wanted, self._tell = request, wanted, tell
        self._machine = Machine()
        self._sampler: Sampler | None = None
        self._samples_drawn = 0
        self._doors: list[ClosingSystem] = []
        self._thread = threading.Thread(target=self._run, name="unslow run", daemon=True)

    def start(self) -> None:
        """Begin; a second call is a mistake."""
        self._thread.start()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for its end; whether it has come."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def stop(self) -> None:
        """As with Ctrl-C: no more is measured, and what is known by now is the result."""
        self.is_stopping = True
        for door in tuple(self._doors):
            door.stop_from_afar()

    def _run(self) -> None:
        try:
            with observed_by(self):
                if isinstance(self._request, BenchRequest):
                    self.bench = benchmark(self._request, self).bench
                    self.text = bench_words(self.bench)
                else:
                    given = self._wanted
                    self.seen = view_target(self._request, self, benches=given.benches, verified=given.verified)
                    self.text = " ".join(subject.summary for subject in self.seen.view.report.subjects)
            self.was_stopped = self.is_stopping
        except BaseException as error:  # noqa: BLE001 (nothing above a thread would catch it)
            if isinstance(error, KeyboardInterrupt) or (self.is_stopping and isinstance(error, UserError)):
                self.was_stopped, self.text = True, _TOO_SOON
            else:
                self.failure = error

    def say(self, text: str) -> None:
        self.step(text, None)

    def step(self, text: str, share: float | None) -> None:
        # What is told in a terminal, where no command was given and a button stops
        text = text.removesuffix(NONE_SENT).removesuffix(ANYWAY).replace("Ctrl-C", "Stop")
        self._tell(runs.ProgressLine(text=text, share=None if share is None else min(1.0, max(0.0, share))))

    def looked_at(self, machine: Machine) -> None:
        self._machine = machine

    def sampling(self, sampler: Sampler) -> None:
        """A sampler has started: from now on the picture is of what it sees."""
        self._sampler, self._samples_drawn = sampler, 0

    def on_answer(self, answer: ObservedAnswer) -> None:
        """A request was answered; a warm-up, or one that tells no speed, is only in the way."""
        if answer.round and (answer.decode_tokens_per_s, answer.prefill_tokens_per_s) != (None, None):
            words = f"{answer.case}: {answer.generated_tokens:,} tokens after a prompt of {answer.prompt_tokens:,}"
            self._tell(runs.PassLine(text=words, tokens_per_s=answer.decode_tokens_per_s))

    def on_system(self, door: ClosingSystem) -> None:
        """The door that `stop` closes."""
        self._doors.append(door)
        if self.is_stopping:
            door.stop_from_afar()

    def new_timeline(self) -> TimelineView | None:
        """What was sampled; None where nothing was since it was asked for last."""
        sampler = self._sampler
        if sampler is None or sampler.samples == self._samples_drawn:
            return None
        self._samples_drawn = sampler.samples
        timeline = sampler.timeline()
        return timeline_view(timeline, self._machine) if timeline else None


def bench_words(bench: Bench) -> str:
    """What a benchmark came to, in a line."""
    parts = [f"{sweep.axis}: {sweep.verdict.replace('_', ' ')}, {sweep.because}" for sweep in bench.sweeps]
    told = [words(bench.figures[name].median) for name, words in _FIGURES.items() if name in bench.figures]
    said = "; ".join([*parts, ", ".join(told)] if told else parts) or "nothing was measured"
    if not bench.failures:
        return said
    asked = len(bench.passes) + len(bench.failures)
    return f"{said}; {len(bench.failures)} of {asked} requests failed: {bench.failures[0].why}"


def perform_run(state: ServerState, entry: runs.StartedRun) -> None:
    """The whole of a run; it ends with a line that says how, whatever happens."""
    try:
        seen, asked, request = state.machine(), entry.wanted, state.wanted.request
        if asked.evict:
            request = request._replace(evict=True)
        wanted = (diagnosis_of if asked.kind == "diagnose" else bench_of)(seen, request, asked)
        live = LiveRun(wanted, state.wanted, entry.tell)
        live.start()
        entry.stop_run = live.stop
        if entry.is_unwanted:
            live.stop()
        number, subjects, over = asked.subject or 0, list(seen.view.subjects), False
        while not over:
            over = live.wait(_PICTURE_EVERY_S)
            # Drawn only for those who watch; the page has no place yet for an engine that was started for this
            if entry.watchers and number < len(subjects) and (timeline := live.new_timeline()):
                subjects[number] = msgspec.structs.replace(subjects[number], timeline=timeline)
                view = msgspec.structs.replace(seen.view, subjects=tuple(subjects))
                html = str(panel(view, number, "timeline"))
                entry.tell(runs.PanelLine(subject=number, name="timeline", html=html))
        entry.tell(_ending(state, entry, live))
    except Exception as bug:  # noqa: BLE001 (a page that waits for ever would be worse)
        error = runs.bug_error(bug)
        entry.tell(runs.ErrorLine(message=error.message, hint=error.hint))


def _ending(state: ServerState, entry: runs.StartedRun, live: LiveRun) -> runs.RunLine:
    if live.failure:
        error = live.failure if isinstance(live.failure, UserError) else runs.bug_error(live.failure)
        if error.hint == EVICT:
            return runs.ErrorLine(message=error.message, anyway=EVICTED)
        return runs.ErrorLine(message=error.message, hint=error.hint)
    if state.closing:
        return runs.DoneLine(text="unslow serve was stopped", stopped=True)
    before = state.machine()
    if live.seen:
        state.set_machine(with_diagnosis(before, live.seen, state.wanted, only_url(before, entry.wanted)))
    elif live.bench:
        state.set_machine(_rediagnose(before.looked, state.wanted, (live.bench, *before.benches)))
    state.prepare()
    # Another order of the subjects, or another number of them, is another page
    orders = [[(s.number, s.url) for s in one.view.report.subjects] for one in (before, state.machine())]
    speeds = [subject.run.decode_tokens_per_s for subject in live.seen.snapshot.subjects] if live.seen else []
    # Whether nothing was asked for the sake of a conversation
    only_observed = any(isinstance(speed, Unknown) and speed.how_to_get == EVICT for speed in speeds)
    # What came of it in a sentence, or a speed with what is expected: the rest stands in the verdict
    sentences = live.text.split(". ")
    shown = sentences[: 2 if sentences[0].endswith("tok/s") else 1]
    said = ". ".join(shown) + "." * (len(shown) < len(sentences))
    ended = f"stopped: {said}" if live.was_stopped and "stopped" not in said else said
    anyway = EVICTED if only_observed else ""
    return runs.DoneLine(text=ended, stopped=live.was_stopped, reload=orders[0] != orders[1], anyway=anyway)


def diagnosis_of(seen: SeenMachine, request: Looking, asked: runs.RunWanted) -> Looking:
    """The diagnosis of one server, or of all there are."""
    request = request._replace(quick=True, seconds=None) if asked.quick else request
    url = only_url(seen, asked)
    return request._replace(target=url) if url else request


def only_url(seen: SeenMachine, asked: runs.RunWanted) -> str:
    """The one server that a diagnosis is of; empty where there is one at most, or none is named."""
    subject = subject_at(seen, asked.subject)
    return subject.runtime.process.url.value_or("") if subject and len(seen.snapshot.subjects) > 1 else ""


def bench_of(seen: SeenMachine, request: Looking, asked: runs.RunWanted) -> BenchRequest:
    """The benchmark or sweep of one subject, or of the embedded engine where nothing runs."""
    subject = subject_at(seen, asked.subject if asked.subject is not None else 0)
    quick = asked.quick or limits_of(request) == QUICK
    target, model = None, request.model
    if subject and not subject.runtime.embedded:
        target = subject.runtime.process.url.value_or(None)
        same = [one for one in seen.snapshot.subjects if one.runtime.process.url == subject.runtime.process.url]
        model = subject.model.name.value_or(None) if len(same) > 1 else None
    sweep = () if asked.kind == "bench" else (asked.kind,)
    return BenchRequest(
        target=target, quick=quick, sweep=sweep, model=model, evict=request.evict, api_key=request.api_key
    )


def with_diagnosis(before: SeenMachine, after: SeenMachine, wanted: ServeOptions, url: str) -> SeenMachine:
    """The new diagnosis; where it is of one server among several, the others stay as they were seen."""
    no_notes: tuple[str, ...] = ()
    old, new = (
        list(zip(seen.snapshot.subjects, chain(seen.looked.notes, repeat(no_notes)), strict=False))
        for seen in (before, after)
    )
    others = [one for one in old if one[0].runtime.process.url.value_or("") != url]
    if not url or not others:
        return after
    all_of_them = [*new, *others]
    snapshot = msgspec.structs.replace(after.snapshot, subjects=tuple(subject for subject, _ in all_of_them))
    looked = LookResult(snapshot, tuple(notes for _, notes in all_of_them), after.looked.course)
    return _rediagnose(looked, wanted, before.benches)


def _rediagnose(looked: LookResult, wanted: ServeOptions, benches: tuple[Bench, ...]) -> SeenMachine:
    report = with_notes(with_fix_commands(diagnose(looked.snapshot), looked.snapshot), looked)
    live = is_live(wanted.request.target)
    return build_view(report, looked, live=live, benches=benches, verified=wanted.verified)
