"""Reads engines, GPUs, hosts, pods and the exporter's own words, each into things of its own."""

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, MutableMapping
from sys import intern
from typing import Protocol, TypeVar

from unslow.catalog.prometheus import exporters, exporters_of
from unslow.facts.errors import UserError
from unslow.fleet.discovery import (
    Asking,
    Engine,
    Gpu,
    Host,
    Named,
    Target,
    engines_of,
    first_of,
    host_names,
    interned,
    plain,
    port_of,
    quick_key,
    scope_of,
)
from unslow.fleet.member import OwnDiagnosis
from unslow.fleet.prometheus.answers import Answered
from unslow.fleet.queries import MARK, SCOPE, Labels, Options, Part, parts, source_of

_RANKS = 16
"""More expressions for the same than any reading has; an order is the place of the voice times this, and the rank."""
LEAST, MOST = 1e-12, 1e15
"""Of a reading, in SI units: less is the rest of a sum, and a petabyte, a petahertz or less than nothing is what an
exporter writes that could not read (2^31 and 2^63 less a few are the blanks of DCGM)."""


class Told(Protocol):
    """Something that readings are kept of."""

    raw: dict[str, tuple[int, float, str]]


ToldT = TypeVar("ToldT", bound=Told)
Find = Callable[[dict[str, str], Part], tuple[ToldT, int] | None]


def fold(
    answered: Answered,
    parts: Mapping[str, Part],
    known: MutableMapping[str, tuple[ToldT, int] | None],
    find: Find[ToldT] | None = None,
    before: str = "",
) -> None:
    """Put every value where it belongs; `known` remembers where, as the same labels come in every answer."""
    for labels, value in answered.series:
        part = parts.get(labels.pop(MARK, ""))
        if part is None or not 0.0 <= value <= MOST:
            continue
        key = "\0".join([*labels, *labels.values()])  # `quick_key`, without the call
        if key not in known:
            known[key] = find(labels, part) if find else None
        place = known[key]
        if place is None:
            continue
        raw, order = place[0].raw, place[1] * _RANKS + part.rank
        quantity = before + part.quantity if before else part.quantity
        held = raw.get(quantity)
        if held is None or order < held[0]:
            raw[quantity] = (order, value if value >= LEAST else 0.0, part.source)


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
    """Every label set of a target that serves a runtime's series; UserError where there is no answer."""
    targets: dict[str, Target] = {}
    answered = asking.answer("targets")
    if answered.failure:
        hint = answered.hint or "narrow it: --match"
        raise UserError(f"Prometheus does not say which engines it has: {answered.failure}", hint)
    for labels, value in answered.series:
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
    for answered in asking.answers("engine"):
        fold(answered, told, known)
    fold(asking.answer("up"), {"": Part("up", "", 0, "up, mean of the window")}, known)
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
        pasts.append(Past(interned(labels)))
        return pasts[-1], 0

    then: dict[str, tuple[Engine | Past, int] | None] = {**known}
    ago = f", {options.compare_s / 3600:g} h before"
    was = {mark: part._replace(source=part.source + ago) for mark, part in told.items()}
    fold(asking.answer("before"), was, then, past, BEFORE)
    return engines, pasts


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
        gpu = gpus.setdefault(_gpu_key(labels, name, joined), Gpu(labels, exporters()[name], joined))
        if quantity := exporters()[name].info_is:
            told_before = gpu.raw[quantity][1] if quantity in gpu.raw else value
            source = source_of(exporters()[name].info, options.window_s)
            gpu.raw[quantity] = (0, max(told_before, value), source)
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
    for answered in asking.answers("host"):
        fold(answered, told, known, find)
    return list(hosts.values())


SubjectKey = tuple[str, tuple[tuple[str, str], ...], str]
_INFO = ("runtime", "version", "model", "quant", "device", "port")
_AHEAD_S = 300.0  # A look that lies farther in the future was taken by a clock that tells nothing of its age


class Subject:
    """One engine that an exporter looked at."""

    __slots__ = (
        "costs", "expected", "findings", "hosts", "info", "instance", "labels", "name", "numbers", "scope", "verdict",
    )  # fmt: skip

    def __init__(self, labels: Mapping[str, str], joined: Labels) -> None:
        self.name, self.instance = plain(labels.get("subject", "")), labels.get("instance", "")
        self.scope, self.hosts = scope_of(labels), host_names(labels, joined)
        self.labels, self.verdict = interned(labels), ""
        self.info: dict[str, str] = {}
        self.findings: dict[str, float] = {}
        self.costs: dict[str, float] = {}
        self.expected: dict[str, float] = {}
        self.numbers: dict[str, float] = {}


def read_subjects(asking: Asking, options: Options) -> list[Subject]:
    """Every engine that an exporter looked at, with what it says of it."""
    joined, found = options.labels(), dict[SubjectKey, Subject]()
    for labels, _ in asking.answer("own_info").series:
        labels.pop(MARK, None)
        info = {name: labels.pop(f"exported_{name}", "") or labels.pop(name, "") for name in _INFO}
        labels.pop("__name__", None)
        subject = found.setdefault(subject_key(labels), Subject(labels, joined))
        subject.info = {name: plain(value) for name, value in info.items() if value}
    told, of_exporter = parts("own", options.window_s), defaultdict[SubjectKey, list[Subject]](list)
    for (instance, scope, _), subject in found.items():
        of_exporter[instance, scope, ""].append(subject)
    for answered in asking.answers("own"):
        for labels, value in answered.series:
            part = told.get(labels.pop(MARK, ""))
            if part and "subject" in labels:
                _take(found.get(subject_key(labels)), labels, part.quantity, value)
            elif part:  # of the exporter, and so of all its subjects
                for subject in of_exporter.get(subject_key(labels), ()):
                    subject.numbers[part.quantity] = value
    return list(found.values())


