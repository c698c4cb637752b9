"""The server that a benchmark asks: one that runs, or one that is started for it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple
from urllib.parse import urlsplit

from unslow import __version__
from unslow.app.bench.bencher import Bencher
from unslow.app.bench.own import Own
from unslow.app.bench.request import Request
from unslow.app.chosen import at_url, chosen
from unslow.app.collect import collect, with_subjects
from unslow.app.manners import EVICT, caution, refusal
from unslow.app.measure import slot_of, target_of
from unslow.app.progress import Progress
from unslow.app.read_target import as_url, check_url, is_live
from unslow.app.with_machine import with_machine
from unslow.facts.errors import UserError
from unslow.facts.machine import Machine
from unslow.facts.snapshot import Case, Snapshot, Subject
from unslow.facts.values import Known, Unknown, not_supported
from unslow.look.bench.guest import Target
from unslow.look.launch.server import START_TIMEOUT_S
from unslow.look.llama_server.measuring import read_used_slots
from unslow.look.observed import observer
from unslow.look.sampler import Sampler
from unslow.look.system import System
from unslow.look.system.closing import ClosingSystem
from unslow.look.system.http import is_loopback
from unslow.look.system.live import LiveSystem


class Place(NamedTuple):
    """Where a benchmark happens: the door, and what was seen through it."""

    system: System
    snapshot: Snapshot


def place_of(target: str | None, api_key: str, progress: Progress, *, bandwidth: bool = True) -> Place:
    """This machine, with all that runs here; or a server elsewhere, whose machine can't be seen."""
    if target is not None and not is_live(target):
        raise UserError(f"{target!r} is nothing that runs", "give a server's URL or process id, or nothing")
    named = as_url(target or "")
    url = check_url(named) if named else None
    host = urlsplit(url).hostname or "" if url else ""
    system = _door([host] if host else [])
    if url and not is_loopback(host):
        progress.say(f"{url} is another machine: only the server itself can be seen from here")
        why = not_supported("the server runs on another machine", "run unslow there")
        seen = Snapshot(unslow_version=__version__, taken_at=system.now(), machine=Machine(gpus=why))
        return Place(system, with_subjects(seen, at_url(system, url, api_key)))
    progress.step("looking at the machine", 0.0)
    seen = collect(system, bandwidth=bandwidth, api_key=api_key)
    if watcher := observer():
        watcher.looked_at(seen.machine)
    subjects = chosen(system, seen, url, target, api_key)
    return Place(system, with_subjects(seen, tuple(with_machine(subject, seen.machine) for subject in subjects)))


def _door(hosts: list[str]) -> LiveSystem:
    """The machine; through a door that can be closed, where somebody watches who may have seen enough."""
    watcher = observer()
    if watcher is None:
        return LiveSystem(hosts)
    door = ClosingSystem(hosts)
    watcher.entered(door)
    return door


def subject_of(snapshot: Snapshot, model: str | None = None) -> Subject | None:
    """The one model that is served, or the one of that name; None where none is, UserError where it is not clear."""
    served = snapshot.subjects
    if model is not None:
        served = tuple(s for s in served if model.casefold() in s.model.name.value_or("").casefold())
    if len(served) == 1 or not snapshot.subjects:
        return next(iter(served), None)
    names = "; ".join(f"{s.model.name.value_or('?')} at {s.runtime.url.value_or('?')}" for s in snapshot.subjects)
    if not served:
        raise UserError(f"no model {model!r} is served there, but {names}", "give --model a part of its name")
    raise UserError(f"{len(served)} models are served: {names}", "name one: unslow bench URL --model NAME")


@contextmanager
def opened(place: Place, request: Request, progress: Progress, start_s: float = START_TIMEOUT_S) -> Iterator[Bencher]:
    """A bencher for the server that runs, or for one that is started now, within so long, and stopped in the end."""
    wants_own = request.command is not None or (request.model is not None and request.target is None)
    subject = None if wants_own else subject_of(place.snapshot, request.model)
    if subject is None:
        own = own_of(place, request, progress)
        own.timeout_s = start_s
        with own.started({}) as bencher, _watching(bencher, request):
            bencher.case = case_of(place.snapshot, bencher.subject)
            yield bencher
        return
    bencher = running(place, subject, request, progress)
    with _watching(bencher, request):
        yield bencher


def own_of(place: Place, request: Request, progress: Progress) -> Own:
    """What starts servers of its own."""
    return Own.from_request(
        place.system, place.snapshot.machine, progress, model=request.model, command=request.command
    )


def running(place: Place, subject: Subject, request: Request, progress: Progress) -> Bencher:
    """A bencher for a server that somebody runs, with the manners of a guest; UserError where it may not be asked."""
    if why := refusal(subject, request.manners):
        raise UserError(f"{subject.runtime.url.value_or('the server')}: {why.why}", why.how_to_get)
    target = target_of(place.system, subject, request.manners)
    slot = slot_of(place.system, subject, target, request.manners)
    if isinstance(slot, Unknown):
        raise UserError(f"{target.url}: {slot.why}", slot.how_to_get)
    if any(asked.axis == "users" for asked in request.sweeps) and not request.manners.evict:
        _check_all_unused(place.system, target)
    if care := caution(subject.runtime):
        progress.say(f"{target.url}: {care}")
    bencher = Bencher(place.system, subject, target, progress)
    bencher.slot, bencher.case = slot, case_of(place.snapshot, subject)
    return bencher


def _check_all_unused(system: System, target: Target) -> None:
    """UserError where many users at once would push out a conversation: they take every slot."""
    used = read_used_slots(target.server(system))
    if used:
        raise UserError(f"{target.url}: {used} of its slots hold a conversation, and many users take all", EVICT)


def case_of(snapshot: Snapshot, subject: Subject) -> Case:
    """The subject on its machine, with what was calibrated before."""
    return next(with_subjects(snapshot, (with_machine(subject, snapshot.machine),)).cases())


def context_of(bencher: Bencher) -> int | None:
    """The context that one request may fill; None where the server does not tell."""
    runtime = bencher.subject.runtime
    context = runtime.context_per_slot.value_or(runtime.context_length.value_or(None))
    return int(context) if context is not None else None


@contextmanager
def _watching(bencher: Bencher, request: Request) -> Iterator[None]:
    """The sampler around it, unless it is switched off or the server's machine is another one."""
    pid = bencher.subject.runtime.pid
    here = (
        bencher.subject.runtime.embedded
        or isinstance(pid, Known)
        or is_loopback(urlsplit(bencher.target.url).hostname or "")
    )
    if request.hz <= 0 or not here:
        yield
        return
    with Sampler(bencher.system, [pid.value] if isinstance(pid, Known) else [], request.hz) as sampler:
        bencher.sampler = sampler
        yield
