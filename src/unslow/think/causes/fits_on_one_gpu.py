"""The model would fit on one GPU but is split over several.

## Why it is slow
A split adds waiting: GPUs that take turns hand over after each part, and GPUs that share every layer exchange its
parts over their link. Where one GPU holds everything, that cost gains nothing, except for prefill and for many
concurrent users.

## How to confirm
Weights, KV cache and buffers together are smaller than the memory of one GPU, and the same model on that GPU alone is
faster: `llama-bench -m MODEL -sm none -mg 0`.

## What it is not
A model that needs the memory of several GPUs, or a layer split: it costs one hand-over per token, next to nothing.

## How to fix
Use only the fastest GPU, and the others for something else:
- llama.cpp: `-sm none -mg 0`, or `--device CUDA0`
- Ollama: no `OLLAMA_SCHED_SPREAD=1`; `main_gpu 0`
- vLLM: `--tensor-parallel-size 1`; SGLang: `--tp-size 1`; for many users one server on each GPU
- LM Studio: disable the other GPU in the hardware settings; Transformers: `device_map="cuda:0"`

## Safety
Answers do not change beyond rounding. Less memory is left for a longer context.
"""

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.values import GIB, Known, Unknown
from unslow.think.case.cure import Cure
from unslow.think.case.device import device_of
from unslow.think.case.narrative import WORTH_COMPARING, is_clear, slow_side_has, times_as_fast
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Route, Suspected, all_of, finding
from unslow.think.speed.question import has_links

USABLE = 0.93  # Of a GPU's memory: the rest is for the driver and the display
OVERHEAD = 1.2  # Times the weights: what KV cache and buffers add, where they were not seen
SHOW = "{try_one_gpu}"
ONE = Cure(one_gpu=True)
ALONE = Remedy(Knob.SPLIT_MODE.to("none", "only the fastest GPU"), None, "less memory for context")


def one_gpu_and_several(case: CaseView) -> Found | Absent | Suspected | None:
    """A user compared one GPU with several: which is faster."""
    tried = case.narrative.experiment_on(Topic.GPU_COUNT)
    if tried is None:
        return None
    if not is_clear(tried):
        return Absent("one GPU is not faster")
    slow_with_several = slow_side_has(tried, Topic.GPU_COUNT)
    if slow_with_several is False:
        return Absent("several GPUs are faster than one")
    if slow_with_several is None:
        return Suspected(tried.text, "the speed on one GPU alone", SHOW)
    if (case.gpus.computing_count or len(case.gpus.usable)) < 2:  # noqa: PLR2004 (several)
        return Suspected("another number of GPUs is faster", "how many GPUs compute now", SHOW)
    return finding(case, f"one GPU instead of several is {times_as_fast(tried)}", fixes=[ALONE], trial=tried)


def size_against_one_gpu(case: CaseView) -> Found | Absent:
    """The size of everything against the memory of one GPU, how it is split, and its speed there by physics."""
    case.ask_for("machine.gpus", "{gpu_list}")
    count = case.gpus.computing_count
    if count is None:
        case.ask_for("runtime.memory.buffers", SHOW)
    if count is not None and count < 2:  # noqa: PLR2004 (several)
        return Absent("only one GPU computes")
    held, (room, place) = _bytes_to_place(case), _largest_room(case)
    if held > USABLE * room:
        return Absent(f"{held / GIB:.1f} GiB do not fit on a GPU of {room / GIB:.1f} GiB")
    if case.gpus.split_tensors is None:
        case.ask_for("runtime.placement.split_mode", SHOW)
    if not case.gpus.split_tensors or case.gpus.have_fast_links:
        return Absent("the split costs one hand-over between GPUs per token, next to nothing")
    # How many times as fast one GPU would be; None where physics can't tell the two apart or the speed is not measured
    now, then, gain = case.sharing.rate_among_others, case.sharing.predict_among_others(ONE), None
    cuts_layers = (case.runtime.placement.tensor_parallel.get() or 1) > 1
    if cuts_layers and isinstance(now, Known) and not isinstance(then, Unknown):
        gain = then.tokens_per_s.mid / now.value
    if gain is None and not case.speed.need_slowness():
        return Absent("the speed is what these GPUs should reach")
    if gain is not None and gain < WORTH_COMPARING:
        return Absent("one GPU alone would not be faster")
    if gain is not None and _gains_by_split(case):
        return Absent("these GPUs should be faster together than one alone: something else slows them down")
    parallel = isinstance(case.runtime.placement.tensor_parallel, Known)
    return finding(
        case,
        f"{held / GIB:.1f} GiB would fit on one GPU of {room / GIB:.1f} GiB, but every layer is split",
        "runtime.placement.tensor_parallel" if parallel else "runtime.placement.split_mode",
        f"machine.gpus.{place}.vram_total_bytes",
        cure=Cure() if gain is None else ONE,
        fixes=[ALONE if gain is None else ALONE._replace(cure=ONE)],
    )


def _bytes_to_place(case: CaseView) -> float:
    """All that the runtime has on GPUs; else the weights with some overhead, and of an engine one request.

    The KV cache of such an engine takes whatever memory is free, so its buffers say nothing.
    """
    held, fills_memory = sum(b.bytes for b in case.vram.all_buffers if b.on_gpu), case.placement.computes_all_on_gpus
    if held and not fills_memory:
        return float(held)
    weights = float(case.ask_for("model.weights_bytes", "{model_size}"))
    one_request = case.memory.kv_bytes_per_token * (case.runtime.context.length.get() or 0)
    return OVERHEAD * weights + (one_request if fills_memory else 0.0)


def _largest_room(case: CaseView) -> tuple[float, int]:
    """The most that one GPU in use has for the runtime, without what other processes hold; and its place."""
    room = []
    for place, gpu in case.gpus.places:
        if gpu in case.gpus.in_use:
            total = case.ask_for(f"machine.gpus.{place}.vram_total_bytes", "{gpu_memory}")
            listed = gpu.processes.get() or [] if case.vram.own_is_known else []
            others = sum(p.vram_bytes.get() or 0 for p in case.vram.other_processes if p in listed)
            room.append((float(total) - others, place))
    return max(room, key=lambda one: one[0])


def _gains_by_split(case: CaseView) -> bool:
    """Whether modules with links on their board should be faster together than one alone.

    Of cards, the path between them often makes both slow, whatever physics predicts.
    """
    split, alone = case.sharing.predict_among_others(), case.sharing.predict_among_others(ONE)
    are_modules = all(device and has_links(device) for device in map(device_of, case.gpus.in_use))
    if not are_modules or isinstance(split, Unknown) or isinstance(alone, Unknown):
        return False
    return split.tokens_per_s.mid >= WORTH_COMPARING * alone.tokens_per_s.mid


CAUSE = Cause(
    title="The model fits on one GPU",
    phase="decode",
    needs=all_of("machine.gpus or account.comparisons"),
    routes=(Route("told", one_gpu_and_several), Route("counted", size_against_one_gpu)),
    on_gpu=True,
    explains=("multi_gpu_link_bound", "uneven_split"),
    gpu_only=True,
    ask=SHOW,
)
