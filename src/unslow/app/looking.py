"""Looks at what runs and measures it: one server, one process, or this whole machine, live or as it was recorded."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

import msgspec

from unslow import __version__
from unslow.app.chosen import at_url, chosen
from unslow.app.collect import collect, recorder_of, with_subjects
from unslow.app.course import Course
from unslow.app.discretion import userinfo
from unslow.app.embedded import embedded_subject
from unslow.app.progress import Progress
from unslow.app.read_target import as_url, check_url
from unslow.app.request import Request
from unslow.app.retold import QUESTION, retold, told
from unslow.app.runtimes import PROCESSES
from unslow.app.stopping import stoppable
from unslow.app.with_machine import with_machine
from unslow.facts.errors import UserError
from unslow.facts.machine import Machine
from unslow.facts.merge import overlaid
from unslow.facts.run import Earlier
from unslow.facts.snapshot import Snapshot, Subject
from unslow.facts.values import Fact, Known, Unknown, failed, not_supported
from unslow.look.bench.ram_bandwidth import read_ram_bandwidth
from unslow.look.observed import observer
from unslow.look.runtimes.llama_cpp import with_log
from unslow.look.system import LookError, System
from unslow.look.system.closing import ClosingSystem
from unslow.look.system.http import is_loopback
from unslow.look.system.recorded import RecordedSystem

if TYPE_CHECKING:  # imported when used
    from unslow.app.measure import Measured, Measuring


class Looked(NamedTuple):
    """What was seen, and what a reader must know of each subject."""

    snapshot: Snapshot
    notes: tuple[tuple[str, ...], ...] = ()
    course: Course = Course()


class Door(NamedTuple):
    """Through what the world is seen: live with a door that can be closed, or a recording and how it went."""

    system: System
    closing: ClosingSystem | None = None
    recorded: Course | None = None


def look(request: Request, progress: Progress) -> Looked:
    """What runs here, or at the URL that the request names. It holds no key."""
    discretion = request.discretion
    with discretion.errors():
        named = as_url(request.target or "")
        url = check_url(named) if named else None
        host = urlsplit(url).hostname or "" if url else ""
        shown = discretion.progress(progress)
        if named and userinfo(named):
            shown.say("the name and password in the URL are not used; a key is given with --api-key")
        closing = ClosingSystem([host] if host else [])
        if watcher := observer():
            watcher.entered(closing)
        with _recorded(closing, request, shown) as system, stoppable(closing):
            seen = _looked(Door(system, closing), url, request, shown)
            system.ask(QUESTION, lambda: told(request, url, seen.course))
        return seen._replace(snapshot=discretion.facts(seen.snapshot))


def replayed(recording: RecordedSystem, progress: Progress) -> Looked:
    """The same again from the recording of a diagnosis."""
    request, url, course = retold(recording.ask(QUESTION, dict))
    return _looked(Door(recording, recorded=course), url, request, progress)


@contextmanager
def _recorded(closing: ClosingSystem, request: Request, progress: Progress) -> Iterator[System]:
    if not request.record:
        yield closing
        return
    recorder = recorder_of(closing, request.record, request.discretion.keys)
    try:
        yield recorder
    finally:
        recorder.close()
    progress.say(f"wrote the recording {request.record}")


def _looked(door: Door, url: str | None, request: Request, progress: Progress) -> Looked:
    if url is None or is_loopback(urlsplit(url).hostname or ""):
        return look_here(door, url, request, progress)
    return look_afar(door, url, request, progress)


def look_here(door: Door, url: str | None, request: Request, progress: Progress) -> Looked:
    """This machine, with the subjects that the request means, measured."""
    system, measuring = door.system, _measuring(door, request, progress)
    progress.step("looking at the machine and at what runs on it", 0.0)
    port = urlsplit(url).port if url else None
    seen = collect(system, bandwidth=not request.manners.passive, api_key=request.manners.api_key or "", port=port)
    seen = msgspec.structs.replace(seen, wish=request.wish)
    if watcher := observer():
        watcher.looked_at(seen.machine)
    if url is None:
        _check_processes(seen)
    subjects = chosen(system, seen, url, request.target if url is None else None, request.manners.api_key or "")
    if request.log:
        subjects = with_log_of(system, subjects, request.log)
    if not subjects and (request.target is not None or request.manners.passive):
        raise UserError("no running runtime was found", "start one, give its URL, or leave out --passive")
    if subjects:
        whole = [with_machine(subject, seen.machine) for subject in subjects]
        return _measured_here(system, seen, measuring.measured(seen, whole), request)
    with embedded_subject(system, request.shape, progress) as subject:
        measuring.begin_again()
        return _measured_here(system, seen, measuring.measured(seen, [with_machine(subject, seen.machine)]), request)


def _measuring(door: Door, request: Request, progress: Progress) -> "Measuring":
    from unslow.app.measure import Measuring  # noqa: PLC0415 (what is stored is not measured)

    return Measuring(door.system, request.manners, progress, request.limits, door=door.closing, recorded=door.recorded)


def _measured_here(system: System, seen: Snapshot, measured: "Measured", request: Request) -> Looked:
    subjects = tuple(_with_earlier(system, seen, subject) for subject in measured.subjects)
    if not request.manners.passive and measured.course.ended != "stopped":
        seen = _with_best_bandwidth(system, seen)
    return Looked(with_subjects(seen, subjects), measured.notes, measured.course)


def _with_earlier(system: System, seen: Snapshot, subject: Subject) -> Subject:
    """The subject with what benchmarks of another version of its runtime gave here."""
    if subject.runtime.embedded:
        return subject
    (case,) = with_subjects(seen, (subject,)).cases()
    try:
        from unslow.app.bench.earlier import earlier_in_history  # noqa: PLC0415 (only of what runs here)

        raw = system.ask("earlier", lambda: msgspec.to_builtins(earlier_in_history(case)))
        earlier: Fact[Earlier] = msgspec.convert(raw, Known[Earlier] | Unknown)
    except (LookError, msgspec.ValidationError) as error:
        earlier = failed(f"the history can't be read: {error}")
    return msgspec.structs.replace(subject, run=msgspec.structs.replace(subject.run, earlier=earlier))


def with_log_of(system: System, subjects: tuple[Subject, ...], path: str) -> tuple[Subject, ...]:
    """The one subject with what its log says; UserError where there are several, or the file can't be read."""
    if len(subjects) != 1:
        raise UserError(
            f"--log belongs to one server, and {len(subjects)} were found", "name the server: its URL or pid"
        )
    try:
        return (with_log(system, subjects[0], path),)
    except LookError as error:
        raise UserError(error.why, "--log takes the file that llama-server writes") from error


