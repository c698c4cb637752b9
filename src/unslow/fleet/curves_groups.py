"""Like instances put together: the same runtime, model and devices."""

from collections.abc import Mapping, Sequence

from unslow.facts.snapshot import Case
from unslow.fleet.curves_moments import Grid, Row, load_of, moments_of
from unslow.fleet.member import Member
from unslow.fleet.snapshot.gpus import gpus_of
from unslow.fleet.snapshots import snapshot_of
from unslow.think.fleet.capacity_moments import Like
from unslow.think.fleet.peers import counted_names


def likes_of(members: Sequence[Member], rows: Mapping[str, Mapping[str, Row]], grid: Grid) -> list[Like]:
    """One for each group, with everything that was seen of it."""
    groups: dict[tuple[str, str, str], list[Member]] = {}
    for member in members:
        groups.setdefault((member.runtime, member.model, devices_of(member)), []).append(member)
    return [_like(those, rows, grid) for those in groups.values()]


def devices_of(member: Member) -> str:
    """Such as `2 x NVIDIA H100`; empty where no GPU is known."""
    return counted_names(gpu.name for gpu in gpus_of(member))


def _like(members: Sequence[Member], rows: Mapping[str, Mapping[str, Row]], grid: Grid) -> Like:
    first = members[0]
    known = [rows[member.key] for member in members]
    places = [m.engine["places"].value for m in members if "places" in m.engine]
    return Like(
        runtime=first.runtime,
        model=first.model,
        devices=devices_of(first),
        instances=len(members),
        gpus_each=len(gpus_of(first)) or None,
        moments=tuple(moment for those in known for moment in moments_of(those, grid.window_s)),
        load=load_of([those["running"] for those in known if "running" in those]),
        places=min(places) if places else None,
        case=_case(_most_told(members)),
        without="" if any("running" in those for those in known) else "it tells no requests at once over time",
    )


def _most_told(members: Sequence[Member]) -> Member:
    """The one of which most is known stands for all in physics."""
    return max(members, key=lambda member: (len(member.engine), len(member.info), len(member.gpus)))


def _case(member: Member) -> Case | None:
    return next(snapshot_of(member).cases(), None)
