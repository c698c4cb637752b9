"""Which engines there are: one for each target that serves a runtime's series, however often it is scraped.

Two servers of Prometheus that scrape the same (`prometheus_replica`), or two jobs, tell of one engine: the one that saw
most speaks, the others only where it is silent. Nothing is ever added up over them.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from sys import intern
from zlib import crc32

from unslow.facts.masking_rules import keyless_text
from unslow.fleet.options import Labels
from unslow.fleet.special_queries import SCOPE

REPLICA = ("prometheus_replica", "__replica__", "replica", "receive", "receive_replica", "prometheus", "monitor")
_HOW_SCRAPED = frozenset((*REPLICA, "job", "endpoint", "service", "container", "scrape_job"))
"""Labels that say who scrapes a target and how it was found, and not which it is."""
_LONGEST, _LONGEST_SHOWN = 300, 120
"""Of a label's value: the longest names of models and pods have half of it."""
_MAY_BE_SECRET = re.compile(r"(?i)[@= ]|\bsk-|hf_|gh[a-z]_|eyj|akia|xox|token|key|secret|passw")
"""What is worth the long look for keys and passwords: nearly no name of a target is."""


class Engine:
    """One engine while its answers come in."""

    __slots__ = ("ages", "info", "key", "labels", "models", "raw", "replicas", "runtime", "samples", "sound", "twice")

    def __init__(self, runtime: str, labels: dict[str, str]) -> None:
        self.runtime, self.labels = runtime, labels
        self.sound = True
        """Whether anybody told how often its counters began anew."""
        self.key, self.samples, self.replicas, self.twice = "", 0.0, 1, 1
        self.models: set[str] = set()
        self.ages: list[float] = []
        self.raw: dict[str, tuple[int, float, str]] = {}
        self.info: dict[str, str] = {}


class Target:
    """One label set of a scraped target, as Prometheus has it."""

    __slots__ = ("age", "labels", "models", "runtime", "samples")

    def __init__(self, runtime: str, labels: dict[str, str]) -> None:
        self.runtime, self.labels = runtime, labels
        self.models: set[str] = set()
        self.samples, self.age = 0.0, -1.0


def quick_key(labels: Mapping[str, str]) -> str:
    """The same for the same labels, and cheap: most of the time goes into this."""
    return "\0".join([*labels, *labels.values()])


def first_of(labels: Mapping[str, str], names: Iterable[str]) -> str:
    """The first label that says something."""
    return next((labels[name] for name in names if labels.get(name)), "")


def interned(labels: Mapping[str, str]) -> dict[str, str]:
    """The same, each text plain and held once in the whole program."""
    return {intern(name): plain(value) for name, value in labels.items()}


def plain(text: str) -> str:
    """A text of a label that can be shown anywhere: anybody may write labels, and some write passwords into them."""
    if len(text) > _LONGEST:  # two that only end otherwise stay two
        text = f"{text[:_LONGEST]}~{crc32(text.encode('utf-8', 'replace')):08x}"
    if not text.isprintable():
        text = "".join(char if char.isprintable() else "?" for char in text)
    if _MAY_BE_SECRET.search(text):
        text = _keyless(text)
    return intern(text)


def shown_label(text: str) -> str:
    """A label's value as a member carries it."""
    return plain(text)[:_LONGEST_SHOWN]


_keyless = lru_cache(2**14)(keyless_text)
"""The names of GPUs have spaces too, and ten thousand of them are the same."""


def engines_of(targets: Mapping[str, Target], labels: Labels) -> tuple[list[Engine], dict[str, tuple[Engine, int]]]:
    """Every engine once, and for each label set the engine and its place among those that tell of it."""
    groups: dict[tuple[str, str, str, str], list[tuple[str, Target]]] = defaultdict(list)
    for key, target in targets.items():
        pod, space = first_of(target.labels, labels.pod), first_of(target.labels, labels.namespace)
        groups[target.runtime, space, pod, target.labels.get("instance", "")].append((key, target))
    engines: list[Engine] = []
    places: dict[str, tuple[Engine, int]] = {}
    for (_, space, pod, instance), group in groups.items():
        for same in _same(group):
            engine = _engine(same)
            engine.key = f"{space}/{pod}" if pod and space else pod or instance or "unknown"
            engines.append(engine)
            places |= {key: (engine, place) for place, (key, _) in enumerate(same)}
    _name_apart(engines)
    return engines, places


def _same(group: list[tuple[str, Target]]) -> Iterator[list[tuple[str, Target]]]:
    """Those that nothing but the way of scraping tells apart."""
    if len(group) == 1:
        yield group
        return
    apart = _varying([target.labels for _, target in group])
    found: dict[tuple[object, ...], list[tuple[str, Target]]] = defaultdict(list)
    for key, target in group:
        found[(*(target.labels.get(name, "") for name in apart), frozenset(target.models))].append((key, target))
    for same in found.values():
        yield sorted(same, key=lambda one: (-one[1].samples, one[0]))


def _varying(all_labels: list[dict[str, str]]) -> list[str]:
    """Labels of the targets themselves of which there is more than one value."""
    values: dict[str, set[str]] = defaultdict(set)
    for labels in all_labels:
        for name, value in labels.items():
            values[name].add(value)
    return sorted(name for name, some in values.items() if len(some) > 1 and name not in _HOW_SCRAPED)


def _engine(same: list[tuple[str, Target]]) -> Engine:
    targets = [target for _, target in same]
    engine = Engine(targets[0].runtime, targets[0].labels)
    engine.samples = targets[0].samples
    for target in targets:
        engine.models |= target.models
        engine.ages += [target.age] if target.age >= 0 else []
    engine.replicas = len({tuple(target.labels.get(name, "") for name in REPLICA) for target in targets})
    engine.twice = len({target.labels.get("job", "") for target in targets})
    return engine


def _name_apart(engines: list[Engine]) -> None:
    """Where two have the same name, what tells them apart is added to it."""
    named: dict[str, list[Engine]] = defaultdict(list)
    for engine in engines:
        named[engine.key].append(engine)
    for key, group in named.items():
        if len(group) == 1:
            continue
        apart = _varying([engine.labels for engine in group]) or ["job"]
        apart.sort(key=lambda name: (name not in SCOPE, name))
        for number, engine in enumerate(group, 1):
            told = ", ".join(engine.labels[name] for name in apart[:3] if engine.labels.get(name))
            engine.key = f"{key} ({told[:80]})" if told else f"{key} ({number})"
    taken: set[str] = set()
    for number, engine in enumerate(engines):
        engine.key = engine.key if engine.key not in taken else f"{engine.key} #{number}"
        taken.add(engine.key)
