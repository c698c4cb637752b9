"""Every engine that Prometheus scrapes, once, with its readings; and those of the time to compare with.

Two servers of Prometheus that scrape the same (`prometheus_replica`), or two jobs, tell of one engine: the one that
saw most speaks, the others only where it is silent. Nothing is ever added up over them.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from sys import intern

from unslow.catalog.prometheus import exporters, exporters_of
from unslow.facts.errors import UserError
from unslow.fleet.asking import Asking, fold
from unslow.fleet.labels import first_of, intern_labels, plain_label, quick_key
from unslow.fleet.queries import MARK, SCOPE, Labels, Options, Part, parts

BEFORE = "before."
REPLICA = ("prometheus_replica", "__replica__", "replica", "receive", "receive_replica", "prometheus", "monitor")
_HOW_SCRAPED = frozenset((*REPLICA, "job", "endpoint", "service", "container", "scrape_job"))
"""Labels that say who scrapes a target and how it was found, and not which it is."""


class Engine:
    """One engine while its answers come in."""

    __slots__ = ("ages", "info", "key", "labels", "models", "raw", "replicas", "runtime", "samples", "sound", "twice")

    def __init__(self, runtime: str, labels: dict[str, str]) -> None:
        self.runtime, self.labels = runtime, labels
        self.sound = True  # Whether anybody told how often its counters began anew
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


class Past:
    """An engine of the time to compare with that has other labels now, or is not there any more."""

    __slots__ = ("labels", "raw")

    def __init__(self, labels: dict[str, str]) -> None:
        self.labels = labels
        self.raw: dict[str, tuple[int, float, str]] = {}


def read_engines(asking: Asking, options: Options) -> tuple[list[Engine], list[Past]]:
    """Every engine with all that was read of it, and those of before that are nobody's."""
    engines, places = engines_of(read_targets(asking), options.labels())
    known: dict[str, tuple[Engine, int] | None] = {**places}
    told = parts("engine", options.window_s)
    for answered in asking.answers("engine"):
        fold(answered, told, known)
    fold(asking.answer("up"), {"": Part("up", "", 0, "up, mean over the window")}, known)
    marks = {"starts": Part("starts", "", 0, "process_start_time_seconds")}
    for name, one in exporters_of("engine").items():
        marks[f"{name}.resets"] = Part("resets", name, 0, one.counter)
    answered = asking.answer("starts")
    fold(answered, marks, known)
    for place in known.values() if answered.failure else ():
        if place:
            place[0].sound = False
    _fold_info(asking, known)
    pasts: list[Past] = []

    def past(labels: dict[str, str], _: Part) -> tuple[Engine | Past, int]:
        pasts.append(Past(intern_labels(labels)))
        return pasts[-1], 0

    then: dict[str, tuple[Engine | Past, int] | None] = {**known}
    ago = f", {options.compare_s / 3600:g} h before"
    was = {mark: part._replace(source=part.source + ago) for mark, part in told.items()}
    fold(asking.answer("before"), was, then, past, BEFORE)
    return engines, pasts


def read_targets(asking: Asking) -> dict[str, Target]:
    """Every label set of a target that serves a runtime's series; UserError where there is no answer."""
    targets: dict[str, Target] = {}
    answered = asking.answer("targets")
    if answered.failure:
        hint = answered.hint or "--match selects a part of the fleet"
        raise UserError(f"could not list the engines: {answered.failure}", hint)
    for labels, value in answered.series:
        name, _, what = labels.pop(MARK, "").partition(".")
        exporter = exporters().get(name)
        if exporter is None or any(label in labels for label in exporter.not_with):
            continue
        own = {label: labels.pop(label, "") for label in exporter.labels.get("model", ()) if label in exporter.own}
        key = quick_key(labels)
        target = targets.get(key) or targets.setdefault(key, Target(exporter.runtime, intern_labels(labels)))
        if model := next((value for value in own.values() if value), ""):
            target.models.add(plain_label(model))
        if what == "samples":
            target.samples = max(target.samples, value)
        else:
            target.age = value if target.age < 0 else min(target.age, value)
    return targets


