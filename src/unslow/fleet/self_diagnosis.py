"""Looks at what runs here, watches it and judges it again and again; the exporter has what came of it last."""

import sys
import time
import traceback
from collections.abc import Callable
from datetime import datetime
from threading import Event, Thread
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from unslow import __version__
from unslow.commands._formats import Looking
from unslow.commands._output import Silent
from unslow.commands.diagnose.discretion import Discretion
from unslow.commands.diagnose.request import QUICK
from unslow.commands.diagnose.visit import Measuring
from unslow.commands.watch import WatchRequest
from unslow.facts.errors import UserError
from unslow.facts.run import Run
from unslow.facts.snapshot import Snapshot, Subject
from unslow.facts.values import Known, Unknown, not_supported
from unslow.fleet.openmetrics import MOST_SUBJECTS, LookState, subjects_by_key
from unslow.fleet.settings import ExporterSettings
from unslow.live.server import ServerWatch, server_now
from unslow.live.watcher import JOIN_S, SOON_S, find_watched, is_elsewhere
from unslow.look.system import LookError, System
from unslow.look.system.live import ClosingSystem
from unslow.show.console import without_controls
from unslow.think.case.view import CaseView
from unslow.think.judge.judge import judge
from unslow.think.judge.subject import machine_line
from unslow.think.report import Report

FIRST_S = 10.0  # From the first look, which knows no speed, to the second
STALE_LOOKS, STALE_S = 3, 300.0
"""What was known stands for so many looks that fail, and at least for as long as Prometheus itself remembers."""
STUCK_LOOKS, STUCK_S = 5, 600.0  # A look that has not ended after so long hangs, in a driver or in a file system
FIND_SHARE = 0.01
"""Of one core that searching for servers may take: on a machine with many processes it comes less often."""
SAMPLES_PER_S = 0.5  # Of the machine: clocks and throttling of a minute need no more
KEEP_S = 900.0
"""A speed that was seen stands for so long while nobody asks the server anything; `unslow_speed_timestamp_seconds`
says how old it is."""
PAST = not_supported("an average since the server started", "it is observed while the server handles requests")
Place = tuple[str, int, str]


class Standing(NamedTuple):
    """What is known, and how the last look went."""

    report: Report | None = None
    state: LookState = LookState()


