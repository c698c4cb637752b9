"""The way the model is split over several GPUs costs more than the additional GPUs gain.

## Why it is slow
Split by tensors or rows, every GPU computes a part of each layer, and all exchange their parts twice per layer: over
NVLink in microseconds, over PCIe in tens of them, a hundred times for each token, and megabytes for each prompt. Split
by layers, the GPUs take turns: that adds memory but never speed for one stream, and the links between them stay idle.
Which is better depends on the links, and a changed default shows up as a slowdown after an update.

Guides say that two GPUs are nearly twice as fast in llama.cpp, but its default is a layer split, which adds memory and
no speed for one user.

## How to confirm
Compare the splits: `llama-bench -m MODEL -sm layer,row`, `--tensor-parallel-size 1` against 2. `nvidia-smi topo -m`
shows the links, `nvidia-smi nvlink -gt d` the traffic over them.

## What it is not
A layer split: it adds memory and never speed for one stream, and its link is not the bottleneck.

## How to fix
Use the split that is faster here: by layers over PCIe, by tensors over NVLink; or fewer GPUs where the model fits:
- llama.cpp: `-sm layer` (its default), `-sm none -mg 0`, `-sm tensor` over NVLink (new, built with NCCL)
- Ollama: no `OLLAMA_SCHED_SPREAD`; it then uses one GPU where the model fits
- vLLM: `--pipeline-parallel-size 2` instead of `--tensor-parallel-size 2`, or one GPU
- SGLang: a smaller `--tp-size`; LM Studio: "favor main GPU" instead of "evenly"
- Transformers: `device_map="cuda:0"` where it fits; `tp_plan="auto"` only over fast links

## Safety
Answers do not change beyond rounding. With a layer split each GPU needs memory for its own part of the KV cache.
"""

import re

from unslow.catalog.runtimes import changes_at
from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.think.case.cure import Cure
from unslow.think.case.gpus import TENSOR_SPLITS
from unslow.think.case.narrative import counts_of, is_clear, labels, set_elsewhere, slow_side_has, times_as_fast
from unslow.think.case.speed import WORTH_NAMING, Prediction
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Route, Suspected, all_of, finding

SHOW = "{gpu_links}, and {try_split}"
BY_LAYERS = Cure(by_layers=True)
WIDER = "more lanes for each card, slots of one CPU, or GPUs with NVLink; or fewer GPUs and a smaller quant"
OTHER_SPLIT = "the other way to split"
_MODES = re.compile(r"\b(?:row|tensor|graph)\b")


def two_splits(case: CaseView) -> Found | Absent | Suspected | None:
    """A user compared two ways to split the model: which one is faster."""
    tried = case.narrative.split_trial
    if tried is None:
        return None
    if not is_clear(tried):
        return Absent("both ways to split are equally fast")
    if Topic.GPU_COUNT in tried.differs and slow_side_has(tried, Topic.GPU_COUNT) is False:
        return Absent("several GPUs are faster than one")
    slow_is_split = slow_side_has(tried, Topic.TENSOR_PARALLEL, Topic.SPLIT_MODE, Topic.GPU_COUNT)
    (slow, fast), mode = labels(tried), set_elsewhere(case.runtime.placement.split_mode, tried)
    if mode and mode in fast and mode not in slow:
        return Absent(f"the faster split, {mode}, is the one in use")
    if slow_is_split is None:
        return Suspected(tried.text, "which split has which of the two speeds", SHOW)
    if slow_is_split:
        what, other = "tensor parallelism" if Topic.TENSOR_PARALLEL in tried.differs else "this split", None
        because = f"it is {times_as_fast(tried)} without {what}: the GPUs wait for each other"
    else:
        named = _MODES.search(fast)
        other = named[0] if named else "tensor"  # else the one that engines recommend
        because = (
            f"it is {times_as_fast(tried)} with every layer split over the GPUs: with whole layers they take turns"
        )
    return finding(
        case,
        because,
        cure=Cure() if tried.worded else None,
        fixes=[Remedy(Knob.SPLIT_MODE.to(other, OTHER_SPLIT))],
        trial=tried,
        explains=("runtime_version_regressed",) if Topic.VERSION in tried.differs else None,
    )


