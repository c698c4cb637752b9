"""The GPU's link to the host is slower than both ends could, and much has to cross it.

## Why it is slow
A card in a slot with fewer lanes, a riser, a dirty contact or a firmware setting leaves a link of few lanes or of an
old generation. One stream on one GPU hardly notices: only a few kilobytes cross for each token. Weights that are
copied for prompts, a model that is split by tensors over several GPUs, memory that the driver moved to the host, and
loading do notice.

## How to confirm
Read the link **under load**, because it falls asleep when idle: `nvidia-smi -q` shows generation and width, now and at
most (AMD: `sudo lspci -vv -s BUS | grep -E 'LnkCap|LnkSta'`). A lasting difference between the two is the fault; a
card that can do more than its slot has lost nothing.

## What it is not
A link that is asleep while nothing crosses it; a card that can do more than its slot, which has lost nothing; a narrow
link over which hardly anything has to go.

## How to fix
On any runtime: reseat the card, use the slot that is wired to the processor with all lanes, a better riser, the newest
generation in the firmware's settings. Or let less cross: llama.cpp `-sm layer` instead of `row` or `tensor`, vLLM
`--pipeline-parallel-size` instead of `--tensor-parallel-size`, a larger `-ub` where weights are copied for prompts.

## Safety
Answers do not change. Switch the machine off before touching the card.
"""

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import GIB
from unslow.think.case.bandwidth import TENSOR_SPLITS
from unslow.think.case.gpus import LoadedGpu, is_unified
from unslow.think.case.narrative import experiment_on, is_clear, names_phase, remarks_on
from unslow.think.case.placement import SHOW_LINK, gpus_computing, host_weights_bytes
from unslow.think.case.vram import gpus_of, gpus_used
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Suspected, first_to_decide
from unslow.think.causes._evidence import copies
from unslow.think.causes._facts import ask_for, at_work, cite, cite_remarks, found_by_trial, if_known
from unslow.think.physics.links import link_bytes_per_s

DEGRADED = 0.6  # Of the rate that both ends could have
MUCH = GIB
_RESEAT = Remedy(Knob.LINK.to(None, "reseat the card, another slot or riser, the firmware's link setting"))
SPLIT = "{command_line}"


def check(case: Case) -> Found | Absent | Suspected:
    """Hold the link under load against the best that both ends have, and see whether anything large crosses it."""
    if is_unified(case):
        return Absent("GPU and CPU share one memory: there is no link between them")
    return first_to_decide(case, _by_experiment, _by_reading, _by_words)


def _by_experiment(case: Case) -> Found | None:
    tried = experiment_on(case, Topic.LINK)
    if tried is None or not is_clear(tried):
        return None
    return found_by_trial(case, tried, "with the other link it", _RESEAT)


def _by_words(case: Case) -> Found | Suspected | None:
    """A narrow link that somebody read off counts where several GPUs, a load or prompts need it."""
    said = remarks_on(case, Topic.LINK_NARROW)
    if not said:
        return None
    if len(gpus_of(case)) < 2 and not names_phase(case, "load", "prefill"):  # noqa: PLR2004 (several)
        return Suspected(said[0].text, "what crosses the link", SPLIT)
    return Found(f"a GPU has a narrow link: {said[0].text}", cite_remarks(case, said[:1]), remedies=(_RESEAT,))


def _by_reading(case: Case) -> Found | Absent:
    loaded = at_work(case)
    if not loaded:
        return Absent("the GPU was idle while tokens were generated")
    seen = []
    for gpu in loaded:  # what the link carries under load, and what both ends could
        generation, width = (ask_for(case, path, SHOW_LINK) for path in _paths(gpu))
        most = [ask_for(case, f"{gpu.place}.{name}_max", SHOW_LINK) for name in ("pcie_generation", "pcie_width")]
        seen.append((gpu, link_bytes_per_s(generation, width), link_bytes_per_s(*most)))
    slow = [s for s in seen if s[1] < DEGRADED * s[2]]
    if not slow:
        return Absent(f"the link carries {seen[0][1] / 1e9:.0f} GB/s under load, and could not carry more")
    gpu, now, could = min(slow, key=lambda s: s[1])
    crossing = _crossing(case, now)
    if not crossing:
        return Absent("the link is slower than it could be, and hardly anything crosses it here")
    copied = copies(case, now)
    price = copied.with_link(could / now) if copied and copied.is_bound else None
    return Found(
        because=f"the link runs at {now / 1e9:.1f} instead of {could / 1e9:.1f} GB/s, and {crossing} cross it",
        evidence=tuple(cite(case, path, f"{could / 1e9:.0f} GB/s at most") for path in _paths(gpu)),
        remedies=(_RESEAT,),
        speedup=price.speedup if price else None,
        lost=price.lost if price else None,
    )


def _paths(gpu: LoadedGpu) -> tuple[str, str]:
    if gpu.at == gpu.place:
        return f"{gpu.at}.pcie_generation", f"{gpu.at}.pcie_width"
    return f"{gpu.at}.pcie_generation_max_seen", f"{gpu.at}.pcie_width_max_seen"


def _crossing(case: Case, link_bytes_per_s: float) -> str:
    """What has to cross the link here; empty where it is next to nothing."""
    copied = copies(case, link_bytes_per_s)
    if copied and copied.is_bound:
        return "weights, for every part of a prompt,"
    runtime = case.runtime
    if runtime.tensor_parallel.value_or(1) > 1:
        return "the parts of every layer"
    if runtime.split_mode.value_or("") in TENSOR_SPLITS:
        return ""  # split by layers, as it does by itself, next to nothing would cross it: the split is the cause
    if gpus_computing(case) != 1:
        ask_for(case, "runtime.split_mode", SPLIT)
    if sum(g.shared_used_bytes.value_or(0) + g.gtt_used_bytes.value_or(0) for g in gpus_used(case)) > MUCH:
        return "weights that the driver keeps in the host's memory"
    if names_phase(case, "load"):
        return "all weights, once,"
    left = if_known(host_weights_bytes, case)
    much = left is None or left > MUCH
    return "weights, for every part of a prompt," if much and names_phase(case, "prefill") else ""


CAUSE = Cause(
    title="The PCIe link is degraded",
    phase="prefill",
    explains=("prefill_pcie_bound", "multi_gpu_link_bound"),
    needs=(("run.gpus", "machine.gpus", "account.comparisons", "account.remarks"),),
    check=check,
    gpu_only=True,
    ask=SHOW_LINK,
)
