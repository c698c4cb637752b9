"""What the history holds of the subjects of a snapshot: benchmarks of the same setup, and the last comparison."""

from collections.abc import Sequence
from typing import NamedTuple

from unslow import __version__
from unslow.app.bench.history import Compared, compared_to, figured
from unslow.facts.bench import Bench
from unslow.facts.errors import UserError
from unslow.facts.snapshot import Case, Snapshot
from unslow.look.history import History, default_history
from unslow.think.bench.conditions import settings_of
from unslow.think.calibrate import mark_of

MOST_KEPT = 20
"""Of one setup: the newest ones; older curves are of little use."""


class LastChange(NamedTuple):
    """Two benchmarks that were held against each other, and the later one of them."""

    compared: Compared
    after: Bench


def kept_for(snapshot: Snapshot, history: History | None = None) -> tuple[Bench, ...]:
    """Benchmarks of the same machine, runtime, model and settings, newest first; none where nothing can be read."""
    history = history or default_history()
    found: dict[str, Bench] = {}
    for case in snapshot.cases():
        try:
            found |= {bench.id: bench for bench in history.same_setup(like(case), MOST_KEPT)}
        except UserError:  # a history that can't be read costs its curves, and nothing else
            break
    return tuple(sorted(found.values(), key=lambda bench: bench.taken_at, reverse=True))


def like(case: Case) -> Bench:
    """A benchmark as one of this case would be."""
    return Bench(
        id="",
        unslow_version=__version__,
        taken_at="",
        seconds=0.0,
        protocol="standard",
        runtime=case.runtime.name.value_or("unknown"),
        runtime_version=case.runtime.version.value_or(""),
        model=case.model.name.value_or("unknown"),
        model_bytes=case.model.weights_bytes.value_or(0),
        machine=mark_of(case.machine),
        settings=settings_of(case),
    )


def last_change_for(
    snapshot: Snapshot, given: Sequence[Bench], history: History | None = None, *, live: bool = True
) -> LastChange | None:
    """The last two benchmarks of the one subject: those that were given, else those that are kept; None for several."""
    cases = list(snapshot.cases())
    if len(cases) != 1:
        return None
    history = history or default_history()
    try:
        pair = _last_two(given) or (_kept_pair(like(cases[0]), history) if live else None)
        return LastChange(compared_to(pair[1], pair[0], history), pair[1]) if pair else None
    except UserError:
        return None


def _last_two(benches: Sequence[Bench]) -> tuple[Bench, Bench] | None:
    """The newest two with figures, the earlier one first."""
    told = sorted((bench for bench in map(figured, benches) if bench.samples), key=lambda bench: bench.taken_at)
    return (told[-2], told[-1]) if len(told) > 1 else None


def _kept_pair(wanted: Bench, history: History) -> tuple[Bench, Bench] | None:
    after = history.latest(wanted)
    before = history.latest(after) if after else None
    return (figured(before), figured(after)) if before and after and before.taken_at <= after.taken_at else None
