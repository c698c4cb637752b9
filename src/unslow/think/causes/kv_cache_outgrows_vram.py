"""As the conversation grows, its KV cache no longer fits in GPU memory.

## Why it is slow
The keys and values of every token so far are read again for each new one. On the GPU that costs little for thousands of
tokens. A cache that the driver has moved out of GPU memory is read over PCIe, and speed falls off a cliff instead of
down a gentle slope.

Guides say that every message takes more GPU memory, but llama.cpp, Ollama and vLLM allocate the cache for the whole
context when they load: only what is read grows with a chat. Transformers and MLX alone allocate as they go.

## How to confirm
Speed at the start of a chat and deep in it differs by far more than the cache's bytes explain (`unslow diagnose` tries
both; `llama-bench -m MODEL -d 0,16384` too), and GPU memory is full when it is slow.

## What it is not
The ordinary slope: a longer chat reads more keys and values per token, and slows down in proportion to their bytes.

## How to fix
A cache of half the size, or a shorter one:
- llama.cpp: `-ctk q8_0 -ctv q8_0`, `-c 8192`, fewer slots (`-np 1`)
- Ollama: `OLLAMA_KV_CACHE_TYPE=q8_0`, `num_ctx 8192`
- LM Studio: K and V cache quantization and the context length in the model's load settings
- vLLM: `--kv-cache-dtype fp8`, `--max-model-len 8192`; SGLang: `--kv-cache-dtype fp8_e4m3`, `--context-length 8192`
- Transformers: `cache_implementation="quantized"`; MLX: `--max-kv-size`, `--kv-bits 8` of `mlx_lm.generate`

## Safety
A quantized cache changes the answers slightly; a shorter context cuts long conversations.
"""

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.values import GIB, MIB
from unslow.think.case.narrative import told_ratio
from unslow.think.case.speed import BEYOND
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Cause, Citations, Found, Remedy, Route, Suspected, all_of, finding
from unslow.think.plan.free_memory import HALF_CACHE

CLIFF = 2.5
"""A gentle slope stays below this: at 32,000 tokens of an 8B model the cache is about as large as the weights."""
FULL_BYTES = 600 * MIB  # Free memory of a GPU that is full: what drivers and allocators leave
SHORTER = Remedy(Knob.CONTEXT_LENGTH.to(None, "a context that fits"), None, "long chats are cut")


def speed_at_two_depths(case: CaseView) -> Found | Absent | Suspected:
    """The speeds measured at two depths, against what the bytes of the cache explain."""
    fall, full = case.speed.fall_with_depth(), _full_gpu(case)
    if fall.beyond < BEYOND:
        return Absent(f"the ordinary cost of a longer cache: {fall.words}")
    if case.vram.host_kv_bytes:
        return Absent("the runtime itself keeps the cache in host memory, which is another cause")
    because = (
        f"{fall.words}: {fall.measured_fall:.1f} times slower; a longer cache alone costs {fall.expected:.1f} times"
    )
    if full:
        tried = case.cite("run.depths", f"{fall.expected:.1f} times slower by physics", fall.words)
        return finding(case, because, tried, full, fixes=_remedies(case), speedup=fall.beyond)
    if case.vram.least_free_bytes is not None:
        return Absent(f"it falls {fall.beyond:.1f} times too far with depth, but GPU memory is not full")
    return Suspected(because, "machine.gpus.0.vram_free_bytes", CAUSE.ask)


def no_cache_on_gpu(case: CaseView) -> Absent | None:
    """A load that failed, or a runtime that has no GPU, has no cache there."""
    has_none = case.runtime.state.get() == "failed" or case.gpus.visible_to_runtime is False
    return Absent("no cache is on a GPU") if has_none else None


def room_beside_cache(case: CaseView) -> Absent | None:
    """A cache that was allocated in full at load, with memory left beside it, cannot outgrow it."""
    in_full, free = case.engine.runs_ggml or case.engine.runs_paged, case.vram.least_free_bytes
    if not in_full or not case.gpus.visible_to_runtime or free is None or _full_gpu(case):
        return None
    return Absent(f"the cache was allocated in full at load, with {free / GIB:.1f} GiB free beside it")


def fall_told(case: CaseView) -> Found | Absent | Suspected | None:
    """Two speeds that a person gives, near the start of a chat and deep in it."""
    fall = case.narrative.experiment_on(Topic.DEPTH, Topic.CONTEXT, metrics=("decode",))
    if fall is None:
        return None
    times, full = told_ratio(fall), _full_gpu(case)
    if times < CLIFF:
        return Absent(f"{times:.1f} times slower with depth: the ordinary cost of a longer cache")
    if not full:
        because = f"{times:.1f} times slower with depth: {fall.text}"
        return Suspected(because, "machine.gpus.0.vram_free_bytes", CAUSE.ask)
    because = f"deep in the context it is {times:.1f} times slower, and GPU memory is full"
    cited = case.narrative.cite_comparison(fall)
    return finding(case, because, cited, full, fixes=_remedies(case), speedup=times)


def _full_gpu(case: CaseView) -> Citations:
    """What shows that GPU memory is used up."""
    for place in case.gpus.places_in_use:
        path = f"machine.gpus.{place}.vram_free_bytes"
        free = case.fact(path).get()
        if free is not None and free < FULL_BYTES:
            return (case.cite(path, "full"),)
    return case.narrative.cite_remarks(case.narrative.remarks_on(Topic.VRAM_FULL, Topic.SHARED_MEMORY_USED))


def _remedies(case: CaseView) -> list[Remedy]:
    return [HALF_CACHE, SHORTER] if case.memory.can_shrink_cache else [SHORTER]


CAUSE = Cause(
    title="The KV cache outgrows the GPU's memory",
    phase="decode",
    needs=all_of("run.depths or runtime.name or account.comparisons"),
    routes=(
        Route("measured", speed_at_two_depths),
        Route("log", no_cache_on_gpu),
        Route("counted", room_beside_cache),
        Route("told", fall_told),
    ),
    on_gpu=True,
    explains=("driver_spills_to_shared_memory",),
    gpu_only=True,
    ask="at the start of a chat, and when it has grown slow: {gpu_memory}",
)
