"""Finds what there is to watch, at the start and again whenever it went away."""

from urllib.parse import urlsplit

from unslow import __version__
from unslow.app.chosen import at_url, chosen
from unslow.app.collect import collect, with_subjects
from unslow.app.manners import Manners
from unslow.app.target import target_of
from unslow.app.watching.request import Request
from unslow.app.with_machine import with_machine
from unslow.facts.machine import Machine
from unslow.facts.snapshot import Snapshot, Subject
from unslow.facts.values import Known, not_supported
from unslow.look.bench.guest import Target
from unslow.look.system import System

ELSEWHERE = not_supported("the server runs on another machine", "run unslow there")
MOST_SERVERS = 32


def find(system: System, request: Request) -> Snapshot:
    """The machine, and the servers that the request means; UserError where a named one is not there."""
    url = request.url
    if request.is_elsewhere:
        seen = Snapshot(unslow_version=__version__, taken_at=system.now(), machine=Machine(gpus=ELSEWHERE))
        subjects = at_url(system, url or "", request.api_key)
    else:
        port = urlsplit(url).port if url else None
        seen = collect(system, bandwidth=False, api_key=request.api_key, port=port)
        subjects = chosen(system, seen, url, None if url else request.target, request.api_key)
        subjects = tuple(with_machine(subject, seen.machine) for subject in subjects)
    watched = tuple(subject for subject in subjects if isinstance(subject.runtime.url, Known))
    return request.discretion.facts(with_subjects(seen, watched[:MOST_SERVERS]))


def target_to_watch(system: System, subject: Subject, request: Request) -> Target:
    """The server of a subject as it is asked; what would only matter for a prompt is left out."""
    return target_of(system, subject, Manners(passive=True, api_key=request.api_key or None))


def same_place(subjects: tuple[Subject, ...], before: Subject) -> int:
    """Where a server stands among those that were found again: by its address, else the first."""
    urls = [subject.runtime.url.value_or("") for subject in subjects]
    url = before.runtime.url.value_or("")
    return urls.index(url) if url in urls else 0


def label_of(subject: Subject) -> str:
    """A server in a few words."""
    names = (subject.runtime.name, subject.model.name, subject.runtime.url)
    return " ".join(fact.value for fact in names if isinstance(fact, Known)) or "a server"
