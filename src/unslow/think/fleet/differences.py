"""Which facts of a slow instance are unlike those of its healthy peers, the most telling first.

A fact tells where the peers agree with one another and the odd one is far off them, in the direction that is worse
where there is one. What names an instance, and what is a consequence of being slow, is no reason.
"""

import math
from collections.abc import Mapping

from unslow.think.fleet.report import Difference, Instance
from unslow.think.fleet.telling import decided_cause, plain_path, worse_way
from unslow.think.fleet.usual_facts import NEARLY_NONE, Facts, Usual

MOST_SHOWN = 5
_CITED, _DECIDES = 4.0, 2.0
"""How far what a finding gives as evidence, and what decides a cause, comes before the rest: by more than being far off
and being agreed upon can make up for."""
_FARTHEST = 4.0
"""Doublings of the usual spread, beyond which farther off says no more."""
_FOLLOWS = {"event_reasons": 3.0, "clock_hz": 3.5}
"""What mostly follows from another fact, such as a power limit or heat, that is then to be named before it."""
_ALIKE = {
    "kv_usage": "cache_used", "temperature_max_c": "temperature_c", "vram_used_max_bytes": "vram_free_bytes",
    "vram_used_bytes": "vram_free_bytes", "pcie_width_max_seen": "pcie_width", "event_reasons": "event_reasons",
    "pcie_generation_max_seen": "pcie_generation", "clock_hz": "clock_hz", "preemptions": "preemptions",
    "quota_cpus": "quota_cpus", "allowed_cpus": "allowed_cpus", "context_set": "context_length",
    "context_per_slot": "context_length",
}  # fmt: skip
"""By the last word: one thing that is told in several places, or from two sides. It is shown where it tells most."""


def differences(odd: Instance, facts: Facts, usual: Mapping[str, Usual], shared: Mapping[str, int]) -> list[Difference]:
    """In what the odd one is unlike its peers; `shared` counts by path how many odd ones are."""
    cited, sources = _cited(odd), {plain_path(e.fact): e.source for f in odd.findings for e in f.evidence}
    off = [path for path, one in usual.items() if is_off(path, facts, one)]
    off.sort(key=lambda path: (-_telling(path, facts, usual[path], shared, cited), path))
    first = {_thing(path): path for path in reversed(off)}
    return [
        Difference(
            fact=facts.paths[path],
            value=facts.values[path],
            peers=usual[path].value,
            share=usual[path].share,
            explains=cited.get(path) or decided_cause(path),
            source=sources.get(path, ""),
        )
        for path in [path for path in off if first[_thing(path)] == path][:MOST_SHOWN]
    ]


def _thing(path: str) -> str:
    """What a fact is about."""
    last = path.rpartition(".")[2]
    return _ALIKE.get(last, last if last in _ALIKE.values() else path)


def is_off(path: str, facts: Facts, usual: Usual) -> bool:
    """Whether the value of an instance is far from what its peers have, in a direction that can hurt."""
    value = facts.values.get(path)
    if value is None:
        return False
    if not isinstance(usual.value, int | float) or isinstance(usual.value, bool):
        return value != usual.value and usual.others.get(value, 0.0) <= NEARLY_NONE
    if isinstance(value, str | bool):
        return False
    off = value - float(usual.value)
    way = worse_way(path)
    return abs(off) > usual.spread and not usual.low <= value <= usual.high and (way == 0 or off * way > 0)


def _telling(path: str, facts: Facts, usual: Usual, shared: Mapping[str, int], cited: Mapping[str, str]) -> float:
    """How much a difference says: what a finding cites before what decides a cause, then how far off it is."""
    weight = _CITED if path in cited else _DECIDES if decided_cause(path) else 0.0
    far = 1.0
    value = facts.values[path]
    if usual.spread and isinstance(value, int | float):
        far = min(1.0, math.log2(abs(value - float(usual.value)) / usual.spread) / _FARTHEST)
    follows = _FOLLOWS.get(path.rpartition(".")[2], 0.0)
    several = 0.0 if follows else math.log2(shared.get(path, 1)) / 2.0  # what follows is shared with its reason
    return weight - follows + far + usual.share + several


def _cited(odd: Instance) -> dict[str, str]:
    """The causes by the facts that findings give as evidence."""
    return {plain_path(e.fact): f.cause for f in reversed(odd.findings) for e in f.evidence}
