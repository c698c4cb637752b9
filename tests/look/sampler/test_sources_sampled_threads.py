from contextlib import ExitStack
from math import isnan

import pytest
from sampled_machine import LiveFake

from unslow.look.sampler.sources import host
from unslow.look.system import LookError

CPU, NODES = "/sys/devices/system/cpu", "/sys/devices/system/node"


def line(state: str, cpu: int) -> str:
    return f"7 (llama-server) {state} 1 " + "0 " * 34 + f"{cpu} 0 0\n"


def machine(*running: tuple[str, int], **more: str) -> LiveFake:
    tids = [str(70 + n) for n in range(len(running))]
    stats = {f"/proc/7/task/{tid}/stat": line(*where) for tid, where in zip(tids, running, strict=True)}
    return LiveFake(files={f"{CPU}/online": "0-3\n", **stats, **more}, folders={"/proc/7/task": tids})


def shares(live: LiveFake) -> dict[str, float]:
    (reading,) = host.open_threads(live, [7], ExitStack())
    return dict(zip(reading.columns, reading.read(0.0), strict=True))


def test_running_threads_on_efficiency_cores_are_sampled():
    hybrid = {"/sys/devices/cpu_core/cpus": "0-1\n"}
    live = machine(("R", 0), ("R", 2), ("R", 3), ("R", 3), ("S", 1), **hybrid)
    assert shares(live) == {"own_slow_core_share": 0.75}
    assert isnan(shares(machine(("S", 2), **hybrid))["own_slow_core_share"])


def test_running_threads_per_numa_node_are_sampled():
    nodes = {f"{NODES}/has_cpu": "0-1\n", f"{NODES}/has_memory": "0-1\n",
             f"{NODES}/node0/cpulist": "0-1\n", f"{NODES}/node1/cpulist": "2-3\n"}  # fmt: skip
    assert shares(machine(("R", 0), ("R", 2), ("R", 3), ("R", 1), **nodes)) == {
        "own_node0_share": 0.5,
        "own_node1_share": 0.5,
    }


def test_threads_are_not_sampled_on_one_kind_of_core_and_one_node():
    with pytest.raises(LookError, match="one kind"):
        host.open_threads(machine(("R", 0)), [7], ExitStack())
    with pytest.raises(LookError, match="no process"):
        host.open_threads(machine(), [], ExitStack())
