"""The main job: look at what runs, measure it, judge, and write the fixes as commands."""

import re
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

import msgspec

from unslow import __version__
from unslow.commands._command_lines import with_fix_commands
from unslow.commands._formats import Looking
from unslow.commands._output import Progress, Silent
from unslow.commands.diagnose import target as targets
from unslow.commands.diagnose.discretion import Discretion, userinfo
from unslow.commands.diagnose.request import (
    RECORDED_REQUEST,
    Course,
    limits_of,
    recorded_request,
    request_to_record,
    wish_of,
    with_wish,
)
from unslow.commands.diagnose.runtimes import PROCESSES, chosen_subjects, subjects_at_url
from unslow.facts.errors import UserError
from unslow.facts.machine import Machine
from unslow.facts.masking import keyless
from unslow.facts.merge import overlaid
from unslow.facts.run import Earlier
from unslow.facts.snapshot import Snapshot, Subject
from unslow.facts.values import Amount, Count, Fact, Known, Unknown, failed_fact, measured_fact, not_supported
from unslow.look.bench.ram_bandwidth import read_ram_bandwidth
from unslow.look.engine import engine_version, start_engine
from unslow.look.engine.made_up_models import default_cache
from unslow.look.observer import current_observer
from unslow.look.runtimes.llama_cpp import read_embedded, with_log
from unslow.look.system import LookError, System
from unslow.look.system.http import is_loopback
from unslow.look.system.live import ClosingSystem
from unslow.look.system.recorded import RecordedSystem
from unslow.think.case.view import views_of
from unslow.think.judge.judge import diagnose
from unslow.think.report import Report

if TYPE_CHECKING:
    from unslow.commands.diagnose.visit import Measuring

SIGNALS = (signal.SIGINT, signal.SIGTERM)
DEFAULT_SHAPE = "llama_1b"
_EMBEDDED = "embedded engine"


class LookResult(NamedTuple):
    """What was seen, and what a reader must know of each subject."""

    snapshot: Snapshot
    notes: tuple[tuple[str, ...], ...] = ()
    course: Course = Course()


class DiagnosisResult(NamedTuple):
    """A report, and what it was made from."""

    report: Report
    looked: LookResult


class StartedEngine(msgspec.Struct, frozen=True):
    """Where the engine answers, and how long that took."""

    url: str
    pid: Count
    version: str
    log_path: str
    model_path: str
    load_s: Amount


def diagnose_target(request: Looking, progress: Progress) -> DiagnosisResult:
    """The report on whatever the request names, with what was seen."""
    if targets.is_live(request.target):
        looked = look_and_measure(request, progress)
    else:
        if request.record:
            raise UserError("--record works only with a live machine or server", "omit the recorded TARGET")
        recording = targets.recorded_diagnosis(Path(str(request.target)))
        if recording:
            progress.step(f"replaying the recording {request.target}", 0.0)
            looked = replay_diagnosis(recording, Silent())
        else:
            looked = LookResult(targets.read_stored(str(request.target)))
        looked = looked._replace(snapshot=keyless(looked.snapshot))
    snapshot = with_wish(looked.snapshot, request)
    if request.save:
        targets.save(snapshot, request.save, progress)
    try:
        report = diagnose(snapshot)
    except Exception as bug:
        keep = request.save or "unslow-bug.json"
        targets.save(snapshot, keep, progress)
        bug.add_note(f"This is a bug in unslow. Please report it and attach {keep}, the masked snapshot.")
        raise
    return DiagnosisResult(with_notes(with_fix_commands(report, snapshot), looked), looked._replace(snapshot=snapshot))


def with_notes(report: Report, looked: LookResult) -> Report:
    """The report with what each reader must know of how its subject was measured."""
    notes = dict(enumerate(looked.notes))
    subjects = tuple(
        msgspec.structs.replace(subject, notes=(*notes.get(subject.number, ()), *subject.notes))
        for subject in report.subjects
    )
    return msgspec.structs.replace(report, subjects=subjects)


