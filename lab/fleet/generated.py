"""A fleet of any size with known faults, whose series of the last minutes are sent to a real Prometheus.

python -m lab.fleet.generated 1000 FOLDER    keeps one running; FOLDER/truth.json says what is wrong where
"""

import argparse
import json
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from lab.fleet.blocks import Span
from lab.fleet.faults import FAULTS, with_fault
from lab.fleet.instance import ENGINE_PORTS, Instance, Pod, Target, targets
from lab.fleet.lines import gauge
from lab.fleet.machines import Gpu, Host
from lab.fleet.mix import DEFAULT_EXPORTER, FAULT_SHARES, IDLE, IN_PODS, KINDS, NAMELESS, REPLICAS, Kind
from lab.fleet.processes import end_well_when_told, wait_until_interrupted
from lab.fleet.prometheus import RECEIVES, program, started
from lab.fleet.remote_write import send
from lab.fleet.series_vllm import telling
from lab.fleet.speeds import healthy_engine

SEED = 20_261_116
MINUTES = 16.0
"""A window of a quarter of an hour, and a little."""
AHEAD = 5.0
"""Minutes of samples with times that are still to come, so that the last ones are fresh when they are asked for."""
STEP_S = 30.0
_NOISE = 0.04
"""Standard deviation of the speed of healthy ones around the middle of the prediction."""
_HOST_GPUS = 8
_CPUS = 4
"""Of a host: few, as their series would be most of the fleet's."""
_ON_GPU_EXPORTER = {"thermal", "power", "low_clocks"}
"""Faults that only an exporter with more than the default can show."""
_OWN_HOST = {"swapping", "no_exporter"}
"""Faults of a whole host."""


class Truth(NamedTuple):
    """What is known of one instance: which names it goes by, what is wrong, which causes say so."""

    names: tuple[str, ...]
    fault: str
    causes: tuple[str, ...]
    odd: str = ""
    """What is unusual and no fault: idle, replicas, nameless."""


def fleet(number: int, seed: int = SEED) -> list[Instance]:
    """So many instances, always the same ones for a seed."""
    dice = random.Random(seed)
    faults = _faults(number, dice)
    kinds = dice.choices(KINDS, [kind.weight for kind in KINDS], k=number)
    hosts = _Hosts()
    return [_instance(place, kind, faults[place], hosts, dice) for place, kind in enumerate(kinds)]


