"""Processors: efficiency cores and far memory nodes, and machines of one kind of both."""

from lab.built_machines.built import Built, Write, snapshot
from lab.built_machines.linux import Cpu, Memory, linux
from lab.built_machines.llama_server import PID, Server, serve
from lab.built_machines.parts import answers, watched
from lab.built_machines.shapes import LLAMA_8B, LLAMA_70B
from lab.built_machines.sources import HYBRID, NODES

from unslow.facts.run import Run

NODE = "/sys/devices/system/node"
I9 = Cpu("13th Gen Intel(R) Core(TM) i9-13900K", 8, 16, mhz=4300, max_mhz=5800)
DDR5 = Memory(64, 50, 1, 68.0, 34.0)
EPYC = Cpu("AMD EPYC 9354 32-Core Processor", 64, 0, 2, mhz=3600, max_mhz=3800)


def machines() -> tuple[Built, ...]:
    """All of them."""
    return (
        Built(
            "i9_13900k_threads_on_efficiency_cores", "threads_on_efficiency_cores",
            "24 threads on 8 performance and 16 efficiency cores: half the speed of 8 threads", HYBRID,
            _on_i9(24, 5.0),
        ),
        Built(
            "i9_13900k_threads_on_performance_cores", "", "the same with 8 threads", HYBRID, _on_i9(8, 11.0), "normal",
        ),
        Built(
            "epyc_two_sockets_far_memory", "numa_remote_memory",
            "a 70B model on two sockets whose pages all lie on one node, read by threads of both", NODES,
            _on_epyc(2, 3.0, {"N0": 10_300_000, "N1": 41_000}),
        ),
        Built(
            "epyc_one_node", "", "the same processors with their memory interleaved as one node", NODES,
            _on_epyc(1, 9.6, {"N0": 10_341_000}), "normal",
        ),
    )  # fmt: skip


def _on_i9(threads: int, tokens_per_s: float) -> Write:
    server = Server(
        LLAMA_8B, (), answers(tokens_per_s, 512, 14.0), args=("-t", str(threads)), threads=threads, cpus=24,
        cpu=(I9.model, 65536), busy=True,
    )  # fmt: skip
    world = serve(linux(I9, DDR5, busy_cpus=float(threads)), server)
    slow = max(0, threads - I9.fast) / threads
    return snapshot(world, Run(telemetry=watched(own_slow_core_share=slow, busy_cpus=float(threads))))


def _on_epyc(nodes: int, tokens_per_s: float, pages: dict[str, int]) -> Write:
    memory = Memory(768, 700, nodes, 520.0, 28.0)
    server = Server(
        LLAMA_70B, (), answers(tokens_per_s, 512, 20.0), args=("-t", "64"), threads=64, cpus=64,
        cpu=(EPYC.model, 786432), busy=True,
    )  # fmt: skip
    world = serve(linux(EPYC, memory, busy_cpus=64.0), server)
    held = " ".join(f"{node}={count}" for node, count in pages.items())
    mapped = f"7f0000000000 default file={server.model} mapped=10341000 {held} kernelpagesize_kB=4\n"
    world.add({f"/proc/{PID}/numa_maps": mapped})
    world.add({f"{NODE}/node{n}/cpulist": f"{n * 32}-{n * 32 + 31}\n" for n in range(nodes)} if nodes > 1 else {})
    share = {f"own_node{n}_share": 1 / nodes for n in range(nodes)} if nodes > 1 else {}
    return snapshot(world, Run(telemetry=watched(busy_cpus=64.0, **share)))
