"""What belongs to each engine: its GPUs, host and pod, or the reason why it has none, and what its exporter says of it.

A GPU goes to the pod that it was given to; else to the one engine that has its host alone. Where several engines
share a host and nothing says whose a GPU is, nobody gets it: a reason is told in its place.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from unslow.catalog.prometheus import Exporter, exporters
from unslow.fleet.asking import MOST, NOT_ANSWERED, Asking, fold
from unslow.fleet.engines import Engine
from unslow.fleet.labels import (
    NameIndex,
    SubjectKey,
    find_by_names,
    first_of,
    host_and_port,
    host_names,
    intern_labels,
    plain_label,
    scope_of,
    subject_key,
)
from unslow.fleet.member import OwnDiagnosis, Reading
from unslow.fleet.pods import Pod, read_pods
from unslow.fleet.queries import MARK, SCOPE, Labels, Options, Part, parts, source_of

NO_EXPORTER = {
    "gpus": "no GPU exporter is scraped: add NVIDIA's dcgm-exporter or AMD's device metrics exporter",
    "host": "no node exporter is scraped",
}
_NOT_FOUND = "no {what} exporter found for its host: no labels name {names}, see --join host=LABEL"
_SEVERAL = (
    "several engines share its host and no label assigns the GPUs: {count} engines share {host}; let the GPU exporter"
    " report pods, or give each engine a label gpu_ids in the scrape configuration"
)
_UNAME = ("domainname", "machine", "nodename", "release", "sysname", "version")
"""Labels of node_uname_info that are about the system; those of the target are the rest."""
_INFO = ("runtime", "version", "model", "quant", "device", "port")
_AHEAD_S = 300.0  # A look that lies farther in the future was taken by a clock that tells nothing of its age


class Host:
    """A machine that an exporter tells of."""

    __slots__ = ("names", "raw", "readings", "scope")

    def __init__(self, labels: Mapping[str, str], joined: Labels) -> None:
        self.names, self.scope = host_names(labels, joined), scope_of(labels)
        self.raw: dict[str, tuple[int, float, str]] = {}
        self.readings: dict[str, Reading] | None = None


class Gpu:
    """One GPU as one exporter tells of it, for as long as it belongs to one pod."""

    __slots__ = ("driver", "hosts", "identity", "index", "name", "part", "pod", "raw", "scope", "vendor")

    def __init__(self, labels: Mapping[str, str], exporter: Exporter, joined: Labels) -> None:
        told = {what: plain_label(first_of(labels, names)) for what, names in exporter.labels.items()}
        self.index = int(told["index"]) if told["index"].isdecimal() and len(told["index"]) < 6 else -1  # noqa: PLR2004
        self.name, self.identity, self.vendor = told["name"], told["identity"], exporter.vendor
        self.driver, self.part = told.get("driver", ""), told.get("part", "")
        self.raw: dict[str, tuple[int, float, str]] = {}
        self.scope, self.hosts = scope_of(labels), host_names(labels, joined)
        self.pod = (first_of(labels, joined.namespace), first_of(labels, joined.gpu))


class Subject:
    """One engine that an exporter looked at."""

    __slots__ = (
        "costs", "expected", "findings", "hosts", "info", "instance", "labels", "name", "numbers", "scope", "verdict",
    )  # fmt: skip

    def __init__(self, labels: Mapping[str, str], joined: Labels) -> None:
        self.name, self.instance = plain_label(labels.get("subject", "")), labels.get("instance", "")
        self.scope, self.hosts = scope_of(labels), host_names(labels, joined)
        self.labels, self.verdict = intern_labels(labels), ""
        self.info: dict[str, str] = {}
        self.findings: dict[str, float] = {}
        self.costs: dict[str, float] = {}
        self.expected: dict[str, float] = {}
        self.numbers: dict[str, float] = {}


class Surroundings(NamedTuple):
    """What was found for one engine, and why nothing was."""

    engine: Engine
    gpus: list[Gpu]
    host: Host | None
    pod: Pod | None
    names: list[str]  # Of its host, the most telling first
    missing: dict[str, str]


def read_surroundings(asking: Asking, options: Options, engines: list[Engine]) -> list[Surroundings]:
    """Everything around the engines."""
    labels, pods = options.labels(), read_pods(asking, options)
    hosts, gpus = read_hosts(asking, options), read_gpus(asking, options)
    by_name, by_pod, by_host = NameIndex[Host](), NameIndex[Gpu](), NameIndex[Gpu]()
    for host in hosts:
        by_name.add_all(host.names, host)
    for gpu in gpus:
        by_pod.add(gpu.pod if gpu.pod[1] else None, gpu)
        by_host.add_all(gpu.hosts, gpu)
    found = [_locate_engine(engine, labels, pods, by_name) for engine in engines]
    here = [find_by_names(one.names, by_host, scope_of(one.engine.labels)) for one in found]
    sharing = Counter(id(gpus[0]) for gpus in here if gpus)
    # Where nobody answered where pods are and one of them is nowhere, it may be on any host
    nowhere = any(not near and first_of(one.engine.labels, labels.pod) for one, near in zip(found, here, strict=True))
    lost = f"{NOT_ANSWERED}: pods" if nowhere and "pods" in asking.failures.get("pods", ()) else ""
    exported = {exporters()[name].of for name in asking.counts}
    # Why something may be missing of an engine, of GPUs or of hosts
    kinds = {"engine": "engine", "gpu": "gpus", "host": "host"}
    failed = {kinds[of]: f"{NOT_ANSWERED}: {', '.join(names)}" for of, names in asking.failures.items() if of in kinds}
    for one, near in zip(found, here, strict=True):
        gpus_or_why = _own_gpus(one, near, labels, by_pod, sharing[id(near[0])] if near else 0, lost)
        if not isinstance(gpus_or_why, str):
            one.gpus.extend(gpus_or_why)
        else:
            one.missing["gpus"] = gpus_or_why if "gpu" in exported else NO_EXPORTER["gpus"]
        if not one.host and "host" not in exported:
            one.missing["host"] = NO_EXPORTER["host"]
        elif not one.host and lost and first_of(one.engine.labels, labels.pod):
            one.missing["host"] = lost
        one.missing.update(failed)
    return found


def _locate_engine(engine: Engine, labels: Labels, pods: NameIndex[Pod], by_name: NameIndex[Host]) -> Surroundings:
    scope, missing = scope_of(engine.labels), {}
    found = pods.all((first_of(engine.labels, labels.namespace), first_of(engine.labels, labels.pod)), scope)
    pod, names = found[0] if len(found) == 1 else None, host_names(engine.labels, labels)
    if pod:
        names = [name for name in dict.fromkeys((pod.node, pod.host_ip, *names)) if name]
    hosts = find_by_names(names, by_name, scope)
    host = hosts[0] if len(hosts) == 1 else None
    if hosts and not host:
        missing["host"] = (
            f"ambiguous host name: {len(hosts)} hosts are called {names[0]}; a label such as cluster must"
            " distinguish them"
        )
    elif not host:
        missing["host"] = _NOT_FOUND.format(what="node", names=" or ".join(names[:3]) or "its host")
    else:
        certain = bool(pod or first_of(engine.labels, labels.host))
        names = list(dict.fromkeys((*names[:certain], *host.names, *names)))
    return Surroundings(engine, [], host, pod, names, missing)


def _own_gpus(
    one: Surroundings, near: list[Gpu], labels: Labels, by_pod: NameIndex[Gpu], sharing: int, lost: str
) -> list[Gpu] | str:
    """The GPUs of an engine, or why it gets none; `sharing` engines are where these GPUs are.

    Where pods are `lost`, one of them may be where an engine seems to be alone.
    """
    told_of, pod = one.engine.labels, first_of(one.engine.labels, labels.pod)
    if pod and (mine := by_pod.all((first_of(told_of, labels.namespace), pod), scope_of(told_of))):
        return mine
    if not near:
        return _NOT_FOUND.format(what="GPU", names=" or ".join(one.names[:3]) or "its host")
    numbers = first_of(told_of, labels.gpus).replace(" ", "").split(",")
    if chosen := [gpu for gpu in near if str(gpu.index) in numbers]:
        return chosen
    if pod and any(gpu.pod[1] for gpu in near):
        return f"the GPU exporter assigns no GPU to its pod: none of {one.names[0]} to the pod {pod}"
    if sharing > 1:
        return _SEVERAL.format(count=sharing, host=one.names[0])
    return lost or near


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
            host.names.insert(0, plain_label(nodename))
    for answered in asking.answers("host"):
        fold(answered, told, known, find)
    return list(hosts.values())


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
        gpu = gpus.setdefault(_gpu_key(labels, name, joined), Gpu(labels, exporters()[name], joined))
        if quantity := exporters()[name].info_is:
            told_before = gpu.raw[quantity][1] if quantity in gpu.raw else value
            gpu.raw[quantity] = (0, max(told_before, value), source_of(exporters()[name].info, options.window_s))
    told = parts("gpu", options.window_s)
    for answered in asking.answers("gpu"):
        fold(answered, told, known, find)
    return list(gpus.values())


def _gpu_key(labels: Mapping[str, str], exporter: str, joined: Labels) -> tuple[str, ...]:
    """Which GPU it is, and whose at that time; the same in every answer."""
    told = exporters()[exporter].labels
    which = first_of(labels, told["identity"]) or first_of(labels, told["index"])
    part, pod = first_of(labels, told.get("part", ())), first_of(labels, joined.gpu)
    scope = "/".join(labels.get(name, "") for name in SCOPE)
    return exporter, which, part, labels.get("instance", ""), first_of(labels, joined.namespace), pod, scope


def read_subjects(asking: Asking, options: Options) -> list[Subject]:
    """Every engine that an exporter looked at, with what it says of it."""
    joined, found = options.labels(), dict[SubjectKey, Subject]()
    for labels, _ in asking.answer("own_info").series:
        labels.pop(MARK, None)
        info = {name: labels.pop(f"exported_{name}", "") or labels.pop(name, "") for name in _INFO}
        labels.pop("__name__", None)
        subject = found.setdefault(subject_key(labels), Subject(labels, joined))
        subject.info = {name: plain_label(value) for name, value in info.items() if value}
    told, of_exporter = parts("own", options.window_s), defaultdict[SubjectKey, list[Subject]](list)
    for (instance, scope, _), subject in found.items():
        of_exporter[instance, scope, ""].append(subject)
    for answered in asking.answers("own"):
        for labels, value in answered.series:
            part = told.get(labels.pop(MARK, ""))
            if part and "subject" in labels:
                _take_own_value(found.get(subject_key(labels)), labels, part.quantity, value)
            elif part:  # of the exporter, and so of all its subjects
                for subject in of_exporter.get(subject_key(labels), ()):
                    subject.numbers[part.quantity] = value
    return list(found.values())


def _take_own_value(subject: Subject | None, labels: Mapping[str, str], quantity: str, value: float) -> None:
    if subject is None or not 0.0 <= value <= MOST:
        return
    if quantity == "verdict":
        subject.verdict = plain_label(labels.get("verdict", "cannot_tell"))
    elif quantity == "findings":
        cause = plain_label(labels.get("cause", ""))
        subject.findings[cause] = max(value, subject.findings.get(cause, 0.0))
    elif quantity == "finding_costs":
        subject.costs[plain_label(labels.get("cause", ""))] = value
    elif quantity == "expected":
        subject.expected[labels.get("bound", "")] = value
    else:
        subject.numbers[quantity] = value


class Subjects:
    """Subjects to be found by the engine that they mean."""

    def __init__(self, subjects: list[Subject], joined: Labels) -> None:
        self._joined = joined
        self.left = {id(subject): subject for subject in subjects}  # Those that no scraped engine is
        self._by_pod, self._by_host = NameIndex[Subject](), NameIndex[Subject]()
        for subject in subjects:
            pod, space = first_of(subject.labels, joined.pod), first_of(subject.labels, joined.namespace)
            self._by_pod.add((space, pod) if pod else None, subject)
            self._by_host.add_all(subject.hosts, subject)

    def of(self, engine: Engine, names: list[str]) -> Subject | None:
        """The one that means this engine: in its pod, or with its port on its host."""
        labels, scope = engine.labels, scope_of(engine.labels)
        pod, space = first_of(labels, self._joined.pod), first_of(labels, self._joined.namespace)
        near = self._by_pod.all((space, pod), scope) if pod else []
        here = near or [one for name in names for one in self._by_host.all(name, scope)]
        mine = [one for one in dict.fromkeys(here) if one.info.get("runtime") == engine.runtime]
        _, port = host_and_port(labels.get("instance", ""))
        exact = [one for one in mine if port and one.info.get("port") == port] or (mine if near else [])
        if len(exact) != 1:
            return None
        self.left.pop(id(exact[0]), None)
        return exact[0]


def diagnosis(subject: Subject, now_s: float) -> OwnDiagnosis:
    """What it says, as a member carries it."""
    bounds = [subject.expected.get(bound) for bound in ("low", "mid", "high")]
    known = [bound for bound in bounds if bound is not None]
    looked = subject.numbers.get("looked_at_s")
    return OwnDiagnosis(
        verdict=subject.verdict or "cannot_tell",
        findings={cause: share for cause, share in subject.findings.items() if share > 0},
        costs_s=subject.costs,
        speed_tokens_per_s=subject.numbers.get("speed_tokens_per_s"),
        expected_tokens_per_s=(known[0], known[1], known[2]) if len(known) == 3 else None,  # noqa: PLR2004
        achievable_tokens_per_s=subject.numbers.get("achievable_tokens_per_s"),
        age_s=max(0.0, now_s - looked) if looked is not None and looked <= now_s + _AHEAD_S else None,
    )