def look_and_measure(request: Looking, progress: Progress, only: tuple[str, ...] = ()) -> LookResult:
    """What runs here, or at the URL that the request names, by all measurements or those alone. It holds no key."""
    from unslow.commands.diagnose.visit import Measuring

    discretion, limits = Discretion.about(request.api_key, request.target), limits_of(request)._replace(only=only)
    with discretion.errors():
        named = targets.as_url(request.target or "")
        url = targets.check_url(named) if named else None
        host = urlsplit(url).hostname or "" if url else ""
        shown = discretion.progress(progress)
        if named and userinfo(named):
            shown.say("the user name and password in the URL are ignored; give a key with --api-key")
        closing = ClosingSystem([host] if host else [])
        if watcher := current_observer():
            watcher.on_system(closing)
        with targets.recording(closing, request.record, shown, discretion.keys) as system, stoppable(closing):
            seen = look_at(Measuring(system, request, shown, limits, door=closing), url)
            system.ask(RECORDED_REQUEST, lambda: request_to_record(request, url, limits, seen.course))
        return seen._replace(snapshot=discretion.facts(seen.snapshot))


def replay_diagnosis(recording: RecordedSystem, progress: Progress) -> LookResult:
    """The same again from the recording of a diagnosis."""
    from unslow.commands.diagnose.visit import Measuring

    request, kept = recorded_request(recording.ask(RECORDED_REQUEST, dict))
    return look_at(Measuring(recording, request, progress, kept.limits, recorded=kept.course), kept.url)


@contextmanager
def stoppable(door: ClosingSystem) -> Iterator[None]:
    """Signals close the door while this lasts; those that somebody ignores stay ignored."""
    if threading.current_thread() is not threading.main_thread():  # where no handler can be set
        yield
        return

    def stop(_number: int, _frame: FrameType | None) -> None:
        door.stop()

    before = {number: signal.getsignal(number) for number in SIGNALS}
    heard = [number for number, handler in before.items() if handler not in (signal.SIG_IGN, None)]
    for number in heard:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in heard:
            signal.signal(number, before[number])


def look_at(measuring: "Measuring", url: str | None) -> LookResult:
    """This machine, with the subjects that the request means, measured; or the server at a URL elsewhere."""
    system, request, progress = measuring.system, measuring.request, measuring.progress
    if url and not is_loopback(urlsplit(url).hostname or ""):
        return _look_afar(measuring, url)
    progress.step("inspecting the machine and running servers", 0.0)
    port = urlsplit(url).port if url else None
    seen = targets.collect(system, bandwidth=not request.passive, api_key=request.api_key or "", port=port)
    seen = msgspec.structs.replace(seen, wish=wish_of(request))
    if watcher := current_observer():
        watcher.looked_at(seen.machine)
    if url is None:
        _check_processes(seen)
    target = request.target if url is None else None
    subjects = chosen_subjects(system, seen, url, target, request.api_key or "")
    if request.log:
        subjects = with_log_of(system, subjects, request.log)
    if not subjects and (request.target is not None or request.passive):
        raise UserError("no running runtime found", "start one, give its URL, or omit --passive")
    with ExitStack() as stack:
        if not subjects:
            subjects = (stack.enter_context(embedded_subject(system, request.model, progress)),)
            measuring.begin_again()
        done = measuring.measure(seen, [targets.with_machine(subject, seen.machine) for subject in subjects])
        found = tuple(_with_earlier(system, seen, subject) for subject in done.subjects)
        if not request.passive and done.course.ended != "stopped":
            # The larger of two readings, before and after: what the memory can do, not what a neighbour left of it
            again, before = read_ram_bandwidth(system), seen.machine.memory
            if again.read_bytes_per_s.value_or(0) > before.read_bytes_per_s.value_or(0):
                machine = msgspec.structs.replace(seen.machine, memory=overlaid(before, again))
                seen = msgspec.structs.replace(seen, machine=machine)
        return LookResult(targets.with_subjects(seen, found), done.notes, done.course)