def fewer_gpus_were_faster(case: CaseView) -> Found | None:
    """A user tried fewer GPUs, though more than one, and they were faster."""
    tried = None if case.narrative.split_trial else case.narrative.experiment_on(Topic.GPU_COUNT)
    if tried is None or not is_clear(tried):
        return None
    slow, fast = counts_of(tried, Topic.GPU_COUNT)
    if not 1 < fast < slow:
        return None
    because = f"{fast} GPUs instead of {slow} are {times_as_fast(tried)}: with more, they wait for each other"
    fix = Remedy(Knob.SPLIT_MODE.to(None, OTHER_SPLIT))
    return finding(case, because, cure=Cure() if tried.worded else None, fixes=[fix], trial=tried)


def default_changed(case: CaseView) -> Found | None:
    """It became slow with a version that changed the default split, on a machine with several GPUs."""
    since, before = case.account.version_since.get(), case.account.version_before.get()
    changes = changes_at(case.engine.name, before or "", since) if since else ()
    known = next((change for change in changes if change.topic is Topic.SPLIT_MODE), None)
    if known is None or len(case.gpus.usable) < 2:  # noqa: PLR2004 (several)
        return None
    trial = case.narrative.experiment_on(Topic.VERSION)
    slowdown = trial.fast / trial.slow if trial and is_clear(trial) else case.account.slowdown.get()
    return finding(
        case,
        f"from {known.version} on {known.what}, and {len(case.gpus.usable)} GPUs take turns",
        case.cite("account.version_since", known.source),
        [case.narrative.cite_comparison(trial)] if trial else [],
        cure=None if slowdown else Cure(),
        fixes=[Remedy(Knob.SPLIT_MODE.to(known.undo or None, OTHER_SPLIT))],
        speedup=slowdown,
    )


def split_over_links(case: CaseView) -> Found | Absent | Suspected:
    """How the model is split, the links between the GPUs, and the speed against the expected one."""
    case.ask_for("machine.gpus", "{gpu_list}")
    if len(case.gpus.usable) < 2 or case.gpus.computing_count == 1:  # noqa: PLR2004 (several)
        return Absent("only one GPU computes")
    if case.gpus.split_tensors is None:
        case.ask_for("runtime.placement.split_mode", SHOW)
    if not case.gpus.split_tensors:
        return Absent("layer split: only a small state goes from one GPU to the next")
    linked, lost = case.gpus.have_fast_links, case.speed.shortfall
    if linked:
        return Absent("NVLink connects the GPUs")
    if lost is not None and lost <= 1:
        return Absent("the speed is what these GPUs should reach")
    mode = case.runtime.placement.split_mode.get()
    by_rows, over_pcie = mode in TENSOR_SPLITS, linked is False
    because = f"every layer is split, and its parts cross {'PCIe' if over_pcie else 'from GPU to GPU'} twice"
    slow = lost is not None and (by_rows or over_pcie)  # rows over fast links are not slow
    if not slow and not (over_pcie and by_rows and case.narrative.names_phase("decode", "prefill")):
        return Suspected(because, "the links between the GPUs, and the speed with another split", SHOW)
    fixes = [Remedy(Knob.SPLIT_MODE.to("layer", "split by layers: next to nothing crosses between GPUs"))]
    if not by_rows:  # by physics, a layer split is not always faster than tensor parallelism; wider links are
        now, then = case.speed.measured_rate.get(), case.speed.predict(BY_LAYERS)
        fixes = [Remedy(Knob.LINK.to(None, WIDER))]
        if now is not None and isinstance(then, Prediction) and then.tokens_per_s.mid > WORTH_NAMING * now:
            fixes.insert(0, Remedy(Knob.SPLIT_MODE.to("layer", OTHER_SPLIT), BY_LAYERS))
    fact = "runtime.placement.tensor_parallel" if mode is None else "runtime.placement.split_mode"
    return finding(case, because, case.cite(fact, "no NVLink" if over_pcie else "layer"), cure=Cure(), fixes=fixes)


def split_suspected_by_person(case: CaseView) -> Suspected | None:
    """A user says that the GPUs take turns, are not faster than one, or suspects the split."""
    said = case.narrative.remarks_on(Topic.GPUS_TAKE_TURNS, Topic.SPLIT_MODE, Topic.TENSOR_PARALLEL)
    return Suspected(said[0].text, "the speed with another split", SHOW) if said else None


CAUSE = Cause(
    title="The split over several GPUs costs more than it gains",
    phase="decode",
    needs=all_of("machine.gpus or account.comparisons or account.remarks"),
    routes=(
        Route("told", two_splits),
        Route("told", fewer_gpus_were_faster),
        Route("told", default_changed),
        Route("counted", split_over_links),
        Route("told", split_suspected_by_person),
    ),
    on_gpu=True,
    explains=("runtime_version_regressed",),
    gpu_only=True,
    ask=SHOW,
)
