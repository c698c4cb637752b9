"""The judgement of the whole fleet: instances by what they lose, causes by what they cost, the odd ones among peers.

The others are those that are judged normal by themselves, where there are enough of them, else all: where most of a
group is ill, the middle of it is no norm.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from unslow.fleet.differences import comparable_facts, differences, is_deviating, summary_of, usual_facts
from unslow.fleet.losses import UNEXPLAINED
from unslow.fleet.report import CauseCount, FleetReport, Instance, Judgement, Loss, Odd, PeerGroup
from unslow.think.case.speed import DECODE
from unslow.think.causes import all_causes
from unslow.think.report import Range, Verdict

Amount = TypeVar("Amount", int, float)
Floats = NDArray[np.float64]
WORST_FIRST: tuple[Verdict, ...] = ("failed", "slow", "cannot_tell", "normal")
MOST_NAMED = 5  # Keys that stand for a cause
MOST_REASONS = 8
NOT_EXPLAINED = "Unexplained"
MOST_ODD = 50  # Of one group that are told of; where more are slow, it is the group that is slow
UNKNOWN_DEVICES = "devices unknown, so they may differ"
LEAST_PEERS = 4  # Instances to hold one against: of fewer, nobody knows which is the odd one
LEAST_TOKENS = 64.0  # Of answers in the window: fewer tell no speed
NOISE = 0.10  # Of the speed: what differs less is chance, as two measurements of one server under real traffic do
FEW = 4.0
"""Instances whose spread says as much as is known without them: of a handful it is known badly, so more is chance."""
DEVIATIONS = 4.0  # Of the usual spread: of ten thousand like instances less than one is farther off by chance
_OF_MEDIAN = 1.4826  # Standard deviations in a median absolute deviation of a normal distribution
SAME_LOAD = 1.4  # Times as many requests at once: within it a step takes about as long where nothing predicts how long
SAME_LOAD_PREDICTED = 2.0  # The same where the load is in the prediction already, and only its error is to be the same
OPEN = 2.2
"""Times as fast in the middle of a prediction as at its low end: parts that are known reach two, and of more the middle
is no norm."""
MOST_NEIGHBOURS = 101  # By load: a median of a hundred is sharp, and thousands would take long


class Paces(NamedTuple):
    """Those of a group that can be compared: their places in it, and what share of its peers' speed each has."""

    places: list[int]
    speeds: Floats
    reached: Floats
    noise: float


def fleet_of(judged: Sequence[Judgement], head: FleetReport) -> FleetReport:
    """The report that only says how it came about, with all instances; each keeps the verdict that it has by itself."""

    def order(one: Instance) -> tuple[float, float, int, str]:  # the same every time
        return -(one.lost.tokens_per_s or 0.0), -(one.lost.gpu_hours or 0.0), WORST_FIRST.index(one.verdict), one.key

    instances = tuple(sorted((one.instance for one in judged), key=order))
    untold = sum(one.lost.tokens_per_s is None for one in instances)
    loss = Loss(
        tokens_per_s=sum_of_known(one.lost.tokens_per_s for one in instances),
        gpu_hours=sum_of_known(one.lost.gpu_hours for one in instances),
        idle_gpu_hours=sum_of_known(one.lost.idle_gpu_hours for one in instances),
        because=f"Loss unknown for {untold:,} of {len(instances):,} instances" if untold else "",
    )
    return msgspec.structs.replace(
        head,
        verdicts={verdict: sum(one.verdict == verdict for one in instances) for verdict in WORST_FIRST},
        tokens_per_s=sum_of_known(0.0 if is_idle(one) else one.tokens_per_s for one in instances),
        lost=loss,
        gpus=sum_of_known(one.gpus for one in instances),
        causes=cause_counts(instances),
        untold=undetermined_reasons(instances),
        idle=sum(map(is_idle, instances)),
        instances=instances,
        peers=peer_groups(judged, head.window_s),
    )


def is_idle(one: Instance) -> bool:
    """Whether it can't be judged because nobody asked anything of it: it is known to lose nothing."""
    return one.verdict == "cannot_tell" and one.lost.tokens_per_s == 0.0


def undetermined_reasons(instances: Iterable[Instance]) -> dict[str, int]:
    """Why instances that were asked something could not be judged, the commonest reasons first.

    What stands behind a colon may be different for each, such as the name of its host: those are one reason.
    """
    alike: dict[str, Counter[str]] = {}
    for one in instances:
        if one.verdict == "cannot_tell" and not is_idle(one):
            reason = one.lost.because or one.summary
            alike.setdefault(reason.partition(": ")[0], Counter())[reason] += 1
    counts = []
    for head, whole in alike.items():
        commonest = min(whole, key=lambda reason: (-whole[reason], reason))
        words = commonest if len(whole) == 1 else f"{head}, such as {commonest.partition(': ')[2]}"
        counts.append((words, whole.total()))
    return dict(sorted(counts, key=lambda count: (-count[1], count[0]))[:MOST_REASONS])


