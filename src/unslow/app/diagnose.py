"""The main job: look, measure, judge, spell the fixes."""

import os
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from unslow import __version__
from unslow.app.bench.earlier import earlier_in_history
from unslow.app.chosen import at_url, chosen
from unslow.app.collect import collect, with_subjects
from unslow.app.discretion import Discretion, userinfo
from unslow.app.embedded import embedded_subject
from unslow.app.measure import Manners, measured_subject
from unslow.app.progress import Progress
from unslow.app.read_target import as_url, check_url, is_live, read_stored
from unslow.app.runtimes import PROCESSES
from unslow.app.save import save
from unslow.app.spell import spelled
from unslow.app.with_machine import with_machine
from unslow.facts.errors import UserError
from unslow.facts.machine import Machine
from unslow.facts.masking import keyless
from unslow.facts.merge import overlaid
from unslow.facts.snapshot import Snapshot, Subject, Wish
from unslow.facts.values import NOT_LOOKED, Absence, Unknown, not_supported, reported
from unslow.look.bench.ram_bandwidth import read_ram_bandwidth
from unslow.look.runtimes.llama_cpp import with_log
from unslow.look.system import LookError, System
from unslow.look.system.http import is_loopback
from unslow.look.system.live import LiveSystem
from unslow.think.judge import diagnose
from unslow.think.report import Report


class Request(NamedTuple):
    """What the user asked for."""

    target: str | None = None
    manners: Manners = Manners()
    goal: float | None = None
    context: int | None = None
    log: str | None = None
    shape: str | None = None
    save: str | None = None

    @classmethod
    def from_flags(cls, flags: dict[str, Any]) -> "Request":
        """The request that the flags of the command line mean."""
        for name in ("goal", "context"):
            if flags[name] is not None and not 0 < flags[name] < 1e9:  # noqa: PLR2004 (any sane number)
                raise UserError(f"--{name} {flags[name]:g} makes no sense", "give a positive number")
        key = flags["api_key"] or os.environ.get("UNSLOW_API_KEY")
        manners = Manners(flags["passive"], flags["quick"], flags["evict"], key)
        return cls(
            flags["target"], manners, flags["goal"], flags["context"], flags["log"], flags["model"], flags["save"]
        )

    @property
    def wish(self) -> Wish:
        """What the user wants, as facts."""
        return Wish(
            context_tokens=NOT_LOOKED if self.context is None else reported(self.context, "--context"),
            tokens_per_s=NOT_LOOKED if self.goal is None else reported(self.goal, "--goal"),
        )

    @property
    def discretion(self) -> Discretion:
        """What must not be seen of it."""
        return Discretion.about(self.manners.api_key, as_url(self.target or ""))


def diagnose_target(request: Request, progress: Progress) -> Report:
    """The report on whatever the request names."""
    live = is_live(request.target)
    snapshot = look(request, progress) if live else keyless(read_stored(str(request.target)))
    if request.goal is not None or request.context is not None:
        snapshot = msgspec.structs.replace(snapshot, wish=request.wish)
    if request.save:
        save(snapshot, request.save, progress)
    try:
        report = diagnose(snapshot)
    except Exception as bug:
        keep = request.save or "unslow-bug.json"
        save(snapshot, keep, progress)
        bug.add_note(f"This is a bug in unslow. Please report it and attach {keep}, which holds what was seen, masked.")
        raise
    return spelled(report, snapshot)


def look(request: Request, progress: Progress) -> Snapshot:
    """The snapshot of what runs: one server, one process, or this whole machine. It holds no key."""
    discretion = request.discretion
    with discretion.errors():
        named = as_url(request.target or "")
        url = check_url(named) if named else None
        host = urlsplit(url).hostname or "" if url else ""
        system = LiveSystem([host] if host else [])
        here = url is None or is_loopback(host)
        shown = discretion.progress(progress)
        if named and userinfo(named):
            shown.say("the name and password in the URL are not used; a key is given with --api-key")
        seen = look_here(system, url, request, shown) if here else look_afar(system, str(url), request, shown)
        return discretion.facts(seen)


