"""Instances with the same runtime, model and devices: who is slower than the others at the same load, and why."""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from unslow.think.fleet.differences import differences, is_off
from unslow.think.fleet.judged import Judged
from unslow.think.fleet.odd_words import summary_of
from unslow.think.fleet.pace import LEAST_PEERS, Paces, is_comparable, paces
from unslow.think.fleet.report import Instance, Odd, PeerGroup
from unslow.think.fleet.usual_facts import Facts, Usual, comparable, usual_facts
from unslow.think.report import Range

MOST_ODD = 50
"""Of one group that are told of; where more are slow, it is the group that is slow."""

UNKNOWN_DEVICES = "on which devices they run is not known, so that they may not be alike"


def peer_groups(judged: Sequence[Judged], window_s: float) -> tuple[PeerGroup, ...]:
    """Every group, those with odd ones first, then the largest."""
    groups: dict[tuple[str, str, str], list[Judged]] = {}
    for one in judged:
        groups.setdefault(_kind(one.instance), []).append(one)
    found = [_group(kind, members, window_s) for kind, members in groups.items()]
    return tuple(sorted(found, key=lambda g: (-len(g.odd), -g.instances, g.runtime, g.model, g.devices)))


def _kind(one: Instance) -> tuple[str, str, str]:
    return one.runtime, one.model, devices_words(one)


def devices_words(one: Instance) -> str:
    """Its devices with how often each is there, such as `4 x NVIDIA H100`; its CPU only where it has no GPU."""
    names = one.devices[:-1] if one.gpus and len(one.devices) > one.gpus else one.devices
    return counted_names(names)


def counted_names(names: Iterable[str]) -> str:
    """Each name once, with how often it is there."""
    return ", ".join(f"{count} x {name}" if count > 1 else name for name, count in Counter(names).items())


def _group(kind: tuple[str, str, str], members: list[Judged], window_s: float) -> PeerGroup:
    runtime, model, devices = kind
    instances = [one.instance for one in members]
    seen = paces(instances, window_s) if devices else None
    enough = sum(1 for one in instances if is_comparable(one, window_s))
    return PeerGroup(
        runtime=runtime,
        model=model,
        devices=devices,
        instances=len(members),
        judged=len(seen.places) if seen else enough,
        speed=_speeds(seen) if seen else None,
        odd=_odd_ones(members, seen) if seen else (),
        because="" if seen else _why_not(enough) if devices else UNKNOWN_DEVICES,
    )


def _why_not(enough: int) -> str:
    needed = LEAST_PEERS + 1
    if enough >= needed:
        return "their loads are too different to compare them, and nothing predicts what each should give"
    return f"{enough} of them answered enough in the window to compare, and it takes {needed}"


def _speeds(seen: Paces) -> Range:
    low, mid, high = (float(speed) for speed in np.quantile(seen.speeds, [0.1, 0.5, 0.9]))
    return Range(low=low, mid=mid, high=high)


def _odd_ones(members: list[Judged], seen: Paces) -> tuple[Odd, ...]:
    slower = seen.slower[:MOST_ODD]
    if not slower:
        return ()
    usual = usual_facts([members[seen.places[n]].facts for n in seen.usual])
    facts = {n: comparable(members[seen.places[n]].facts) for n in slower}
    shared = Counter(path for one in facts.values() for path, what in usual.items() if is_off(path, one, what))
    return tuple(_odd(members[seen.places[n]].instance, n, facts[n], seen, usual, shared) for n in slower)


def _odd(one: Instance, number: int, facts: Facts, seen: Paces, usual: dict[str, Usual], shared: Counter[str]) -> Odd:
    found = tuple(differences(one, facts, usual, shared))
    reached = float(seen.reached[number])
    return Odd(key=one.key, reached=reached, differences=found, summary=summary_of(reached, len(seen.usual), found))