def sum_of_known(amounts: Iterable[Amount | None]) -> Amount | None:
    """What is known added up; None where nothing is, as that is not nought."""
    known = [amount for amount in amounts if amount is not None]
    return sum(known[1:], known[0]) if known else None


def cause_counts(instances: Sequence[Instance]) -> tuple[CauseCount, ...]:
    """Each cause over all instances that are not normal, the one that costs most tokens first.

    What an instance loses is shared among its causes, so that all causes together cost what the fleet loses.
    """
    by_cause: dict[str, list[Instance]] = {}
    for one in instances:
        for cause in _causes_of(one):
            by_cause.setdefault(cause, []).append(one)
    counts = [_cause_count(cause, those) for cause, those in by_cause.items()]
    return tuple(sorted(counts, key=lambda c: (-(c.tokens_per_s or 0.0), -(c.gpu_hours or 0.0), -c.instances, c.cause)))


def _causes_of(one: Instance) -> dict[str, None]:
    """Its causes, each once: what was found, what its own exporter names, what nothing explains."""
    return dict.fromkeys((*(finding.cause for finding in one.findings), *one.by_itself, *one.lost_by))


def _cause_count(cause: str, those: list[Instance]) -> CauseCount:
    most = sorted(those, key=lambda one: (-one.lost_by.get(cause, 0.0), one.key))
    # What an instance loses to this cause; None where nothing tells what it loses
    lost = (None if one.lost.tokens_per_s is None else one.lost_by.get(cause, 0.0) for one in those)
    known = all_causes().get(cause)
    return CauseCount(
        cause=cause or "unexplained",
        title=known.title if known else NOT_EXPLAINED if cause == UNEXPLAINED else cause.replace("_", " "),
        instances=len(those),
        tokens_per_s=sum_of_known(lost),
        gpu_hours=sum_of_known(_hours(one, cause) for one in those),
        worst=tuple(one.key for one in most[:MOST_NAMED]),
    )


def _hours(one: Instance, cause: str) -> float | None:
    """The GPU-hours of an instance that are this cause's, by its part of the tokens; None where nothing tells."""
    tokens, hours = one.lost.tokens_per_s, one.lost.gpu_hours
    if hours is None:
        return None
    if not tokens:  # it gives nothing at all, and the first of its causes is why
        return hours if next(iter(_causes_of(one)), UNEXPLAINED) == cause else 0.0
    return hours * one.lost_by.get(cause, 0.0) / tokens


def peer_groups(judged: Sequence[Judgement], window_s: float) -> tuple[PeerGroup, ...]:
    """Every group, those with odd ones first, then the largest."""
    groups: dict[tuple[str, str, str], list[Judgement]] = {}
    for member in judged:
        one = member.instance
        # Its CPU counts only where it has no GPU
        devices = one.devices[:-1] if one.gpus and len(one.devices) > one.gpus else one.devices
        groups.setdefault((one.runtime, one.model, names_with_counts(devices)), []).append(member)
    found = [_peer_group(kind, members, window_s) for kind, members in groups.items()]
    return tuple(sorted(found, key=lambda g: (-len(g.odd), -g.instances, g.runtime, g.model, g.devices)))


def names_with_counts(names: Iterable[str]) -> str:
    """Each name once, with how often it is there, such as `4 x NVIDIA H100`."""
    return ", ".join(f"{count} x {name}" if count > 1 else name for name, count in Counter(names).items())


def _peer_group(kind: tuple[str, str, str], members: list[Judgement], window_s: float) -> PeerGroup:
    runtime, model, devices = kind
    instances = [one.instance for one in members]
    seen = peer_paces(instances, window_s) if devices else None
    low, mid, high = (float(speed) for speed in np.quantile(seen.speeds, [0.1, 0.5, 0.9])) if seen else (0.0,) * 3
    enough, needed = sum(1 for one in instances if is_comparable(one, window_s)), LEAST_PEERS + 1
    because = f"{enough} of them generated enough in the window, {needed} are needed to compare"
    if enough >= needed:
        because = "loads too different to compare, and no predicted speeds"
    return PeerGroup(
        runtime=runtime,
        model=model,
        devices=devices,
        instances=len(members),
        judged=len(seen.places) if seen else enough,
        speed=Range(low=low, mid=mid, high=high) if seen else None,
        odd=_odd_ones(members, seen) if seen else (),
        because="" if seen else because if devices else UNKNOWN_DEVICES,
    )