def _faults(number: int, dice: random.Random) -> list[str]:
    """A fault or none for each: a known number of every fault, at least one in a fleet of some size."""
    wanted = [name for name, share in FAULT_SHARES.items() for _ in range(max(1, round(share * number)))]
    listed = [*wanted[: max(1, number // 4)], *[""] * number][:number]
    dice.shuffle(listed)
    return listed


class _Hosts:
    """Hosts that are filled with instances on cards of one kind; one without pods has a single engine."""

    def __init__(self) -> None:
        self.open: dict[str, tuple[str, int]] = {}
        self.number = 0

    def place(self, kind: Kind, *, alone: bool) -> tuple[str, int]:
        """The name of the host and its first free GPU."""
        name, used = self.open.get(kind.card.name, ("", _HOST_GPUS))
        if alone or used + kind.gpus > _HOST_GPUS:
            self.number += 1
            name, used = f"node-{self.number:05d}", 0
        if not alone:
            self.open[kind.card.name] = (name, used + kind.gpus)
        return name, used


def _instance(place: int, kind: Kind, fault: str, hosts: _Hosts, dice: random.Random) -> Instance:
    fault = _possible(fault, kind)
    in_pod = dice.random() < IN_PODS
    host, first = hosts.place(kind, alone=not in_pod or fault in _OWN_HOST)
    gpus = tuple(Gpu(kind.card, first + n, temperature_c=dice.uniform(48, 66)) for n in range(kind.gpus))
    users = dice.choice(kind.users)
    engine = healthy_engine(kind.model, gpus, users, kind.runtime, noise=max(0.85, dice.gauss(1.0, _NOISE)))
    engine = engine._replace(age_s=dice.uniform(7200, 2e6))
    own = in_pod or fault in _OWN_HOST
    pod = Pod(f"team-{place % 23}", f"{kind.model.catalogue}-{place:05d}", "engine") if in_pod else None
    one = Instance(
        name=f"{place:05d}",
        engine=engine,
        gpus=gpus,
        host=Host(host, cpus=_CPUS, busy_cpus=dice.uniform(0.4, 1.2)),
        pod=pod,
        port=ENGINE_PORTS[kind.runtime] + (first if own else 0),
        labels=(("model", engine.model),) if kind.runtime == "llama.cpp" else (),  # its series name none
        more=fault in _ON_GPU_EXPORTER or dice.random() > DEFAULT_EXPORTER,
    )
    return with_fault(one, fault) if fault else _odd(one, dice.random())


def _possible(fault: str, kind: Kind) -> str:
    """The fault, or another one where nothing could show it: AMD's exporter no limits, llama.cpp no full cache."""
    unseen = fault in _ON_GPU_EXPORTER and kind.card.driver_name.startswith("AMD")
    unheard = fault in ("preemption", "held") and kind.runtime == "llama.cpp"
    return "queueing" if unseen or unheard else fault


def _odd(one: Instance, chance: float) -> Instance:
    """Some that are unusual without being ill."""
    if chance < IDLE:
        gpus = tuple(gpu._replace(busy=0.0, memory_busy=0.0, power_share=0.12, clock_share=0.2) for gpu in one.gpus)
        return one._replace(engine=one.engine._replace(running=0.0), gpus=gpus)
    if chance < IDLE + REPLICAS:
        return one._replace(labels=(*one.labels, ("prometheus_replica", "a")))
    if chance < IDLE + REPLICAS + NAMELESS:
        return one._replace(engine=one.engine._replace(model=""), labels=())
    return one


def all_targets(instances: list[Instance]) -> Iterator[Target]:
    """What is scraped, replicas twice, and what a cluster says of its pods."""
    for plain in targets(instances):
        told = plain._replace(lines=telling(plain.lines)) if plain.labels["job"] == "vllm" else plain
        target = _by_operator(told)
        yield target
        if target.labels.get("prometheus_replica") == "a":
            yield target._replace(labels={**target.labels, "prometheus_replica": "b"})
    pods = [
        gauge(
            "kube_pod_info",
            {"namespace": one.pod.namespace, "pod": one.pod.name, "node": one.host.name, "host_ip": one.host.name},
            1.0,
        )
        for one in instances
        if one.pod
    ]
    yield Target({"job": "kube-state-metrics", "instance": "kube-state-metrics:8080"}, pods, honor_labels=True)


def _by_operator(target: Target) -> Target:
    """As an operator of Prometheus has it on every second host: addresses for names, labels of exporters' own pods."""
    labels = target.labels
    number = int(labels["instance"].partition(":")[0].rpartition("-")[2])
    if number % 2:
        return target
    if "pod" in labels:
        address = (
            f"10.{64 + number // 65536}.{number // 256 % 256}.{number % 256}:{labels['instance'].rpartition(':')[2]}"
        )
        kept = {name: value for name, value in labels.items() if name != "node"}
        return target._replace(labels={**kept, "instance": address})
    if labels["job"] != "dcgm" or not target.honor_labels:
        return target
    own = {"namespace": "gpu-operator", "pod": f"dcgm-exporter-{number}", "container": "exporter"}
    return target._replace(labels={**labels, **own}, honor_labels=False)


def truth(instances: list[Instance]) -> list[Truth]:
    """What a judge should find."""
    return [
        Truth(_names(one), one.fault, tuple(sorted(FAULTS[one.fault].causes)) if one.fault else (), _oddity(one))
        for one in instances
    ]


def _names(one: Instance) -> tuple[str, ...]:
    return (one.address, *((f"{one.pod.namespace}/{one.pod.name}", one.pod.name) if one.pod else ()))


def _oddity(one: Instance) -> str:
    if not one.engine.running:
        return "idle"
    if not one.engine.model:
        return "nameless"
    return "replicas" if "prometheus_replica" in dict(one.labels) else ""


def send_fleet(number: int, url: str, folder: Path, now_s: float, seed: int = SEED) -> int:
    """The series of a fleet to a Prometheus that takes them, and the truth into a file; how many series."""
    instances = fleet(number, seed)
    sent = send(url, all_targets(instances), Span(now_s - 60 * MINUTES, now_s + 60 * AHEAD, STEP_S))
    known = [one._asdict() for one in truth(instances)]
    (folder / "truth.json").write_text(json.dumps(known), encoding="utf-8")
    return sent


def main() -> int:
    """Keep a Prometheus with such a fleet until it is interrupted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("number", type=int)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=SEED)
    given = parser.parse_args()
    end_well_when_told()
    with started(program(), given.folder, flags=RECEIVES) as prometheus:
        began = time.monotonic()
        sent = send_fleet(given.number, prometheus.url, given.folder, time.time(), given.seed)
        print(f"{sent} series of {given.number} instances in {time.monotonic() - began:.0f} s")
        print(f"unslow fleet --prometheus {prometheus.url} --compare none", flush=True)
        wait_until_interrupted()
    return 0


if __name__ == "__main__":
    sys.exit(main())
