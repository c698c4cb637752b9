"""The model would fit on one GPU and is split over several.

## Why it is slow
A split adds waiting: GPUs that take turns hand over after each part, and GPUs that share every layer exchange its
parts over their link. Where one GPU holds everything, all of that is for nothing, but for prompts and many users at
once.

## How to confirm
Weights, KV cache and buffers together are smaller than the memory of one GPU, and the same model on that GPU alone is
faster: `llama-bench -m MODEL -sm none -mg 0`.

## What it is not
A model that needs the memory of several GPUs, or a split by layers: that costs one hand-over for a token, next to
nothing.

## How to fix
Use the fastest GPU alone, and the others for something else:
- llama.cpp: `-sm none -mg 0`, or `--device CUDA0`
- Ollama: no `OLLAMA_SCHED_SPREAD=1`; `main_gpu 0`
- vLLM: `--tensor-parallel-size 1`; SGLang: `--tp-size 1`; for many users one server on each GPU
- LM Studio: switch the other GPU off in the hardware settings; Transformers: `device_map="cuda:0"`

## Safety
Answers do not change beyond rounding. Less memory is left for a longer context.
"""

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import GIB, Known, Unknown
from unslow.think.case.bandwidth import has_fast_links, splits_tensors
from unslow.think.case.demand import kv_per_token
from unslow.think.case.gpus import device_of
from unslow.think.case.narrative import WORTH_COMPARING, experiment_on, is_clear, slow_side_has
from unslow.think.case.placement import computes_all_on_gpus, gpus_computing
from unslow.think.case.slowness import predict_among_others, rate_among_others
from unslow.think.case.vram import gpu_places, gpus_of, gpus_used, other_gpu_processes, own_is_known
from unslow.think.case.work import Cure
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Suspected, check_by
from unslow.think.causes._facts import ask_for, cite, found_by_trial, must_be_slow
from unslow.think.speed.chips import has_links

USABLE = 0.93  # Of a GPU's memory: the rest is the driver's and the display's
SHOW = "{try_one_gpu}"
ONE = Cure(one_gpu=True)
_ALONE = Remedy(Knob.SPLIT_MODE.to("none", "one GPU alone, the fastest"), None, "less room for context")
_OTHERWISE = "these GPUs should be faster together than one of them: something else slows them down"


def _by_trial(case: Case) -> Found | Absent | Suspected | None:
    tried = experiment_on(case, Topic.GPU_COUNT)
    if tried is None:
        return None
    if not is_clear(tried):
        return Absent("one GPU is no faster")
    slow_with_several = slow_side_has(tried, Topic.GPU_COUNT)
    if slow_with_several is False:
        return Absent("on several GPUs it is faster than on one")
    if slow_with_several is None:
        return Suspected(tried.text, "the speed on one GPU alone", SHOW)
    if (gpus_computing(case) or len(gpus_of(case))) < 2:  # noqa: PLR2004 (several)
        return Suspected("another number of GPUs is faster", "how many GPUs compute now", SHOW)
    return found_by_trial(case, tried, "on one GPU instead of several it", _ALONE)


def _by_size(case: Case) -> Found | Absent | Suspected:
    ask_for(case, "machine.gpus", "{gpu_list}")
    count = gpus_computing(case)
    if count is None:
        ask_for(case, "runtime.buffers", SHOW)
    if count is not None and count < 2:  # noqa: PLR2004 (several)
        return Absent("one GPU computes")
    # All that the runtime has on GPUs; else the weights, a fifth for the rest, and one request of an engine's, whose
    # cache takes whatever memory there is
    held = float(sum(b.bytes for b in case.runtime.buffers.value_or([]) if b.on_gpu))
    if not held or computes_all_on_gpus(case):
        request = kv_per_token(case) * case.runtime.context_length.value_or(0) if computes_all_on_gpus(case) else 0.0
        held = 1.2 * float(ask_for(case, "model.weights_bytes", "{model_size}")) + request
    largest, place = _largest(case)
    if held > USABLE * largest:
        return Absent(f"{held / GIB:.1f} GiB do not fit on a GPU of {largest / GIB:.1f} GiB")
    split = splits_tensors(case)
    if split is None:
        ask_for(case, "runtime.split_mode", SHOW)
    if not split or has_fast_links(case):
        return Absent("the split costs one hand-over between GPUs for each token, next to nothing")
    # How many times as fast one GPU would be; None where physics does not tell the two apart, or nobody measured
    now, then, alone = rate_among_others(case), predict_among_others(case, ONE), None
    if case.runtime.tensor_parallel.value_or(1) > 1 and isinstance(now, Known) and not isinstance(then, Unknown):
        alone = then.tokens_per_s.mid / now.value
    if alone is None and not must_be_slow(case):
        return Absent("the speed is what these GPUs should give")
    if alone is not None and (alone < WORTH_COMPARING or _gains_by_split(case)):
        return Absent("one GPU alone would be no faster" if alone < WORTH_COMPARING else _OTHERWISE)
    words = f"{held / GIB:.1f} GiB would fit on one GPU of {largest / GIB:.1f} GiB, and every layer is split"
    path = "runtime.tensor_parallel" if isinstance(case.runtime.tensor_parallel, Known) else "runtime.split_mode"
    evidence = (cite(case, path), cite(case, f"machine.gpus.{place}.vram_total_bytes"))
    cure = None if alone is None else ONE
    return Found(words, evidence, cure or Cure(), (_ALONE._replace(cure=cure),))


def _gains_by_split(case: Case) -> bool:
    """Whether modules with links of their own should be faster together than one alone: then it is something else.

    Of cards it is often the way between them that makes both slow, whatever physics expects of it.
    """
    split, alone = predict_among_others(case), predict_among_others(case, ONE)
    linked = all(known is not None and has_links(known) for known in map(device_of, gpus_used(case)))
    if not linked or isinstance(split, Unknown) or isinstance(alone, Unknown):
        return False
    return split.tokens_per_s.mid >= WORTH_COMPARING * alone.tokens_per_s.mid


def _largest(case: Case) -> tuple[float, int]:
    """The most that one of its GPUs could hold for the runtime, all less what strangers have there; and its place."""
    room, used = [], gpus_used(case)
    for place, gpu in gpu_places(case):
        if gpu not in used:
            continue
        total = ask_for(case, f"machine.gpus.{place}.vram_total_bytes", "{gpu_memory}")
        others = [p for p in other_gpu_processes(case) if p in gpu.processes.value_or([])] if own_is_known(case) else []
        room.append((float(total) - sum(p.vram_bytes.value_or(0) for p in others), place))
    return max(room, key=lambda one: one[0])


CAUSE = Cause(
    title="The model fits on one GPU",
    phase="decode",
    needs=(("machine.gpus", "account.comparisons"),),
    check=check_by(_by_trial, _by_size),
    on_gpu=True,
    explains=("multi_gpu_link_bound", "uneven_split"),
    gpu_only=True,
    ask=SHOW,
)