class Looker:
    """`look` is called by one thread; `standing` and `is_well` are for any."""

    def __init__(self, system: System, request: ExporterSettings) -> None:
        self._system, self._request = system, request
        self._posts: list[WatchedServer] = []
        self._judged: dict[str, WatchedServer] = {}  # Those of the last report, by their keys there
        self._seen: Snapshot | None = None
        self._measurements = Measurements(request)
        self._find_at, self._left_out, self._said = 0.0, 0, ""
        self._looking_since: float | None = None
        self._stopping = Event()
        self._thread = Thread(target=self._run, name="unslow exporter looks", daemon=True)
        self.standing = Standing()  # What is known now
        self._good_at: float | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End it, and everything that asks."""
        self._stopping.set()
        self._measurements.stop()
        if self._thread.is_alive():
            self._thread.join(JOIN_S)
        for post in self._posts:
            post.stop()

    def _run(self) -> None:
        wait_s = min(FIRST_S, self._request.every_s)
        while not self._stopping.is_set():
            self.attempt()
            self._stopping.wait(wait_s)
            wait_s = self._request.every_s

    def attempt(self) -> None:
        """One look; where it fails, that is what is known of it."""
        start_s = self._looking_since = self._system.clock()
        try:
            with Discretion.about(self._request.watch.api_key, self._request.watch.target).errors():
                self.look()
        except Exception as error:  # noqa: BLE001 (it must go on: what is wrong now may be right at the next look)
            seconds = self._system.clock() - start_s
            report, state = self.standing
            stale_s = max(STALE_S, STALE_LOOKS * self._request.every_s)
            is_stale = self._good_at is None or self._system.clock() - self._good_at > stale_s
            answers, failures = self._answer_states(), state.failures + 1
            state = state._replace(success=False, duration_s=seconds, failures=failures, answers=answers)
            self.standing = Standing(None if is_stale else report, state)
            # Once for each reason, on standard error
            told = isinstance(error, UserError | LookError)
            words = str(error) if told else "".join(traceback.format_exception(error))
            if words != self._said:
                self._said = words
                _log(f"a diagnosis failed: {words.rstrip()}")
        else:
            self._said = ""
        self._looking_since = None

    def look(self) -> None:
        """Find what there is, and judge it by what was seen of its work."""
        start_s = self._system.clock()
        self.find()
        if self._seen is not None and self._measurements.is_due(self._system.clock()):
            seen = self._seen
            measured = self._measurements.measure(seen, self._system.clock())
            self._refresh(seen)
            for post in self._posts:
                if place_of(post.watched.subject) in measured:
                    post.note_measured()
        self.judge(start_s)

    def find(self) -> None:
        """Search for servers, where it is time; each is asked from then on by a thread of its own."""
        if self._system.clock() < self._find_at and all(post.watched.is_there() for post in self._posts):
            return
        before_s = time.process_time()
        seen = find_watched(self._system, self._request.watch)
        cost_s = time.process_time() - before_s
        self._find_at = self._system.clock() + cost_s / FIND_SHARE
        self._left_out = max(0, len(seen.subjects) - MOST_SUBJECTS)
        # Always the same ones where there are too many: by their addresses
        first = tuple(sorted(seen.subjects, key=place_of)[:MOST_SUBJECTS])
        self._refresh(msgspec.structs.replace(seen, subjects=first))

    def _refresh(self, seen: Snapshot) -> None:
        before, kept = self._posts, []
        for found in seen.subjects:
            fit = (p for p in before if p.failure is None and p not in kept)  # a post whose thread broke is no use
            post = next((p for p in fit if is_same_place(p.watched.subject, found)), None)
            if post is not None:
                subject = self._measurements.with_measured_run(with_known_identity(post.watched.subject, found))
                post.watched.refresh(seen, subject)
            else:
                subject = self._measurements.with_measured_run(found)
                post = WatchedServer(self._system, seen, subject, self._request.watch)
                post.start()
            kept.append(post)
        self._seen, self._posts = seen, kept
        for post in before:
            if post not in kept:
                post.stop()

    def judge(self, start_s: float) -> None:
        machine = machine_line(self._seen) if self._seen else {}
        judged = [msgspec.structs.replace(judge(post.case()), number=n) for n, post in enumerate(self._posts)]
        report = Report(unslow_version=__version__, machine=machine, subjects=tuple(judged))
        now_s, now = self._system.clock(), datetime.fromisoformat(self._system.now()).timestamp()
        self._good_at = now_s
        self._judged = posts = {key: self._posts[one.number] for key, one in subjects_by_key(report.subjects).items()}
        self.standing = Standing(report, LookState(
            success=True, at_s=now, duration_s=now_s - start_s, failures=self.standing.state.failures,
            seen_s=tuple((key, now - (now_s - p.seen_at_s)) for key, p in posts.items() if p.seen_at_s is not None),
            answers=self._answer_states(), left_out=self._left_out,
        ))  # fmt: skip

    def _answer_states(self) -> tuple[tuple[str, bool], ...]:
        """Whether each answers now: also of a server that is not found any more."""
        return tuple((key, post.answers) for key, post in self._judged.items())

    def is_well(self) -> bool:
        """Whether looking goes on, well or not."""
        since = self._looking_since
        most_s = max(STUCK_S, STUCK_LOOKS * self._request.every_s)
        return self._thread.is_alive() and (since is None or self._system.clock() - since < most_s)

    def look_once(self, watch_s: float, say: Callable[[str, float], None]) -> Standing:
        """One look alone, at what servers do in so many seconds; an error is the caller's."""
        start_s = self._system.clock()
        say("reading the machine and its runtimes", 0.0)
        self.find()
        if self._posts:
            say(f"watching its traffic for {watch_s:.0f} s", 0.3)
            self._stopping.wait(watch_s)
        self.judge(start_s)
        return self.standing