def engines_of(targets: Mapping[str, Target], labels: Labels) -> tuple[list[Engine], dict[str, tuple[Engine, int]]]:
    """Every engine once, and for each label set the engine and its place among those that tell of it."""
    groups: dict[tuple[str, str, str, str], list[tuple[str, Target]]] = defaultdict(list)
    for key, target in targets.items():
        pod, space = first_of(target.labels, labels.pod), first_of(target.labels, labels.namespace)
        groups[target.runtime, space, pod, target.labels.get("instance", "")].append((key, target))
    engines: list[Engine] = []
    places: dict[str, tuple[Engine, int]] = {}
    for (_, space, pod, instance), group in groups.items():
        for same in _groups_of_same(group):
            first, told_by = same[0][1], [target for _, target in same]
            engine = Engine(first.runtime, first.labels)
            engine.key = f"{space}/{pod}" if pod and space else pod or instance or "unknown"
            engine.samples = first.samples
            engine.models = {model for target in told_by for model in target.models}
            engine.ages = [target.age for target in told_by if target.age >= 0]
            engine.replicas = len({tuple(target.labels.get(name, "") for name in REPLICA) for target in told_by})
            engine.twice = len({target.labels.get("job", "") for target in told_by})
            engines.append(engine)
            places |= {key: (engine, place) for place, (key, _) in enumerate(same)}
    _name_apart(engines)
    return engines, places


def _groups_of_same(group: list[tuple[str, Target]]) -> Iterator[list[tuple[str, Target]]]:
    """Those that nothing but the way of scraping tells apart."""
    if len(group) == 1:
        yield group
        return
    apart = _varying_labels([target.labels for _, target in group])
    found: dict[tuple[object, ...], list[tuple[str, Target]]] = defaultdict(list)
    for key, target in group:
        found[(*(target.labels.get(name, "") for name in apart), frozenset(target.models))].append((key, target))
    for same in found.values():
        yield sorted(same, key=lambda one: (-one[1].samples, one[0]))


def _varying_labels(all_labels: list[dict[str, str]]) -> list[str]:
    values: dict[str, set[str]] = defaultdict(set)
    for labels in all_labels:
        for name, value in labels.items():
            values[name].add(value)
    return sorted(name for name, some in values.items() if len(some) > 1 and name not in _HOW_SCRAPED)


def _name_apart(engines: list[Engine]) -> None:
    """Where two have the same name, what tells them apart is added to it."""
    named: dict[str, list[Engine]] = defaultdict(list)
    for engine in engines:
        named[engine.key].append(engine)
    for key, group in named.items():
        if len(group) == 1:
            continue
        apart = _varying_labels([engine.labels for engine in group]) or ["job"]
        apart.sort(key=lambda name: (name not in SCOPE, name))
        for number, engine in enumerate(group, 1):
            told = ", ".join(engine.labels[name] for name in apart[:3] if engine.labels.get(name))
            engine.key = f"{key} ({told[:80]})" if told else f"{key} ({number})"
    taken: set[str] = set()
    for number, engine in enumerate(engines):
        engine.key = engine.key if engine.key not in taken else f"{engine.key} #{number}"
        taken.add(engine.key)


def _fold_info(asking: Asking, known: Mapping[str, tuple[Engine, int] | None]) -> None:
    """Labels of information metrics: those that nobody's target has are the information."""
    names = {name for place in known.values() if place for name in place[0].labels}
    for labels, _ in asking.answer("engine_info").series:
        exporter = exporters().get(labels.pop(MARK, ""))
        if exporter is None:
            continue
        mine = {name: value for name, value in labels.items() if name in exporter.info_labels and name not in names}
        labels.pop("__name__", None)
        place = known.get(quick_key({name: value for name, value in labels.items() if name in names}))
        if place and (place[1] == 0 or not place[0].info):
            place[0].info.update({intern(name): plain_label(value) for name, value in mine.items()})
