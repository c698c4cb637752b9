"""What the page asks for, as a request to the part that measures."""

from unslow.app.bench.request import Asked
from unslow.app.bench.request import Request as BenchRequest
from unslow.app.bench.standard import QUICK as QUICK_PROTOCOL
from unslow.app.bench.standard import STANDARD
from unslow.app.course import QUICK
from unslow.app.request import Request
from unslow.app.view.build import Seen
from unslow.app.view.live import LiveRun
from unslow.facts.snapshot import Subject
from unslow.web.events import RunWanted
from unslow.web.offers import subject_at
from unslow.web.wanted import Wanted


def run_of(seen: Seen, wanted: Wanted, asked: RunWanted) -> LiveRun:
    """The run, not started yet."""
    if asked.evict:
        wanted = wanted._replace(request=wanted.request._replace(manners=wanted.request.manners._replace(evict=True)))
    if asked.kind == "diagnose":
        request = diagnosis_of(seen, wanted.request, asked)
        return LiveRun("diagnose", request, benches=wanted.benches, verified=wanted.verified)
    return LiveRun("bench", bench_of(seen, wanted.request, asked))


def diagnosis_of(seen: Seen, request: Request, asked: RunWanted) -> Request:
    """The diagnosis of one server, or of all there are."""
    request = request._replace(limits=QUICK) if asked.quick else request
    url = only_url(seen, asked)
    return request._replace(target=url) if url else request


def only_url(seen: Seen, asked: RunWanted) -> str:
    """The one server that a diagnosis is of; empty where there is one at most, or none is named."""
    subject = subject_at(seen, asked.subject)
    return subject.runtime.url.value_or("") if subject and len(seen.snapshot.subjects) > 1 else ""


def bench_of(seen: Seen, request: Request, asked: RunWanted) -> BenchRequest:
    """The benchmark or sweep of one subject, or of the embedded engine where nothing runs."""
    subject = subject_at(seen, asked.subject if asked.subject is not None else 0)
    running = subject if subject and not subject.runtime.embedded else None
    quick = asked.quick or request.limits == QUICK
    return BenchRequest(
        target=running.runtime.url.value_or(None) if running else None,
        protocol=QUICK_PROTOCOL if quick else STANDARD,
        sweeps=() if asked.kind == "bench" else (Asked(asked.kind),),
        manners=request.manners._replace(quick=quick),
        model=_model(seen, running) if running else request.shape,
    )


def _model(seen: Seen, subject: Subject) -> str | None:
    """Its name, where the same server has several."""
    same = [one for one in seen.snapshot.subjects if one.runtime.url == subject.runtime.url]
    return subject.model.name.value_or(None) if len(same) > 1 else None
