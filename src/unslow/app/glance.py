"""A first look at what runs, in about a second: nothing is sent to a runtime, and nothing is waited for."""

import msgspec

from unslow.app.bench.server import place_of
from unslow.app.looking import with_log_of
from unslow.app.progress import Progress
from unslow.app.request import Request
from unslow.facts.snapshot import Snapshot


def glance(request: Request, progress: Progress) -> Snapshot:
    """What can be seen at once of the machine and of what the request names; no subjects where nothing runs."""
    discretion = request.discretion
    with discretion.errors():
        place = place_of(request.target, request.manners.api_key or "", discretion.progress(progress), bandwidth=False)
        subjects = place.snapshot.subjects
        if request.log and subjects:
            subjects = with_log_of(place.system, subjects, request.log)
        seen = msgspec.structs.replace(place.snapshot, subjects=subjects, wish=request.wish)
        return discretion.facts(seen)
