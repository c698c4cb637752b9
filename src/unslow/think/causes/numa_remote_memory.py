"""On a machine with several memory nodes, threads read weights from the far one.

## Why it is slow
Each socket reads its own memory at full speed and the other's over a link at a third to a half of it. A model file
that was cached while one node read it lies on that node, and all other cores wait for the link, while the other node's
memory channels are idle.

## How to confirm
`numastat -p PID` shows the weights on one node; `numactl --hardware` shows one node full and another free.

## What it is not
A machine with one node, pages that are spread over all of them, or all layers on the GPU.

## How to fix
Spread the pages over the nodes, or keep a model that fits on one node there, threads and all:
- llama.cpp: `--numa distribute`, or `numactl --interleave=all llama-server --numa numactl ...`; on one node `numactl
  -N 0 -m 0`. Drop the page cache first (`echo 3 | sudo tee /proc/sys/vm/drop_caches`), for pages stay put
- Ollama: start its service under `numactl --interleave=all`; it has no setting of its own any more
- vLLM on CPUs: `VLLM_CPU_OMP_THREADS_BIND=auto`; Transformers, LM Studio: start them under `numactl`

## Safety
Answers do not change. Dropping the page cache makes the next load slow.
"""

import re

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.case.narrative import remarks_on, tried
from unslow.think.case.placement import cpu_computes
from unslow.think.case.slowness import generates_slowly, shortfall
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Suspected, first_to_decide
from unslow.think.causes._evidence import host_at_work
from unslow.think.causes._facts import cite, cite_remarks, found_by_trial

EVEN = 1.5  # Times its fair share: pages that are spread differ by less from node to node
MOSTLY = 0.75  # Of its memory on one node: then the channels of the others have next to nothing to give
FAR = 0.25
"""Of the threads on other nodes than the memory: fewer wait for the link than the neighbours' channels would gain."""
DROP = "sync; echo 3 | sudo tee /proc/sys/vm/drop_caches"
_SPREAD = Remedy(Knob.NUMA.to("distribute", f"spread the pages over all nodes; drop the page cache first (`{DROP}`)"))
_AMOUNT = re.compile(r"(?i)\bnode ?\d\b[^\d;]{1,8}(\d{1,9}(?:\.\d+)?) ?[kmgt]i?b\b")
_OF_MEMORY = re.compile(r"free|full|idle|empty|miss|foreign|remote|cross|memory|numa|socket", re.IGNORECASE)
"""Nodes of a cluster are called nodes too."""


def check(case: Case) -> Found | Absent | Suspected:
    """Look for nodes, for an experiment, and for one node that has it all."""
    if case.machine.memory.numa_nodes.value_or(2) < 2:  # noqa: PLR2004 (one node has no far side)
        return Absent("there is one memory node")
    if cpu_computes(case) is False:
        return Absent("all layers are on the GPU")
    return first_to_decide(case, _by_trial, _by_pages, _by_words, _by_settings)


def _by_trial(case: Case) -> Found | None:
    trial = tried(case, Topic.NUMA, Topic.THREADS)
    return found_by_trial(case, trial, "with the memory placed otherwise it", _SPREAD) if trial else None


def _by_pages(case: Case) -> Found | Absent | None:
    """Where its pages lie, held against where its threads run."""
    held = case.runtime.bytes_by_node.value_or({})
    nodes, total = case.machine.memory.numa_nodes.value_or(0), sum(held.values())
    if not total or nodes < 2:  # noqa: PLR2004 (one node has no far side)
        return None
    home = max(held, key=lambda node: held[node])
    # The share of the threads on other nodes: as watched, else what does not fit on the cores of one node
    seen, far = host_at_work(case, f"own_node{home}_share"), None
    threads, cores = case.runtime.threads, case.machine.cpu.physical_cores
    if seen is not None:
        far = 1 - seen.mean
    elif isinstance(threads, Known) and isinstance(cores, Known) and threads.value > cores.value / nodes:
        far = 1 - cores.value / nodes / threads.value  # a free core is taken before the second half of a busy one
    share = held[home] / total
    words = f"{share:.0%} of its memory lies on node {home}"
    if share < EVEN / nodes:
        return Absent(f"its memory is spread over {nodes} nodes: {words}")
    if far is not None and far < FAR:
        return Absent(f"{words}, and {1 - far:.0%} of its threads run there")
    if share < MOSTLY or far is None or not generates_slowly(case):
        return None
    because = f"{words}, and {far:.0%} of its threads run on other nodes"
    gain = min(share * nodes, shortfall(case) or nodes)  # all nodes' channels instead of one's
    remedy, setting = _SPREAD, case.runtime.numa.value_or("")
    if _is_placed(case):
        because = f"{because}: `--numa {setting}` is set, and pages that were in the page cache before do not move"
        anew = f"drop the page cache (`{DROP}`), then start it again with the same settings"
        remedy = Remedy(Knob.NUMA.to(setting, anew))
    evidence = (cite(case, "runtime.bytes_by_node", f"spread over {nodes} nodes"),)
    return Found(because, evidence, remedies=(remedy,), speedup=gain)


def _is_placed(case: Case) -> bool:
    """Whether a setting is there that should have spread the pages."""
    return case.runtime.numa.value_or("") not in {"", "none", "disabled"}


def _by_words(case: Case) -> Found | None:
    """Free memory or work by node, as somebody read it off."""
    seen = [remark for remark in remarks_on(case, Topic.NODE_IMBALANCE) if _OF_MEMORY.search(remark.text)]
    said = [remark for remark in seen if not _is_even(remark.text)]
    if not said:
        return None
    because = f"the weights lie on one memory node: {said[0].text}"
    return Found(because, cite_remarks(case, said), remedies=(_SPREAD,))


def _is_even(text: str) -> bool:
    """Whether a table of what a process has on each node shows about the same for all."""
    if "numastat" not in text.lower():
        return False
    amounts = [float(found[1]) for found in _AMOUNT.finditer(text)]
    return len(amounts) > 1 and max(amounts) < EVEN * min(amounts)


def _by_settings(case: Case) -> Absent | Suspected | None:
    nodes = case.machine.memory.numa_nodes
    if _is_placed(case):
        return Absent(f"the memory is placed by a setting: {case.runtime.numa.value_or('')}")
    slow = generates_slowly(case)
    if not isinstance(nodes, Known) or slow is None:
        return None
    if not slow:
        return Absent("it is as fast as this set-up should be")
    return Suspected(f"{nodes.value} memory nodes, and no setting places the pages", "which node has them", CAUSE.ask)


CAUSE = Cause(
    title="Weights lie on a far memory node",
    phase="decode",
    needs=(("machine.memory.numa_nodes", "account.remarks", "account.comparisons"),),
    check=check,
    explains=("threads_too_few", "cpu_contended"),
    not_on=("macOS",),
    ask="while it generates: {numa}",
)