def _odd_ones(members: list[Judgement], seen: Paces) -> tuple[Odd, ...]:
    # Numbers among the places: those slower than their peers by more than noise, the slowest first, and the others
    is_slower = seen.reached < 1.0 - seen.noise
    slower = [n for n in map(int, np.argsort(seen.reached, kind="stable")) if is_slower[n]][:MOST_ODD]
    peers = [int(n) for n in np.flatnonzero(~is_slower)]
    if not slower:
        return ()
    usual = usual_facts([members[seen.places[n]].facts for n in peers])
    facts = {n: comparable_facts(members[seen.places[n]].facts) for n in slower}
    values = [(path, value) for one in facts.values() for path, (_, value) in one.items() if path in usual]
    shared, odd = Counter(path for path, value in values if is_deviating(path, value, usual[path])), []
    for n in slower:
        one, reached = members[seen.places[n]].instance, float(seen.reached[n])
        found = tuple(differences(one, facts[n], usual, shared))
        said = summary_of(reached, len(peers), found)
        odd.append(Odd(key=one.key, reached=reached, differences=found, summary=said))
    return tuple(odd)


def peer_paces(group: list[Instance], window_s: float) -> Paces | None:
    """How the comparable ones of a group stand to one another; None where they are too few."""
    places = [n for n, one in enumerate(group) if is_comparable(one, window_s)]
    predicted = [n for n in places if _expected_speed(group[n])]
    by_physics = 2 * len(predicted) >= len(places)
    places = predicted if by_physics else places
    if len(places) <= LEAST_PEERS:
        return None
    speeds = np.array([group[n].measured[DECODE] for n in places])
    loads = np.array([max(1.0, group[n].at_once or group[n].running or 0.0) for n in places])
    norms = np.array([_expected_speed(group[n]) or 1.0 for n in places]) if by_physics else np.ones(len(places))
    normal = np.array([group[n].verdict == "normal" for n in places])
    healthy = normal if int(normal.sum()) >= LEAST_PEERS else np.ones(len(places), dtype=np.bool_)
    values = speeds / norms
    reached = values / _peer_medians(values, loads, healthy, by_physics=by_physics)
    known = np.flatnonzero(np.isfinite(reached))
    if len(known) <= LEAST_PEERS:
        return None
    told = reached[known][healthy[known]] if healthy[known].any() else reached[known]
    spread = float(np.median(np.abs(told - np.median(told)))) * _OF_MEDIAN
    noise = min(1.0, max(NOISE * (1.0 + FEW / len(told)), DEVIATIONS * spread))  # more in a small group
    return Paces([places[n] for n in known], speeds[known], reached[known], noise)


def is_comparable(one: Instance, window_s: float) -> bool:
    """Whether its speed is known of enough tokens."""
    tokens = (one.tokens_per_s or 0.0) * window_s
    return bool(one.measured.get(DECODE)) and one.running is not None and tokens >= LEAST_TOKENS


def _expected_speed(one: Instance) -> float | None:
    """What it could give to one request at its load, cured: what is wrong with an instance must not excuse it.

    None where that is left open by a factor: prompts take nearly all its time, say.
    """
    best = one.expected.achievable.get(DECODE) or one.expected.as_configured.get(DECODE)
    return best.mid if best and best.mid > 0 and best.mid <= OPEN * best.low else None


def _peer_medians(values: Floats, loads: Floats, healthy: NDArray[np.bool_], *, by_physics: bool) -> Floats:
    """For each, the median of the healthy ones with about its load.

    Of too few it is that of all healthy ones, or none where no prediction has the load in it.
    """
    order = np.argsort(loads[healthy], kind="stable")
    of_loads, of_values = loads[healthy][order], values[healthy][order]
    factor = SAME_LOAD_PREDICTED if by_physics else SAME_LOAD
    first = np.searchsorted(of_loads, loads / factor, side="left")
    last = np.searchsorted(of_loads, loads * factor, side="right")
    middle = np.searchsorted(of_loads, loads)
    first = np.maximum(first, np.minimum(middle - MOST_NEIGHBOURS // 2, last - MOST_NEIGHBOURS))
    last = np.minimum(last, first + MOST_NEIGHBOURS)
    enough = last - first >= LEAST_PEERS + healthy  # itself is no peer
    otherwise = float(np.median(of_values)) if by_physics else float("nan")
    return np.array([
        float(np.median(of_values[a:b])) if told else otherwise
        for a, b, told in zip(first, last, enough, strict=True)
    ])  # fmt: skip
