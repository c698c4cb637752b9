"""The way in which the model is split over several GPUs costs more than the further GPUs bring.

## Why it is slow
Split by tensors or rows, every GPU computes a part of each layer, and all exchange their parts twice a layer: over
NVLink in microseconds, over PCIe in tens of them, a hundred times for each token, and megabytes for each prompt. Split
by layers, the GPUs take turns: that adds memory and never speed for one stream, and links between them stay idle.
Which is better depends on the links, and a changed default shows as a slow-down after an update.

Guides say that two GPUs of llama.cpp are nearly twice as fast, but by default it splits by layers, which adds memory
and no speed for one user.

## How to confirm
Compare them: `llama-bench -m MODEL -sm layer,row`, `--tensor-parallel-size 1` against 2. `nvidia-smi topo -m` shows
the links, `nvidia-smi nvlink -gt d` what moves over them.

## What it is not
A split by layers: it adds memory and never speed for one stream, and its link is not what is slow.

## How to fix
The split that is faster here: by layers over PCIe, by tensors over NVLink; or fewer GPUs where the model fits:
- llama.cpp: `-sm layer` (its default), `-sm none -mg 0`, `-sm tensor` over NVLink (new, built with NCCL)
- Ollama: no `OLLAMA_SCHED_SPREAD`; it then uses one GPU where the model fits
- vLLM: `--pipeline-parallel-size 2` instead of `--tensor-parallel-size 2`, or one GPU
- SGLang: a smaller `--tp-size`; LM Studio: "favor main GPU" instead of "evenly"
- Transformers: `device_map="cuda:0"` where it fits; `tp_plan="auto"` only over fast links

## Safety
Answers do not change beyond rounding. By layers each GPU needs room for its own part of the KV cache.
"""

import re

from unslow.catalog.runtimes import changes_at
from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.case.bandwidth import TENSOR_SPLITS, has_fast_links, splits_tensors
from unslow.think.case.narrative import (
    WORTH_COMPARING,
    counts_of,
    experiment_on,
    gain_of,
    is_clear,
    labels,
    names_phase,
    remarks_on,
    set_elsewhere,
    slow_side_has,
    times_as_fast,
    told_ratio,
)
from unslow.think.case.placement import gpus_computing
from unslow.think.case.prediction import Prediction, measured_rate, predict
from unslow.think.case.slowness import shortfall
from unslow.think.case.vram import gpus_of
from unslow.think.case.work import Cure
from unslow.think.causes._cause import Absent, Cause, Citations, Found, Remedy, Suspected, check_by
from unslow.think.causes._facts import ask_for, cite, cite_comparison

SHOW = "{gpu_links}, and {try_split}"
BY_LAYERS = Cure(by_layers=True)
_WIDER = "more lanes for each card, slots of one processor, or GPUs with NVLink; or fewer GPUs and a smaller quant"
_MODES = re.compile(r"\b(?:row|tensor|graph)\b")
_SPLITS = re.compile(r"\b(row|layer|tensor|none)s?\b\W{1,3}\d")


def _by_trial(case: Case) -> Found | Absent | Suspected | None:
    topics = (Topic.TENSOR_PARALLEL, Topic.SPLIT_MODE)
    tried = experiment_on(case, *topics, Topic.GPU_COUNT, Topic.LINK)
    if tried is None:  # two speeds that are labelled with two ways to split, whatever versions are named beside them
        both = {Topic.SPLIT_MODE, Topic.VERSION}
        across = [c for c in case.account.comparisons.value_or(()) if set(c.differs) == both]
        tried = next((c for c in across if len(set(_SPLITS.findall(c.text.lower()))) > 1), None)
    if tried is None or not set(tried.differs) & set(topics):
        # Fewer GPUs that were faster, where neither trial was on one alone
        tried = experiment_on(case, Topic.GPU_COUNT)
        slow, fast = counts_of(tried, Topic.GPU_COUNT) if tried else (0, 0)
        if tried is None or not is_clear(tried) or not 1 < fast < slow:
            return None
        words = f"on {fast} GPUs instead of {slow} it is {times_as_fast(tried)}: they wait for each other"
        return _found(words, (cite_comparison(case, tried),), None, gain_of(tried))
    if not is_clear(tried):
        return Absent("both ways of splitting are equally fast")
    if Topic.GPU_COUNT in tried.differs and slow_side_has(tried, Topic.GPU_COUNT) is False:
        return Absent("on several GPUs it is faster than on one")
    slow_with = slow_side_has(tried, *topics, Topic.GPU_COUNT)
    mode = set_elsewhere(case.runtime.split_mode, tried)
    if mode and mode in labels(tried)[1] and mode not in labels(tried)[0]:
        return Absent(f"the faster split, {mode}, is the one in use")
    if slow_with is None:
        return Suspected(tried.text, "which of the two speeds is that of which split", SHOW)
    what = "tensor parallelism" if Topic.TENSOR_PARALLEL in tried.differs else "this split"
    words, other = f"without {what} it is {times_as_fast(tried)}: the GPUs wait for each other", None
    if not slow_with:
        words = f"with every layer split it is {times_as_fast(tried)}: split by layers, the GPUs take turns"
        named = _MODES.search(labels(tried)[1])
        other = named[0] if named else "tensor"  # else the one that engines recommend
    found = _found(words, (cite_comparison(case, tried),), other, gain_of(tried))
    return found._replace(explains=("runtime_version_regressed",)) if Topic.VERSION in tried.differs else found


