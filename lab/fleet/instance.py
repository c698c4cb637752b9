"""One engine of a fleet with its GPUs and its host, and the targets that a Prometheus would scrape for it."""

from collections.abc import Iterator
from typing import NamedTuple

from lab.fleet.engine import Engine
from lab.fleet.lines import Line
from lab.fleet.machines import Gpu, Host
from lab.fleet.series_engines import engine_lines
from lab.fleet.series_gpu import gpu_lines
from lab.fleet.series_host import host_lines

ENGINE_JOBS = {"vLLM": "vllm", "llama.cpp": "llama-server", "SGLang": "sglang"}
ENGINE_PORTS = {"vLLM": 8000, "llama.cpp": 8080, "SGLang": 30000}


class Pod(NamedTuple):
    """Where Kubernetes put it."""

    namespace: str
    name: str
    container: str = "vllm"

    @property
    def labels(self) -> dict[str, str]:
        """As a service monitor adds them."""
        return {"namespace": self.namespace, "pod": self.name, "container": self.container}


class Instance(NamedTuple):
    """What is truly there."""

    name: str
    engine: Engine
    gpus: tuple[Gpu, ...]
    host: Host
    pod: Pod | None = None
    port: int = 0
    """Of the engine; the usual one of its runtime without it."""
    more: bool = True
    """Whether the GPU exporter tells more than the default."""
    missing: frozenset[str] = frozenset()
    """Jobs that nobody scrapes: gpu, node."""
    down: bool = False
    labels: tuple[tuple[str, str], ...] = ()
    """Of the engine's target, besides."""
    fault: str = ""
    """By its name in `faults`."""

    @property
    def address(self) -> str:
        """The label `instance` of the engine's series."""
        return f"{self.host.name}:{self.port or ENGINE_PORTS[self.engine.runtime]}"


class Target(NamedTuple):
    """What is scraped at one address."""

    labels: dict[str, str]
    """Those that the scrape adds, `job` and `instance` among them."""
    lines: list[Line]
    down: bool = False
    honor_labels: bool = False
    """Whether labels of the series win over those of the target, as for a GPU exporter that names pods."""


def engine_target(instance: Instance) -> Target:
    """The engine itself."""
    labels = {"job": ENGINE_JOBS[instance.engine.runtime], "instance": instance.address, **dict(instance.labels)}
    if instance.pod:
        labels |= {**instance.pod.labels, "node": instance.host.name}
    return Target(labels, engine_lines(instance.engine), instance.down)


def gpu_target(host: str, instances: list[Instance]) -> Target:
    """One exporter for all GPUs of a host, which names the pod that each belongs to where there are pods."""
    lines: list[Line] = []
    for one in instances:
        pod = one.pod.labels if one.pod else None
        lines += [line for gpu in one.gpus for line in gpu_lines(gpu, host, pod, more=one.more)]
    amd = any(gpu.card.driver_name.startswith("AMD") for one in instances for gpu in one.gpus)
    job, port = ("amd-gpu", 5000) if amd else ("dcgm", 9400)
    labels = {"job": job, "instance": f"{host}:{port}"}
    return Target(labels, lines, honor_labels=any(one.pod for one in instances))


def node_target(host: Host, *, with_node: bool) -> Target:
    """The node exporter of a host; a cluster also says which node it is."""
    labels = {"job": "node", "instance": f"{host.name}:9100"}
    return Target({**labels, "node": host.name} if with_node else labels, host_lines(host))


def targets(instances: list[Instance]) -> Iterator[Target]:
    """Everything that is scraped for these."""
    by_host: dict[str, list[Instance]] = {}
    for one in instances:
        yield engine_target(one)
        by_host.setdefault(one.host.name, []).append(one)
    for host, those in by_host.items():
        seen = [one for one in those if "gpu" not in one.missing]
        if any(one.gpus for one in seen):
            yield gpu_target(host, seen)
        if not any("node" in one.missing for one in those):
            yield node_target(those[0].host, with_node=those[0].pod is not None)
