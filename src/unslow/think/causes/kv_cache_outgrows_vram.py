"""As the conversation grows, its KV cache no longer has room on the GPU.

## Why it is slow
Keys and values of every token so far are read again for each new one. On the GPU that costs little for thousands of
tokens. A cache that the driver has moved out of the GPU's memory is read over PCIe, and speed falls off a cliff
instead of down a gentle slope.

Guides say that every message takes more GPU memory, but llama.cpp, Ollama and vLLM allocate the cache for the whole
context when they load: what grows with a chat is what is read of it. Only Transformers and MLX allocate as they go.

## How to confirm
Speed at the start of a chat and deep in it differ by far more than the cache's bytes explain (`unslow diagnose` tries
both; `llama-bench -m MODEL -d 0,16384` too), and the GPU's memory is full when it is slow.

## What it is not
The ordinary slope: a longer chat reads more keys and values for each token, and slows down as its bytes say.

## How to fix
A cache of half the size, or a shorter one:
- llama.cpp: `-ctk q8_0 -ctv q8_0`, `-c 8192`, fewer slots (`-np 1`)
- Ollama: `OLLAMA_KV_CACHE_TYPE=q8_0`, `num_ctx 8192`
- LM Studio: K and V cache quantisation and the context length of the model's load settings
- vLLM: `--kv-cache-dtype fp8`, `--max-model-len 8192`; SGLang: `--kv-cache-dtype fp8_e4m3`, `--context-length 8192`
- Transformers: `cache_implementation="quantized"`; MLX: `--max-kv-size`, `--kv-bits 8` of `mlx_lm.generate`

## Safety
A quantised cache changes the answers slightly; a shorter context cuts long conversations.
"""

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import GIB, MIB, Known
from unslow.think.case.demand import can_shrink_cache
from unslow.think.case.narrative import experiment_on, remarks_on, told_ratio
from unslow.think.case.runtime import runs_ggml, runs_paged
from unslow.think.case.vram import buffers_of, gpus_used, runtime_sees_gpu
from unslow.think.causes._cause import Absent, Cause, Citations, Found, Remedy, Suspected, check_by
from unslow.think.causes._evidence import BEYOND, fall_with_depth
from unslow.think.causes._facts import cite, cite_comparison, cite_remarks
from unslow.think.causes._memory_remedies import HALF_CACHE

CLIFF = 2.5
"""A gentle slope stays below this: at 32,000 tokens of an 8B model the cache is about as large as the weights."""
FULL_BYTES = 600 * MIB  # Free memory of a GPU that is full: what drivers and allocators leave


def _by_depths(case: Case) -> Found | Absent | Suspected:
    """The speed as it was tried at two depths, against physics at both."""
    fall = fall_with_depth(case)
    if fall.beyond < BEYOND:
        return Absent(f"the ordinary cost of a longer cache: {fall.words}")
    if buffers_of(case, "kv", on_gpu=False):
        return Absent("the runtime itself keeps the cache in the host's memory, which is another cause")
    slower = f"{fall.measured:.1f} times slower, where a longer cache alone costs {fall.expected:.1f} times"
    words, full = f"{fall.words}: {slower}", _full(case)
    if full:
        tried = cite(case, "run.depths", f"{fall.expected:.1f} times slower by physics", fall.words)
        return _found(case, words, (tried, *full), fall.beyond)
    if _free_known(case):
        return Absent(f"it falls {fall.beyond:.1f} times too far with depth, but the GPU's memory has room")
    return Suspected(words, "machine.gpus.0.vram_free_bytes", CAUSE.ask)


def _by_room(case: Case) -> Absent | None:
    """A cache that was allocated as a whole at the load, beside room that is left: nothing can grow out of it."""
    if case.runtime.state.value_or("") == "failed" or runtime_sees_gpu(case) is False:
        return Absent("no cache is on a GPU")
    if not (runs_ggml(case) or runs_paged(case)) or not runtime_sees_gpu(case) or not _free_known(case) or _full(case):
        return None
    free = min(g.vram_free_bytes.need() for g in gpus_used(case))
    return Absent(f"the cache was allocated as a whole at the load, and {free / GIB:.1f} GiB are free beside it")


def _free_known(case: Case) -> bool:
    gpus = gpus_used(case)
    return bool(gpus) and all(isinstance(g.vram_free_bytes, Known) for g in gpus)


def _by_fall(case: Case) -> Found | Absent | Suspected | None:
    """Two speeds that somebody tells."""
    fall = experiment_on(case, Topic.DEPTH, Topic.CONTEXT, metrics=("decode",))
    if fall is None:
        return None
    if told_ratio(fall) < CLIFF:
        return Absent(f"{told_ratio(fall):.1f} times slower with depth: the ordinary cost of a longer cache")
    full = _full(case)
    if not full:
        why = f"{told_ratio(fall):.1f} times slower with depth: {fall.text}"
        return Suspected(why, "machine.gpus.0.vram_free_bytes", CAUSE.ask)
    because = f"deep in the context it is {told_ratio(fall):.1f} times slower, and the GPU's memory is full"
    return _found(case, because, (cite_comparison(case, fall), *full), told_ratio(fall))


def _found(case: Case, because: str, evidence: Citations, speedup: float) -> Found:
    return Found(
        because=because,
        evidence=evidence,
        remedies=(
            *((HALF_CACHE,) if can_shrink_cache(case) else ()),
            Remedy(Knob.CONTEXT_LENGTH.to(None, "a context that fits"), None, "long chats are cut"),
        ),
        speedup=speedup,
    )


def _full(case: Case) -> Citations:
    """What shows that the GPU's memory is used up."""
    for place, gpu in enumerate(case.machine.gpus.value_or(())):
        if gpu in gpus_used(case) and isinstance(gpu.vram_free_bytes, Known) and gpu.vram_free_bytes.value < FULL_BYTES:
            return (cite(case, f"machine.gpus.{place}.vram_free_bytes", "full"),)
    return cite_remarks(case, remarks_on(case, Topic.VRAM_FULL, Topic.SHARED_MEMORY_USED))


CAUSE = Cause(
    title="The KV cache outgrows the GPU's memory",
    phase="decode",
    needs=(("run.depths", "runtime.name", "account.comparisons"),),
    check=check_by(_by_depths, _by_room, _by_fall),
    on_gpu=True,
    explains=("driver_spills_to_shared_memory",),
    gpu_only=True,
    ask="at the start of a chat, and when it has grown slow: {gpu_memory}",
)
