"""The rules in a real Prometheus over a fleet with every fault: an alert for that instance, and for no other."""

import json
import re
import time
import urllib.request
from pathlib import Path

import pytest
from lab.fleet.bed import Bed, bed, fleet, healthy
from lab.fleet.faults import FAULTS
from lab.fleet.instance import Instance
from lab.fleet.machines import H200, Gpu
from tests.real_prometheus import prometheus_program

from unslow.fleet.alerts import rules_text

PEERS = "UnslowSlowerThanPeers"
MUST = {
    "thermal": {"UnslowGpuThermalThrottling", PEERS},
    "power": {"UnslowGpuPowerCapped", PEERS},
    "low_clocks": {"UnslowGpuHeldAtLowClocks", PEERS},
    "preemption": {"UnslowKvCachePreemption", "UnslowKvCacheFull"},
    "queueing": {"UnslowQueueing"},
    "held": {"UnslowKvCacheFull"},
    "swapping": {"UnslowSwapping", PEERS},
    "unexplained": {PEERS},
}
MAY = {"preemption": {PEERS}}
"""A token takes 1.5 times as long there, which is where the alert begins."""
LONGEST_S = 240.0
"""What looks at whole minutes needs two of them, on a machine that has other work too."""


def _instances() -> list[Instance]:
    """Every fault, two that idle, two engines on one host, and one that two Prometheus scrape."""
    known = fleet(list(FAULTS))
    idle = healthy(len(known))
    shared = healthy(len(known) + 2)
    twice = healthy(len(known) + 4)
    calm = tuple(gpu._replace(busy=0.0, memory_busy=0.0, power_share=0.12, clock_share=0.2) for gpu in idle.gpus)
    return [
        *known,
        idle._replace(engine=idle.engine._replace(running=0.0), gpus=calm),
        shared,
        shared._replace(port=8001, gpus=(Gpu(H200, 1),)),
        twice._replace(labels=(("prometheus_replica", "a"),)),
        twice._replace(labels=(("prometheus_replica", "b"),), gpus=()),
    ]


def _quick_rules(folder: Path) -> Path:
    """The same rules, evaluated every second and without waiting."""
    text = rules_text()
    for name, quick in (("for", "2s"), ("interval", "1s")):
        text, changed = re.subn(rf"(?m)^( +{name}: ).*", rf"\g<1>{quick}", text)
        assert changed
    (folder / "unslow.rules.yml").write_text(text, "utf-8")
    return folder / "unslow.rules.yml"


def _asked(one: Bed, what: str):
    with urllib.request.urlopen(f"{one.prometheus.url}/api/v1/{what}", timeout=60) as answer:
        return json.load(answer)["data"]


def _firing(one: Bed) -> dict[str, set[str]]:
    """The alerts of each host."""
    found: dict[str, set[str]] = {}
    for alert in _asked(one, "alerts")["alerts"]:
        if alert["state"] == "firing":
            labels = alert["labels"]
            found.setdefault(labels["instance"].partition(":")[0], set()).add(labels["alertname"])
    return found


@pytest.mark.real
def test_each_injected_fault_fires_only_its_own_alert(tmp_path: Path):
    instances = _instances()
    must = {one.host.name: MUST[one.fault] for one in instances if one.fault in MUST}
    may = {one.host.name: MAY[one.fault] for one in instances if one.fault in MAY}
    with bed(prometheus_program(), tmp_path / "bed", instances, rules=_quick_rules(tmp_path)) as one:
        until = time.monotonic() + LONGEST_S
        while time.monotonic() < until and any(names - _firing(one).get(host, set()) for host, names in must.items()):
            time.sleep(1)
        fired = _firing(one)
        errors = [rule.get("lastError") for group in _asked(one, "rules")["groups"] for rule in group["rules"]]
    assert {host: names - may.get(host, set()) for host, names in fired.items()} == must
    assert not any(errors)
