"""How SGLang spells each knob."""

from unslow.facts.knob import Change, Knob, Setting
from unslow.facts.placed import Place, labelled
from unslow.facts.runtime import Runtime
from unslow.look.serving.sglang_flags import FLAGS
from unslow.look.serving.turns import (
    MORE_MEMORY,
    MOST_MEMORY,
    UNTHINKING,
    Turn,
    gpus_of_split,
    halved_context,
    kv_type,
    nothing,
    number,
    spell_turn,
    stages,
)


def _kernel(value: Setting) -> list[str]:
    return ["--quantization", str(value)] if value else []


def _parallel(value: Setting) -> list[str]:
    return ["--pp-size" if value == "layer" else "--tp-size", gpus_of_split(value)]


def _attention(value: Setting) -> list[str]:
    return ["--attention-backend", "triton" if value is False else "flashinfer"]


TURNS: dict[Knob, Turn] = {
    Knob.CONTEXT_LENGTH: Turn(("context",), number("--context-length")),
    Knob.KV_CACHE_TYPE: Turn(("kv_type",), lambda value: [w.replace("fp8", "fp8_e5m2") for w in kv_type(value)]),
    Knob.PARALLEL: Turn(("sequences",), number("--max-running-requests")),
    Knob.BATCH: Turn(("batched_tokens",), number("--chunked-prefill-size")),
    Knob.SPLIT_MODE: Turn(("tensor_parallel",), _parallel),
    Knob.GPU_LAYERS: Turn(("cpu_offload",), nothing),
    Knob.GRAPHS: Turn(("no_graphs",), nothing),
    Knob.QUANT_KERNEL: Turn(("quantization",), _kernel),
    Knob.SPECULATIVE: Turn(("speculative", "draft_model", "draft_tokens"), nothing),
    Knob.PROMPT_CACHE: Turn(("no_prefix_cache",), nothing),
    Knob.FLASH_ATTENTION: Turn(("attention",), _attention),
    Knob.FIT_MARGIN: Turn(("memory_fraction",), number("--mem-fraction-static")),
}
_OTHERS: dict[Knob, list[str]] = {
    Knob.DEVICE: ["CUDA_VISIBLE_DEVICES=NUMBER"],
    Knob.QUANT: [labelled(Place.HAND, "give `--model-path` a checkpoint of this model as AWQ, GPTQ or FP8")],
    Knob.THINKING: UNTHINKING,
    Knob.VERSION: ["pip install --upgrade sglang"],
}


def spell(change: Change, runtime: Runtime) -> list[str]:
    """What to type, from the shortest to the whole command where that is known; [] where there is nothing to type."""
    if change.knob is Knob.SPLIT_MODE and change.value == "layer":
        return spell_turn(FLAGS, stages("--pp-size", runtime), change, runtime)
    if change.knob in TURNS:
        return spell_turn(FLAGS, TURNS[change.knob], change, runtime)
    if change.knob is Knob.CAPACITY:
        return _capacity(runtime)
    return _OTHERS.get(change.knob, [])


def _capacity(runtime: Runtime) -> list[str]:
    """More memory for the cache of requests, smaller entries, or shorter ones."""
    fraction = runtime.gpu_memory_fraction.value_or(0.0)
    more = f"--mem-fraction-static {min(MOST_MEMORY, fraction + MORE_MEMORY):.2f}" if fraction else ""
    return [
        *([more] if more and fraction < MOST_MEMORY else []),
        "--kv-cache-dtype fp8_e5m2",
        *halved_context("--context-length", runtime),
    ]
