"""What is shown after a run: one subject measured anew among the others, or a benchmark more."""

import msgspec

from unslow.app.diagnose import noted
from unslow.app.looking import Looked
from unslow.app.read_target import is_live
from unslow.app.spell import spelled
from unslow.app.view.build import Seen, seen_of
from unslow.facts.bench import Bench
from unslow.facts.snapshot import Snapshot
from unslow.think.judge import diagnose
from unslow.web.wanted import Wanted


def with_diagnosis(before: Seen, after: Seen, wanted: Wanted, url: str) -> Seen:
    """The new diagnosis; where it is of one server among several, the others stay as they were seen."""
    old = [(subject, _notes(before, n)) for n, subject in enumerate(before.snapshot.subjects)]
    new = [(subject, _notes(after, n)) for n, subject in enumerate(after.snapshot.subjects)]
    others = [one for one in old if one[0].runtime.url.value_or("") != url]
    if not url or not others:
        return after
    all_of_them = [*new, *others]
    snapshot = msgspec.structs.replace(after.snapshot, subjects=tuple(subject for subject, _ in all_of_them))
    looked = Looked(snapshot, tuple(notes for _, notes in all_of_them), after.looked.course)
    return _seen(looked, wanted, before.benches)


def _notes(seen: Seen, number: int) -> tuple[str, ...]:
    notes = seen.looked.notes
    return notes[number] if number < len(notes) else ()


def with_bench(before: Seen, bench: Bench, wanted: Wanted) -> Seen:
    """The same subjects with the curves and the timeline of a benchmark."""
    return _seen(before.looked, wanted, (bench, *before.benches))


def _seen(looked: Looked, wanted: Wanted, benches: tuple[Bench, ...]) -> Seen:
    snapshot: Snapshot = looked.snapshot
    report = noted(spelled(diagnose(snapshot), snapshot), looked)
    live = is_live(wanted.request.target)
    return seen_of(report, looked, live=live, benches=benches, verified=wanted.verified)