def _check_processes(seen: Snapshot) -> None:
    """UserError where nobody could look for runtimes and none answers at its port: "none" would be a guess."""
    outcome = next(p for p in seen.probes if p.name == PROCESSES)
    if not outcome.error or seen.subjects:
        return
    if is_here_without_proc(seen.machine):
        hint = "start one, or give its URL, such as http://127.0.0.1:11434 for Ollama or :1234 for LM Studio"
        raise UserError("no runtime answers at the port that it usually has", hint)
    hint = "run it as a user who may read /proc, or give the server's URL"
    raise UserError(f"what runs here can't be seen: {outcome.error}", hint)


def is_here_without_proc(machine: Machine) -> bool:
    """Whether the system has no /proc at all, so that no other user would see more."""
    return re.search(r"windows|macos", machine.system.name.value_or(""), re.IGNORECASE) is not None


def _with_best_bandwidth(system: System, seen: Snapshot) -> Snapshot:
    """The larger of two readings, before and after: what the memory can do, not what a neighbour left of it."""
    again, before = read_ram_bandwidth(system), seen.machine.memory
    if again.read_bytes_per_s.value_or(0) <= before.read_bytes_per_s.value_or(0):
        return seen
    machine = msgspec.structs.replace(seen.machine, memory=overlaid(before, again))
    return msgspec.structs.replace(seen, machine=machine)


def look_afar(door: Door, url: str, request: Request, progress: Progress) -> Looked:
    """A server elsewhere: its machine can't be seen from here."""
    system, measuring = door.system, _measuring(door, request, progress)
    progress.say(f"{url} is another machine: only the server itself can be seen from here")
    why = not_supported("the server runs on another machine", "run unslow there")
    seen = Snapshot(unslow_version=__version__, taken_at=system.now(), machine=Machine(gpus=why), wish=request.wish)
    measured = measuring.measured(seen, at_url(system, url, request.manners.api_key or ""))
    return Looked(with_subjects(seen, measured.subjects), measured.notes, measured.course)