def _by_change(case: Case) -> Found | None:
    """A version from which on another split is the default, on a machine with several GPUs."""
    since, before = case.account.version_since.value_or(""), case.account.version_before.value_or("")
    changes = changes_at(case.runtime.name.value_or(""), before, since)
    known = next((c for c in changes if c.topic is Topic.SPLIT_MODE), None)
    if known is None or len(gpus_of(case)) < 2:  # noqa: PLR2004 (several)
        return None
    words = f"from {known.version} on {known.what}, and {len(gpus_of(case))} GPUs take turns"
    slowdown = case.account.slowdown
    trial = experiment_on(case, Topic.VERSION)
    lost = told_ratio(trial) if trial and is_clear(trial) else slowdown.value if isinstance(slowdown, Known) else None
    evidence = (cite(case, "account.version_since", known.source), *((cite_comparison(case, trial),) if trial else ()))
    return _found(words, evidence, known.undo or None, lost)


def _by_split(case: Case) -> Found | Absent | Suspected:
    ask_for(case, "machine.gpus", "{gpu_list}")
    if len(gpus_of(case)) < 2 or gpus_computing(case) == 1:  # noqa: PLR2004 (several)
        return Absent("one GPU computes")
    split = splits_tensors(case)
    if split is None:
        ask_for(case, "runtime.split_mode", SHOW)
    if not split:
        return Absent("split by layers: only a small state goes from one GPU to the next")
    linked, lost = has_fast_links(case), shortfall(case)
    if linked:
        return Absent("the GPUs are joined by NVLink")
    if lost is not None and lost <= 1:
        return Absent("the speed is what these GPUs should give")
    by_rows = case.runtime.split_mode.value_or("") in TENSOR_SPLITS
    words = f"every layer is split, and its parts cross {'PCIe' if linked is False else 'from GPU to GPU'} twice"
    slow = lost is not None and (by_rows or linked is False)  # rows over fast links are not slow
    if not slow and not (linked is False and by_rows and names_phase(case, "decode", "prefill")):
        return Suspected(words, "the links between the GPUs, and the speed of another split", SHOW)
    path = "runtime.split_mode" if isinstance(case.runtime.split_mode, Known) else "runtime.tensor_parallel"
    found = _found(words, (cite(case, path, "no NVLink" if linked is False else "layer"),), "layer", None)
    if by_rows:
        return found
    # Whole layers on each GPU where that is faster, by physics; and links that carry more
    now, then, remedies = measured_rate(case), predict(case, BY_LAYERS), [Remedy(Knob.LINK.to(None, _WIDER))]
    if isinstance(now, Known) and isinstance(then, Prediction) and then.tokens_per_s.mid > WORTH_COMPARING * now.value:
        remedies.insert(0, Remedy(Knob.SPLIT_MODE.to("layer", "the other way to split"), BY_LAYERS))
    return found._replace(remedies=tuple(remedies))


def _by_words(case: Case) -> Suspected | None:
    """Several GPUs that are no faster than one, or that take turns, as somebody sees it."""
    said = remarks_on(case, Topic.GPUS_TAKE_TURNS, Topic.SPLIT_MODE, Topic.TENSOR_PARALLEL)
    return Suspected(said[0].text, "the speed of another split", SHOW) if said else None


def _found(because: str, evidence: Citations, mode: str | None, speedup: float | None) -> Found:
    cure = None if speedup else Cure()
    why = "split by layers: next to nothing crosses then" if mode == "layer" else "the other way to split"
    return Found(because, evidence, cure, (Remedy(Knob.SPLIT_MODE.to(mode, why)),), None, speedup)


CAUSE = Cause(
    title="The split over several GPUs costs more than it gains",
    phase="decode",
    needs=(("machine.gpus", "account.comparisons", "account.remarks"),),
    check=check_by(_by_trial, _by_change, _by_split, _by_words),
    on_gpu=True,
    explains=("runtime_version_regressed",),
    gpu_only=True,
    ask=SHOW,
)
