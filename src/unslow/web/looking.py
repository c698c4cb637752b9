"""The first look of a server, and what is asked of it later: the memory of a subject."""

from unslow.app.looking import Looked
from unslow.app.progress import Silent
from unslow.app.read_target import is_live
from unslow.app.spell import spelled
from unslow.app.view.build import Seen, seen_of, view_target
from unslow.app.view.what_if import Memory, memory_of
from unslow.facts.values import Unknown
from unslow.look.system.live import LiveSystem
from unslow.think.judge import diagnose
from unslow.web.book import NotThereError
from unslow.web.wanted import Wanted


def first_look(wanted: Wanted) -> Seen:
    """What can be shown at once: a stored target whole, of a live one whatever needs no measuring."""
    if not is_live(wanted.request.target):
        return view_target(wanted.request, Silent(), benches=wanted.benches, verified=wanted.verified)
    from unslow.app.glance import glance  # noqa: PLC0415 (what is stored is shown without it)

    snapshot = glance(wanted.request, Silent())
    report = spelled(diagnose(snapshot), snapshot)
    return seen_of(report, Looked(snapshot), live=True, benches=wanted.benches, verified=wanted.verified)


def memory_at(seen: Seen, number: int, *, live: bool) -> Memory:
    """What answers the sliders of a subject; NotThereError where nothing can be laid out, and why."""
    subjects = seen.view.report.subjects
    if not 0 <= number < len(subjects):
        raise NotThereError(f"there is no subject {number}", f"there are {len(subjects)}, counted from 0")
    case = list(seen.snapshot.cases())[subjects[number].number]
    memory = memory_of(LiveSystem() if live else None, case)
    if isinstance(memory, Unknown):
        raise NotThereError(f"its memory can't be laid out: {memory.why}", memory.how_to_get)
    return memory
