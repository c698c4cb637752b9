"""Reads engines, GPUs, hosts and pods, each into things of its own; what belongs together is found afterwards."""

from collections.abc import Mapping
from sys import intern

from unslow.catalog.exporters import exporters, exporters_of
from unslow.fleet.asking_all import Asking
from unslow.fleet.discover import Engine, Target, engines_of, first_of, interned, plain, quick_key
from unslow.fleet.folding import fold
from unslow.fleet.options import Labels, Options
from unslow.fleet.places import Gpu, Host
from unslow.fleet.promql import MARK, source_of
from unslow.fleet.queries import PACKS, Part, parts
from unslow.fleet.special_queries import SCOPE

BEFORE = "before."
_UNAME = ("domainname", "machine", "nodename", "release", "sysname", "version")
"""Labels of node_uname_info that are about the system; those of the target are the rest."""


class Past:
    """An engine of the time to compare with that has other labels now, or is not there any more."""

    __slots__ = ("labels", "raw")

    def __init__(self, labels: dict[str, str]) -> None:
        self.labels = labels
        self.raw: dict[str, tuple[int, float, str]] = {}


def read_targets(asking: Asking) -> dict[str, Target]:
    """Every label set of a target that serves a runtime's series."""
    targets: dict[str, Target] = {}
    for labels, value in asking.must("targets").series:
        name, _, what = labels.pop(MARK, "").partition(".")
        exporter = exporters().get(name)
        if exporter is None or any(label in labels for label in exporter.not_with):
            continue
        own = {label: labels.pop(label, "") for label in exporter.labels.get("model", ()) if label in exporter.own}
        key = quick_key(labels)
        target = targets.get(key) or targets.setdefault(key, Target(exporter.runtime, interned(labels)))
        if model := next((value for value in own.values() if value), ""):
            target.models.add(plain(model))
        if what == "samples":
            target.samples = max(target.samples, value)
        else:
            target.age = value if target.age < 0 else min(target.age, value)
    return targets


def read_engines(asking: Asking, options: Options) -> tuple[list[Engine], list[Past]]:
    """Every engine with all that was read of it, and those of before that are nobody's."""
    engines, places = engines_of(read_targets(asking), options.labels())
    known: dict[str, tuple[Engine, int] | None] = {**places}
    told = parts("engine", options.window_s)
    for name, of, *_ in PACKS:
        if of == "engine":
            fold(asking.answer(name), told, known)
    fold(asking.answer("up"), {"": Part("up", "", 0, "up, mean of the window")}, known)
    _fold_starts(asking, known)
    _fold_info(asking, known)
    pasts: list[Past] = []

    def past(labels: dict[str, str], _: Part) -> tuple[Engine | Past, int]:
        pasts.append(Past(interned(labels)))
        return pasts[-1], 0

    then: dict[str, tuple[Engine | Past, int] | None] = {**known}
    ago = f", {options.compare_s / 3600:g} h before"
    was = {mark: part._replace(source=part.source + ago) for mark, part in told.items()}
    fold(asking.answer("before"), was, then, past, BEFORE)
    return engines, pasts


def _fold_starts(asking: Asking, known: dict[str, tuple[Engine, int] | None]) -> None:
    marks = {"starts": Part("starts", "", 0, "process_start_time_seconds")}
    for name, one in exporters_of("engine").items():
        marks[f"{name}.resets"] = Part("resets", name, 0, one.counter)
    answered = asking.answer("starts")
    fold(answered, marks, known)
    for place in known.values() if answered.failure else ():
        if place:
            place[0].sound = False


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
            place[0].info.update({intern(name): plain(value) for name, value in mine.items()})


def read_gpus(asking: Asking, options: Options) -> list[Gpu]:
    """Every GPU with all that was read of it."""
    joined = options.labels()
    gpus: dict[tuple[str, ...], Gpu] = {}
    known: dict[str, tuple[Gpu, int] | None] = {}

    def find(labels: dict[str, str], part: Part) -> tuple[Gpu, int] | None:
        gpu = gpus.get(_gpu_key(labels, part.exporter, joined))
        return (gpu, 0) if gpu else None

    for labels, value in asking.answer("gpu_info").series:
        name = labels.pop(MARK, "")
        if name not in exporters():
            continue
        gpu = gpus.setdefault(_gpu_key(labels, name, joined), _gpu(labels, name, joined))
        if quantity := exporters()[name].info_is:
            told_before = gpu.raw[quantity][1] if quantity in gpu.raw else value
            source = source_of(exporters()[name].info, options.window_s)
            gpu.raw[quantity] = (0, max(told_before, value), source)
    told = parts("gpu", options.window_s)
    for name, of, *_ in PACKS:
        if of == "gpu":
            fold(asking.answer(name), told, known, find)
    return list(gpus.values())


def _gpu_key(labels: Mapping[str, str], exporter: str, joined: Labels) -> tuple[str, ...]:
    """Which GPU it is, and whose at that time; the same in every answer."""
    told = exporters()[exporter].labels
    which = first_of(labels, told["identity"]) or first_of(labels, told["index"])
    part, pod = first_of(labels, told.get("part", ())), first_of(labels, joined.gpu)
    scope = "/".join(labels.get(name, "") for name in SCOPE)
    return exporter, which, part, labels.get("instance", ""), first_of(labels, joined.namespace), pod, scope


def _gpu(labels: Mapping[str, str], exporter: str, joined: Labels) -> Gpu:
    one = exporters()[exporter]
    gpu = Gpu(labels, one.vendor, joined)
    told = {what: plain(first_of(labels, names)) for what, names in one.labels.items()}
    gpu.index = int(told["index"]) if told["index"].isdecimal() and len(told["index"]) < 6 else -1  # noqa: PLR2004
    gpu.name, gpu.identity, gpu.driver = told["name"], told["identity"], told.get("driver", "")
    gpu.part = told.get("part", "")
    return gpu


def read_hosts(asking: Asking, options: Options) -> list[Host]:
    """Every host with all that was read of it."""
    joined = options.labels()
    hosts: dict[tuple[str, ...], Host] = {}
    known: dict[str, tuple[Host, int] | None] = {}

    def find(labels: dict[str, str], _: Part) -> tuple[Host, int]:
        key = (labels.get("instance", ""), *(labels.get(name, "") for name in SCOPE))
        if key not in hosts:
            hosts[key] = Host(labels, joined)
        return hosts[key], 0

    told = parts("host", options.window_s)
    for labels, _ in asking.answer("host_info").series:
        nodename = labels.get("exported_nodename") or labels.get("nodename", "")
        host, _ = find({name: value for name, value in labels.items() if name not in _UNAME}, told["node.cpus.0"])
        if nodename and nodename not in host.names:
            host.names.insert(0, plain(nodename))
    for name, of, *_ in PACKS:
        if of == "host":
            fold(asking.answer(name), told, known, find)
    return list(hosts.values())
