"""On a machine with several NUMA nodes, threads read weights from the memory of another node.

## Why it is slow
Each socket reads its own memory at full speed and the other's over a link at a third to a half of that. A model file
that was cached while one node read it stays on that node: all other cores wait for the link, while the other node's
memory channels are idle.

## How to confirm
`numastat -p PID` shows the weights on one node; `numactl --hardware` shows one node full and another free.

## What it is not
A machine with one node, pages that are spread over all nodes, or all layers on the GPU.

## How to fix
Spread the pages over the nodes, or keep a model that fits on one node there, threads included:
- llama.cpp: `--numa distribute`, or `numactl --interleave=all llama-server --numa numactl ...`; on one node `numactl
  -N 0 -m 0`. Drop the page cache first (`echo 3 | sudo tee /proc/sys/vm/drop_caches`): cached pages do not move
- Ollama: start its service under `numactl --interleave=all`; it no longer has a setting of its own
- vLLM on CPUs: `VLLM_CPU_OMP_THREADS_BIND=auto`; Transformers, LM Studio: start them under `numactl`

## Safety
Answers do not change. Dropping the page cache makes the next load slow.
"""

import re

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.think.case.narrative import times_as_fast
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Cause, Found, Route, Suspected, all_of, finding

EVEN = 1.5  # Times its fair share: pages that are spread differ by less from node to node
MOSTLY = 0.75  # Of its memory on one node: the channels of the others are then next to idle
FAR = 0.25
"""Of the threads on other nodes than the memory: fewer wait for the link than the other nodes' channels would gain."""
SEVERAL = 2  # Nodes: one alone has no other node to read from
DROP = "sync; echo 3 | sudo tee /proc/sys/vm/drop_caches"
SPREAD = Knob.NUMA.to("distribute", f"spread the pages over all nodes; drop the page cache first (`{DROP}`)")
_AMOUNT = re.compile(r"(?i)\bnode ?\d\b[^\d;]{1,8}(\d{1,9}(?:\.\d+)?) ?[kmgt]i?b\b")
_OF_MEMORY = re.compile(r"free|full|idle|empty|miss|foreign|remote|cross|memory|numa|socket", re.IGNORECASE)
"""Nodes of a cluster are called nodes too."""


def one_node(case: CaseView) -> Absent | None:
    """The number of NUMA nodes, as the system reports it."""
    nodes = case.machine.memory.numa_nodes.get()
    return Absent("there is one NUMA node") if nodes is not None and nodes < SEVERAL else None


def all_on_gpu(case: CaseView) -> Absent | None:
    """Host memory matters only where the CPU computes a part of the model."""
    return Absent("all layers are on the GPU") if case.placement.cpu_computes is False else None


def other_placement_was_faster(case: CaseView) -> Found | None:
    """A user placed the memory differently over the nodes, and it was faster."""
    trial = case.narrative.trial_of(Topic.NUMA, Topic.THREADS)
    if trial is None:
        return None
    because = f"with another placement of its memory it is {times_as_fast(trial)}"
    return finding(case, because, fixes=[SPREAD], trial=trial)


def pages_against_threads(case: CaseView) -> Found | Absent | None:
    """The node that holds the pages of the process, against the nodes that its threads run on."""
    held, nodes = case.runtime.process.bytes_by_node.get() or {}, case.machine.memory.numa_nodes.get()
    total = sum(held.values())
    if not total or nodes is None or nodes < SEVERAL:
        return None
    home = max(held, key=lambda node: held[node])
    # The share of the threads on other nodes: as sampled, else those beyond the cores of one node
    sampled, far = case.telemetry.host_at_work(f"own_node{home}_share"), None
    threads, cores = case.runtime.compute.threads.get(), case.machine.cpu.physical_cores.get()
    if sampled is not None:
        far = 1 - sampled.mean
    elif threads is not None and cores is not None and threads > cores / nodes:
        far = 1 - cores / nodes / threads  # a free core is taken before the second half of a busy one
    share = held[home] / total
    words = f"{share:.0%} of its memory is on node {home}"
    if share < EVEN / nodes:
        return Absent(f"its memory is spread over {nodes} nodes: {words}")
    if far is not None and far < FAR:
        return Absent(f"{words}, and {1 - far:.0%} of its threads run there")
    if share < MOSTLY or far is None or not case.speed.is_slow:
        return None
    because, change = f"{words}, and {far:.0%} of its threads run on other nodes", SPREAD
    if setting := _placement_setting(case):
        because = f"{because}: `--numa {setting}` does not move pages that were already in the page cache"
        change = Knob.NUMA.to(setting, f"drop the page cache (`{DROP}`), then start it again with the same settings")
    return finding(
        case,
        because,
        case.cite("runtime.process.bytes_by_node", f"spread over {nodes} nodes"),
        fixes=[change],
        speedup=min(share * nodes, case.speed.shortfall or nodes),  # the channels of all nodes instead of one
    )


def imbalance_seen(case: CaseView) -> Found | None:
    """A user read off free memory or work by node, and it is uneven."""
    seen = [remark for remark in case.narrative.remarks_on(Topic.NODE_IMBALANCE) if _OF_MEMORY.search(remark.text)]
    uneven = []
    for remark in seen:
        # A table of numastat may show about the same on each node
        is_table = "numastat" in remark.text.lower()
        amounts = [float(match[1]) for match in _AMOUNT.finditer(remark.text)] if is_table else []
        if not (len(amounts) > 1 and max(amounts) < EVEN * min(amounts)):
            uneven.append(remark)
    if not uneven:
        return None
    return finding(case, f"the weights are on one NUMA node: {uneven[0].text}", *uneven, fixes=[SPREAD])


def placement_setting(case: CaseView) -> Absent | Suspected | None:
    """Whether a setting spreads the pages over the nodes."""
    if setting := _placement_setting(case):
        return Absent(f"`--numa {setting}` places the memory")
    nodes, slow = case.machine.memory.numa_nodes.get(), case.speed.is_slow
    if nodes is None or slow is None:
        return None
    if not slow:
        return Absent("decode is as fast as expected with these settings")
    return Suspected(f"{nodes} NUMA nodes, and no setting places the pages", "which node holds them", CAUSE.ask)


def _placement_setting(case: CaseView) -> str:
    """The setting that should have spread the pages; empty where there is none."""
    setting = case.runtime.compute.numa.get()
    return "" if setting in {None, "none", "disabled"} else str(setting)


CAUSE = Cause(
    title="Weights are on another NUMA node",
    phase="decode",
    needs=all_of("machine.memory.numa_nodes or account.remarks or account.comparisons"),
    routes=(
        Route("counted", one_node),
        Route("counted", all_on_gpu),
        Route("told", other_placement_was_faster),
        Route("measured", pages_against_threads),
        Route("told", imbalance_seen),
        Route("counted", placement_setting),
    ),
    explains=("threads_too_few", "cpu_contended"),
    not_on=("macOS",),
    ask="while it generates: {numa}",
)