class WatchedServer:
    """From `start` to `stop`; `case` may be called by any thread."""

    def __init__(self, system: System, seen: Snapshot, subject: Subject, request: WatchRequest) -> None:
        self.watched = ServerWatch(system, seen, subject, request.api_key, SAMPLES_PER_S)
        self.seen_at_s: float | None = None  # When its speed was last seen, by the clock of the system
        self.failure: BaseException | None = None
        self._system, self._every_s = system, request.interval
        self._samples = not is_elsewhere(request)
        self._kept: Run | None = None
        self._stopping = Event()
        self._thread = Thread(target=self._run, name="unslow exporter asks", daemon=True)

    def start(self) -> None:
        if self._samples:
            self.watched.sampler.start()
        self._thread.start()

    def stop(self) -> None:
        """End it; a thread that waits for a server is left behind, and ends with the program."""
        self._stopping.set()
        self._thread.join(JOIN_S)
        self.watched.sampler.stop()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self.watched.ask()
                if self.watched.rates.needs_second_look and not self._stopping.wait(SOON_S):
                    self.watched.ask()
                self._stopping.wait(self._every_s)
        except Exception as error:  # noqa: BLE001 (a bug must reach whoever judges: the look then fails, and says so)
            self.failure = error

    def case(self) -> CaseView:
        """The server with what was seen of its work: over the last minute, else the last time that there was any."""
        if self.failure is not None:
            raise self.failure
        case, now_s = self.watched.seen_case(), self._system.clock()
        looks = tuple(self.watched.looks)
        if any(look.work.running is not None for look in looks):  # its speed is that of the requests that were seen
            case = case.replace(runtime=case.runtime.with_facts(decode_tokens_per_s=PAST, prefill_tokens_per_s=PAST))
        traffic = case.run.traffic
        if isinstance(traffic, Known) and (
            isinstance(case.run.decode_tokens_per_s, Known) or isinstance(traffic.value.each_tokens_per_s, Known)
        ):
            at_work = (look.at_s for look in looks if look.work.running)
            self._kept, self.seen_at_s = case.run, max(at_work, default=now_s)
        elif self._kept is not None and self.seen_at_s is not None and now_s - self.seen_at_s <= KEEP_S:
            return case.replace(run=self._kept)
        return case

    @property
    def answers(self) -> bool:
        """Whether it answers what it is asked about its work; one that is loading, hangs or is gone does not."""
        return server_now(self.watched, self._system.clock()).state == "answers"

    def note_measured(self) -> None:
        """Its speed was measured just now: what was seen before is past."""
        self._kept, self.seen_at_s = None, self._system.clock()


class Measurements:
    """What was measured last of each server; `measure` belongs to the thread that looks."""

    def __init__(self, request: ExporterSettings) -> None:
        self._every_s, self._watch = request.measure_every_s, request.watch
        self._due_at = 0.0
        self._runs: dict[Place, Run] = {}
        self._door: ClosingSystem | None = None

    def is_due(self, now_s: float) -> bool:
        return self._every_s is not None and now_s >= self._due_at

    def measure(self, seen: Snapshot, now_s: float) -> set[Place]:
        """Measure them one after the other, and say which; one that is busy, or would lose a cache, is left alone."""
        self._due_at = now_s + (self._every_s or 0.0)
        runs = {place: run for place, run in self._runs.items() if place in map(place_of, seen.subjects)}
        done_now: set[Place] = set()
        discretion = Discretion.about(self._watch.api_key, self._watch.target)
        request = Looking(api_key=self._watch.api_key)
        for subject in seen.subjects:
            host = urlsplit(subject.runtime.process.url.value_or("")).hostname
            self._door = door = ClosingSystem([host] if host else [])
            (done,) = Measuring(door, request, Silent(), QUICK, door=door).measure(seen, [subject]).subjects
            place, run = place_of(subject), discretion.facts(done.run)
            if isinstance(run.decode_tokens_per_s, Unknown):
                _log(f"not measured: {place[0]}: {run.decode_tokens_per_s.why}")
            else:
                runs[place] = run
                done_now.add(place)
        self._runs, self._door = runs, None
        return done_now

    def with_measured_run(self, subject: Subject) -> Subject:
        run = self._runs.get(place_of(subject))
        return subject if run is None else msgspec.structs.replace(subject, run=run)

    def stop(self) -> None:
        if door := self._door:
            door.stop_from_afar()


def place_of(subject: Subject) -> Place:
    """What a server is known by from one look to the next: its address, its process, its model."""
    runtime = subject.runtime
    return runtime.process.url.value_or(""), int(runtime.process.pid.value_or(0)), subject.model.name.value_or("")


def is_same_place(before: Subject, found: Subject) -> bool:
    """Whether it is the same process with the same model; one that does not tell its model now has the one it had."""
    *was, had = place_of(before)
    *place, has = place_of(found)
    return was == place and has in (had, "")


def with_known_identity(before: Subject, found: Subject) -> Subject:
    """What was found, with the version and the model that were known before where this look did not get them."""
    version = found.runtime.version if isinstance(found.runtime.version, Known) else before.runtime.version
    runtime = msgspec.structs.replace(found.runtime, version=version)
    if not isinstance(found.model.name, Known) and isinstance(before.model.name, Known):
        return msgspec.structs.replace(found, runtime=runtime, model=before.model)
    quant = found.model.quant if isinstance(found.model.quant, Known) else before.model.quant
    model = msgspec.structs.replace(found.model, quant=quant)
    return msgspec.structs.replace(found, runtime=runtime, model=model)


def _log(words: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(f"unslow exporter: {without_controls(words)}\n")
        sys.stderr.flush()
