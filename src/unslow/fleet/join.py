"""What belongs together: the GPUs, the host, the pod and the exporter's own words of every engine.

A GPU goes to the pod that it was given to; else to the one engine that has its host alone. Where several engines share
a host and nothing says whose a GPU is, nobody gets it: a reason is told in its place.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

from unslow.fleet.asking_all import Asking, there_are
from unslow.fleet.discover import Engine, first_of
from unslow.fleet.options import Labels, Options
from unslow.fleet.places import Gpu, Host, Named, found_by, host_names, scope_of
from unslow.fleet.pods import Pod, read_pods
from unslow.fleet.reading import read_gpus, read_hosts

T = TypeVar("T")
NO_EXPORTER = {
    "gpus": "no GPU exporter is scraped: add NVIDIA's dcgm-exporter or AMD's device metrics exporter",
    "host": "no node exporter is scraped",
}
_NOT_FOUND = "no {what} exporter is found for its host: no labels say {names}, see --join host=LABEL"
_SEVERAL = (
    "several engines share its host and nothing says whose the GPUs are: {count} engines share {host}, so let the"
    " exporter tell the pod, or give each engine a label gpu_ids in the scrape configuration"
)


class Joined(NamedTuple):
    """What was found for one engine, and why nothing was."""

    engine: Engine
    gpus: list[Gpu]
    host: Host | None
    pod: Pod | None
    names: list[str]
    """Of its host, the most telling first."""
    missing: dict[str, str]


def read_joined(asking: Asking, options: Options, engines: list[Engine]) -> list[Joined]:
    """Everything around the engines."""
    labels, pods = options.labels(), read_pods(asking, options)
    hosts, gpus = read_hosts(asking, options), read_gpus(asking, options)
    by_name, by_pod, by_host = _indexed(hosts, gpus)
    found = [_placed(engine, labels, pods, by_name) for engine in engines]
    here = [found_by(one.names, by_host, scope_of(one.engine.labels)) for one in found]
    sharing = Counter(id(gpus[0]) for gpus in here if gpus)
    lost = _lost(asking, zip(found, here, strict=True), labels)
    for one, near in zip(found, here, strict=True):
        why = _give(one, near, labels, by_pod, sharing[id(near[0])] if near else 0, lost)
        if not one.gpus:
            one.missing["gpus"] = why if there_are(asking.counts, "gpu") else NO_EXPORTER["gpus"]
        if not one.host:
            told = lost if first_of(one.engine.labels, labels.pod) else ""
            one.missing["host"] = (
                (told or one.missing["host"]) if there_are(asking.counts, "host") else NO_EXPORTER["host"]
            )
        one.missing.update(asking.unanswered())
    return found


def _lost(asking: Asking, placed: Iterable[tuple[Joined, list[Gpu]]], labels: Labels) -> str:
    """Why a pod may be on any host: nobody answered where pods are, and one of them is nowhere; else empty."""
    why = asking.unplaced()
    return why if why and any(not near and first_of(one.engine.labels, labels.pod) for one, near in placed) else ""


def _indexed(hosts: Iterable[Host], gpus: Iterable[Gpu]) -> tuple[Named[Host], Named[Gpu], Named[Gpu]]:
    by_name, by_pod, by_host = Named[Host](), Named[Gpu](), Named[Gpu]()
    for host in hosts:
        by_name.add_all(host.names, host)
    for gpu in gpus:
        by_pod.add(gpu.pod if gpu.pod[1] else None, gpu)
        by_host.add_all(gpu.hosts, gpu)
    return by_name, by_pod, by_host


def _placed(engine: Engine, labels: Labels, pods: Named[Pod], by_name: Named[Host]) -> Joined:
    scope, missing = scope_of(engine.labels), {}
    pod = _only(pods.all((first_of(engine.labels, labels.namespace), first_of(engine.labels, labels.pod)), scope))
    names = host_names(engine.labels, labels)
    if pod:
        names = [name for name in dict.fromkeys((pod.node, pod.host_ip, *names)) if name]
    hosts = found_by(names, by_name, scope)
    host = _only(hosts)
    if hosts and not host:
        missing["host"] = (
            f"other hosts have the same name: {len(hosts)} hosts are called {names[0]}, and a label such as cluster"
            " must tell them apart"
        )
    elif not host:
        missing["host"] = _NOT_FOUND.format(what="node", names=_words(names))
    else:
        certain = bool(pod or first_of(engine.labels, labels.host))
        names = list(dict.fromkeys((*names[:certain], *host.names, *names)))
    return Joined(engine, [], host, pod, names, missing)


def _words(names: list[str]) -> str:
    return " or ".join(names[:3]) or "where the engine is"


def _only(things: Sequence[T]) -> T | None:
    return things[0] if len(things) == 1 else None


def _give(one: Joined, near: list[Gpu], labels: Labels, by_pod: Named[Gpu], sharing: int, lost: str) -> str:
    """Give an engine its GPUs, or say why it gets none; `sharing` engines are where these GPUs are.

    Where pods are `lost`, one of them may be where an engine seems to be alone.
    """
    engine, pod = one.engine, first_of(one.engine.labels, labels.pod)
    space = first_of(engine.labels, labels.namespace)
    if pod and (mine := by_pod.all((space, pod), scope_of(engine.labels))):
        one.gpus.extend(mine)
        return ""
    if not near:
        return _NOT_FOUND.format(what="GPU", names=_words(one.names))
    told = first_of(engine.labels, labels.gpus).replace(" ", "").split(",")
    if chosen := [gpu for gpu in near if str(gpu.index) in told]:
        one.gpus.extend(chosen)
        return ""
    if pod and any(gpu.pod[1] for gpu in near):
        return f"no GPU is given to its pod by the exporter: it gives none of {one.names[0]} to the pod {pod}"
    if sharing > 1:
        return _SEVERAL.format(count=sharing, host=one.names[0])
    if not lost:
        one.gpus.extend(near)
    return lost