def subject_key(labels: Mapping[str, str]) -> SubjectKey:
    """Which engine of which exporter it is: two clusters can have the same addresses."""
    return labels.get("instance", ""), tuple(scope_of(labels).items()), labels.get("subject", "")


def _take(subject: Subject | None, labels: Mapping[str, str], quantity: str, value: float) -> None:
    if subject is None or not 0.0 <= value <= MOST:
        return
    if quantity == "verdict":
        subject.verdict = plain(labels.get("verdict", "cannot_tell"))
    elif quantity == "findings":
        cause = plain(labels.get("cause", ""))
        subject.findings[cause] = max(value, subject.findings.get(cause, 0.0))
    elif quantity == "finding_costs":
        subject.costs[plain(labels.get("cause", ""))] = value
    elif quantity == "expected":
        subject.expected[labels.get("bound", "")] = value
    else:
        subject.numbers[quantity] = value


class Subjects:
    """Subjects to be found by the engine that they mean."""

    def __init__(self, subjects: list[Subject], joined: Labels) -> None:
        self._joined, self._left = joined, {id(subject): subject for subject in subjects}
        self._by_pod, self._by_host = Named[Subject](), Named[Subject]()
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
        port = port_of(labels.get("instance", ""))
        exact = [one for one in mine if port and one.info.get("port") == port] or (mine if near else [])
        if len(exact) != 1:
            return None
        self._left.pop(id(exact[0]), None)
        return exact[0]

    def left(self) -> list[Subject]:
        """Those that no scraped engine is."""
        return list(self._left.values())


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


IMAGES = {
    "vLLM": ("vllm",), "SGLang": ("sglang",), "TGI": ("text-generation-inference", "tgi"), "Ollama": ("ollama",),
    "llama.cpp": ("llama.cpp", "llama-cpp", "llama-server", "llamacpp"),
}  # fmt: skip
"""How the images of runtimes are called, by whoever builds them."""
_VERSION = re.compile(r"v?(\d{1,9}\.\d{1,9}[\w.+-]{0,100}|b\d{3,12}|\d{4,18})")
_GENERATED = re.compile(r"-[a-f0-9]{6,10}-[a-z0-9]{5}$|-[a-z0-9]{5}$|-\d+$")


class Pod:
    """One pod of an engine."""

    __slots__ = ("host_ip", "images", "limits", "node", "scope")

    def __init__(self, scope: dict[str, str]) -> None:
        self.scope, self.node, self.host_ip = scope, "", ""
        self.images: dict[str, str] = {}
        """By the name of the container."""
        self.limits: dict[str, tuple[int, float, str]] = {}


def read_pods(asking: Asking, options: Options) -> Named[Pod]:
    """Every pod that was told of, by namespace and name."""
    pods = Named[Pod]()
    for labels, _ in asking.answer("pods").series:
        pod = _pod(pods, labels)
        pod.node, pod.host_ip = plain(labels.get("node", "")), plain(labels.get("host_ip", ""))
    for labels, _ in asking.answer("images").series:
        _pod(pods, labels).images.update(_image(labels))
    told = parts("pods", options.window_s)
    for labels, value in asking.answer("containers").series:
        if part := told.get(labels.pop(MARK, "")):
            _pod(pods, labels).limits[part.quantity] = (part.rank, value, part.source)
    return pods


def _pod(pods: Named[Pod], labels: Mapping[str, str]) -> Pod:
    scope, name = scope_of(labels), (labels.get("namespace", ""), labels.get("pod", ""))
    found = next((pod for pod in pods.all(name, scope) if pod.scope == scope), None)
    if found is None:
        found = Pod(scope)
        pods.add(name, found)
    return found


def _image(labels: Mapping[str, str]) -> dict[str, str]:
    container = labels.get("exported_container") or labels.get("container", "")
    return {plain(container): plain(labels.get("image_spec") or labels.get("image", ""))}


def read_images_before(asking: Asking) -> tuple[Named[Pod], dict[SubjectKey, str]]:
    """What ran at the time to compare with.

    By namespace and the name that the pods of a workload begin with, the images by their own text; by engine, the
    version that `unslow exporter` told.
    """
    workloads, versions = Named[Pod](), dict[SubjectKey, str]()
    for labels, _ in asking.answer("images_before").series:
        if labels.pop(MARK, "") == "image":
            made_by = _pod(workloads, {**labels, "pod": workload(labels.get("pod", ""))})
            made_by.images.update({text: text for text in _image(labels).values()})
        else:
            versions[subject_key(labels)] = labels.get("exported_version") or labels.get("version", "")
    return workloads, versions


def workload(pod: str) -> str:
    """What makes the pods: the name without what is generated for each."""
    return _GENERATED.sub("", pod)


def version_of(images: Mapping[str, str], runtime: str, container: str = "") -> str:
    """The version that the tag of the runtime's image says, where it says one and all say the same."""
    own = [text for name, text in images.items() if name == container]
    known = [text for text in images.values() if any(word in text.lower() for word in IMAGES.get(runtime, ()))]
    # `0.10.1` of `vllm/vllm-openai:v0.10.1`; nothing of `latest` or of a digest
    tags = [text.partition("@")[0].rpartition("/")[2].partition(":")[2] for text in known or own]
    versions = {found[1] if (found := _VERSION.fullmatch(tag)) else "" for tag in tags}
    return versions.pop() if len(versions) == 1 else ""