def _check_processes(seen: Snapshot) -> None:
    """UserError where nobody could look for runtimes and none answers at its port: "none" would be a guess."""
    outcome = next(p for p in seen.probes if p.name == PROCESSES)
    if not outcome.error or seen.subjects:
        return
    system = seen.machine.system.name.value_or("")
    if re.search(r"windows|macos", system, re.IGNORECASE):  # no /proc at all, so no other user would see more
        hint = "start one, or give its URL, such as http://127.0.0.1:11434 for Ollama or :1234 for LM Studio"
        raise UserError("no runtime responds at its default port", hint)
    hint = "run unslow as a user who may read /proc, or give the server's URL"
    raise UserError(f"running processes are not visible: {outcome.error}", hint)


def with_log_of(system: System, subjects: tuple[Subject, ...], path: str) -> tuple[Subject, ...]:
    """The one subject with what its log says; UserError where there are several, or the file can't be read."""
    if len(subjects) != 1:
        hint = "name the server by its URL or pid"
        raise UserError(f"--log applies to one server, but {len(subjects)} were found", hint)
    try:
        return (with_log(system, subjects[0], path),)
    except LookError as error:
        raise UserError(error.why, "--log takes a log file of llama-server") from error


@contextmanager
def embedded_subject(system: System, shape: str | None, progress: Progress) -> Iterator[Subject]:
    """The engine with a made-up model, for as long as it is needed; as it was, where this is a recording."""
    name = shape or DEFAULT_SHAPE
    progress.say(f"no runtime is running: measuring the embedded engine on a synthetic model ({name}, random weights)")
    with ExitStack() as stack:
        try:
            live = system.live()
        except LookError:
            told = system.ask(_EMBEDDED, dict)
        else:
            version, step = engine_version(), "writing the synthetic model"
            path = str(default_cache().model(name, progress=lambda done, total: progress.step(step, done / total)))
            start = live.clock()
            progress.step("starting the embedded engine", 0.0)
            engine = stack.enter_context(start_engine(live, path))
            started = StartedEngine(engine.url, engine.pid, version, engine.log_path, path, live.clock() - start)
            told = system.ask(_EMBEDDED, lambda: msgspec.to_builtins(started))
        one = msgspec.convert(told, StartedEngine)
        subject = read_embedded(system, one.url, one.pid, one.version, one.log_path, one.model_path)
        load_s = measured_fact(one.load_s, "until the embedded engine responded")
        yield msgspec.structs.replace(subject, run=msgspec.structs.replace(subject.run, load_s=load_s))


def _with_earlier(system: System, seen: Snapshot, subject: Subject) -> Subject:
    if subject.runtime.embedded:
        return subject
    (case,) = views_of(targets.with_subjects(seen, (subject,)))
    try:
        from unslow.commands._bench_history import earlier_in_history

        raw = system.ask("earlier", lambda: msgspec.to_builtins(earlier_in_history(case)))
        earlier: Fact[Earlier] = msgspec.convert(raw, Known[Earlier] | Unknown)
    except (LookError, msgspec.ValidationError) as error:
        earlier = failed_fact(f"cannot read the benchmark history: {error}")
    return msgspec.structs.replace(subject, run=msgspec.structs.replace(subject.run, earlier=earlier))


def _look_afar(measuring: "Measuring", url: str) -> LookResult:
    """A server elsewhere: its machine is not visible from here."""
    system, request = measuring.system, measuring.request
    measuring.progress.say(f"{url} is on another machine: only the server itself is visible from here")
    why = not_supported("the server runs on another machine", "run unslow there")
    machine, wish = Machine(gpus=why), wish_of(request)
    seen = Snapshot(unslow_version=__version__, taken_at=system.now(), machine=machine, wish=wish)
    done = measuring.measure(seen, subjects_at_url(system, url, request.api_key or ""))
    return LookResult(targets.with_subjects(seen, done.subjects), done.notes, done.course)