def look_here(system: System, url: str | None, request: Request, progress: Progress) -> Snapshot:
    """The snapshot of this machine, with the subjects that the request means, measured."""
    progress.step("looking at the machine", 0.2)
    seen = collect(system, bandwidth=not request.manners.passive, api_key=request.manners.api_key or "")
    if url is None:
        _check_processes(seen)
    subjects = chosen(system, seen, url, request.target, request.manners.api_key or "")
    if request.log:
        subjects = _with_log(system, subjects, request.log)
    if not subjects and request.target is None and not request.manners.passive:
        subject = with_machine(embedded_subject(system, request.shape, request.manners, progress), seen.machine)
        return with_subjects(_with_best_bandwidth(system, seen, request), (subject,))
    if not subjects:
        raise UserError("no running runtime was found", "start one, give its URL, or leave out --passive")
    whole = [with_machine(subject, seen.machine) for subject in subjects]
    measured = tuple(measured_subject(system, subject, request.manners, progress) for subject in whole)
    _check_measured(measured)
    measured = tuple(_with_earlier(seen, subject) for subject in measured)
    return with_subjects(_with_best_bandwidth(system, seen, request), measured)


def _with_earlier(seen: Snapshot, subject: Subject) -> Subject:
    """The subject with what benchmarks of another version of its runtime gave here."""
    (case,) = with_subjects(seen, (subject,)).cases()
    run = msgspec.structs.replace(subject.run, earlier=earlier_in_history(case))
    return msgspec.structs.replace(subject, run=run)


def _with_log(system: System, subjects: tuple[Subject, ...], path: str) -> tuple[Subject, ...]:
    if len(subjects) != 1:
        raise UserError(
            f"--log belongs to one server, and {len(subjects)} were found", "name the server: its URL or pid"
        )
    try:
        return (with_log(system, subjects[0], str(Path(path).resolve())),)
    except LookError as error:
        raise UserError(error.why, "--log takes the file that llama-server writes") from error


def _check_processes(seen: Snapshot) -> None:
    """UserError where nobody could look for runtimes: "none is running" would be a guess."""
    outcome = next(p for p in seen.probes if p.name == PROCESSES)
    if outcome.error:
        hint = "run it as a user who may read /proc, or give the server's URL"
        raise UserError(f"what runs here can't be seen: {outcome.error}", hint)


def _check_measured(subjects: tuple[Subject, ...]) -> None:
    """UserError where the only server broke off: a report without its speed would answer another question."""
    speed = subjects[0].run.decode_tokens_per_s if len(subjects) == 1 else NOT_LOOKED
    if isinstance(speed, Unknown) and speed.absence is Absence.FAILED:
        raise UserError(f"the server could not be measured: {speed.why}", "look at its log, or use --passive")


def _with_best_bandwidth(system: System, seen: Snapshot, request: Request) -> Snapshot:
    """The larger of two readings, before and after: what the memory can do, not what a neighbour left of it."""
    if request.manners.passive:
        return seen
    again, before = read_ram_bandwidth(system), seen.machine.memory
    if again.read_bytes_per_s.value_or(0) <= before.read_bytes_per_s.value_or(0):
        return seen
    machine = msgspec.structs.replace(seen.machine, memory=overlaid(before, again))
    return msgspec.structs.replace(seen, machine=machine)


def look_afar(system: System, url: str, request: Request, progress: Progress) -> Snapshot:
    """A server elsewhere: its machine can't be seen from here."""
    progress.say(f"{url} is another machine: only the server itself can be seen from here")
    found = at_url(system, url, request.manners.api_key or "")
    subjects = tuple(measured_subject(system, subject, request.manners, progress) for subject in found)
    _check_measured(subjects)
    why = not_supported("the server runs on another machine", "run unslow there")
    return Snapshot(unslow_version=__version__, taken_at=system.now(), machine=Machine(gpus=why), subjects=subjects)
