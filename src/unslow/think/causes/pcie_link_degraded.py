"""The GPU's PCIe link is slower than both ends support, and a lot of data has to cross it.

## Why it is slow
A slot with fewer lanes, a riser, a dirty contact or a firmware setting leaves the link with few lanes or an old
generation. One stream on one GPU hardly notices: only a few kilobytes cross for each token. Weights copied for prefill,
tensor parallelism over several GPUs, memory that the driver spilled to the host, and model loading do notice.

## How to confirm
Read the link **under load**, because it drops to a low generation when idle: `nvidia-smi -q` shows current and maximum
generation and width (AMD: `sudo lspci -vv -s BUS | grep -E 'LnkCap|LnkSta'`). A difference that persists under load is
the fault.

## What it is not
A link that is in a low-power state while nothing crosses it; a card that supports more than its slot, which has lost
nothing; a narrow link that hardly anything has to cross.

## How to fix
On any runtime: reseat the card, use a slot that is wired to the CPU with all lanes, use a better riser, select the
newest generation in the firmware settings. Or let less cross: llama.cpp `-sm layer` instead of `row` or `tensor`, vLLM
`--pipeline-parallel-size` instead of `--tensor-parallel-size`, a larger `-ub` where weights are copied for prefill.

## Safety
Answers do not change. Switch the machine off before touching the card.
"""

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.values import GIB
from unslow.think.case.gpus import SHOW_LINK, TENSOR_SPLITS
from unslow.think.case.group import if_known
from unslow.think.case.narrative import is_clear, times_as_fast
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Cause, Found, Route, Suspected, all_of, finding
from unslow.think.physics.placement import link_bytes_per_s

DEGRADED = 0.6  # Of the rate that both ends support
MUCH = GIB
RESEAT = Knob.LINK.to(None, "reseat the card, try another slot or riser, check the firmware's link setting")
SPLIT = "{command_line}"


def unified_memory(case: CaseView) -> Absent | None:
    """Whether GPU and CPU share one memory."""
    return Absent("GPU and CPU share one memory: there is no link between them") if case.gpus.is_unified else None


def other_link_was_faster(case: CaseView) -> Found | None:
    """A user tried another slot, riser or link setting, and it was faster."""
    tried = case.narrative.experiment_on(Topic.LINK)
    if tried is None or not is_clear(tried):
        return None
    return finding(case, f"it is {times_as_fast(tried)} with the other link", fixes=[RESEAT], trial=tried)


def link_under_load(case: CaseView) -> Found | Absent:
    """The link under load against what both ends support, and whether anything large crosses it."""
    loaded = case.telemetry.gpus_at_work
    if not loaded:
        return Absent("the GPU was idle during decode")
    links = []
    for gpu in loaded:
        seen = "" if gpu.at == gpu.place else "_max_seen"
        paths = [f"{gpu.at}.{name}{seen}" for name in ("pcie_generation", "pcie_width")]
        generation, width = (case.ask_for(path, SHOW_LINK) for path in paths)
        most = [case.ask_for(f"{gpu.place}.{name}_max", SHOW_LINK) for name in ("pcie_generation", "pcie_width")]
        links.append((paths, link_bytes_per_s(generation, width), link_bytes_per_s(*most)))
    slow = [link for link in links if link[1] < DEGRADED * link[2]]
    if not slow:
        return Absent(f"the link runs at {links[0][1] / 1e9:.0f} GB/s under load, the most that it supports")
    paths, now, could = min(slow, key=lambda link: link[1])
    crossing = _what_crosses(case, now)
    if not crossing:
        return Absent("the link is slower than it could be, but hardly anything crosses it here")
    copies = case.speed.prompt_copies(now)
    price = copies.price(faster=could / now) if copies and copies.is_bound else None
    return finding(
        case,
        f"the link runs at {now / 1e9:.1f} instead of {could / 1e9:.1f} GB/s, and {crossing}",
        [case.cite(path, f"{could / 1e9:.0f} GB/s at most") for path in paths],
        fixes=[RESEAT],
        speedup=price.speedup if price else None,
        lost=price.lost if price else None,
    )


def narrow_link_seen_by_person(case: CaseView) -> Found | Suspected | None:
    """A user reports a narrow link, where several GPUs, a model load or prefill depend on it."""
    said = case.narrative.remarks_on(Topic.LINK_NARROW)
    if not said:
        return None
    if len(case.gpus.usable) < 2 and not case.narrative.names_phase("load", "prefill"):  # noqa: PLR2004 (several)
        return Suspected(said[0].text, "what crosses the link", SPLIT)
    return finding(case, f"a GPU has a narrow link: {said[0].text}", said[0], fixes=[RESEAT])


def _what_crosses(case: CaseView, link_rate: float) -> str:
    """What has to cross the link here; empty where it is next to nothing."""
    copied = "weights cross it for every micro-batch of prefill"
    copies = case.speed.prompt_copies(link_rate)
    if copies and copies.is_bound:
        return copied
    if (case.runtime.placement.tensor_parallel.get() or 1) > 1:
        return "the parts of every layer cross it"
    if case.runtime.placement.split_mode.get() in TENSOR_SPLITS:
        return ""  # the split is the cause: with the default layer split next to nothing would cross
    if case.gpus.computing_count != 1:
        case.ask_for("runtime.placement.split_mode", SPLIT)
    spilled = ((gpu.shared_used_bytes.get() or 0) + (gpu.gtt_used_bytes.get() or 0) for gpu in case.gpus.in_use)
    if sum(spilled) > MUCH:
        return "weights that the driver spilled into host memory cross it"
    if case.narrative.names_phase("load"):
        return "all weights cross it once"
    in_ram = if_known(lambda: case.placement.host_weights_bytes)
    much = in_ram is None or in_ram > MUCH
    return copied if much and case.narrative.names_phase("prefill") else ""


CAUSE = Cause(
    title="The PCIe link is degraded",
    phase="prefill",
    explains=("prefill_pcie_bound", "multi_gpu_link_bound"),
    needs=all_of("run.gpus or machine.gpus or account.comparisons or account.remarks"),
    routes=(
        Route("counted", unified_memory),
        Route("told", other_link_was_faster),
        Route("measured", link_under_load),
        Route("told", narrow_link_seen_by_person),
    ),
    gpu_only=True,
    ask=SHOW_LINK,
)
