"""The words of each knob, one or many at once: what goes from the command line of vLLM, and what comes."""

import json
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from unslow.facts.knob import Change, Knob, Setting
from unslow.facts.runtime import Runtime
from unslow.facts.values import Known
from unslow.look.at_hand import AtHand
from unslow.look.paths import is_absolute
from unslow.look.runtimes.vllm.versions import CACHE_TYPES_SINCE, full_version, lacking, thread_variables
from unslow.look.serving.turns import PLACE


class Words(NamedTuple):
    """Settings that a knob replaces, the words that it puts in, and variables that it needs."""

    names: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    environment: Mapping[str, str | None] = {}
    model: str = ""
    missing: str = ""
    """What the reader has to fill in for `PLACE`, where a value is not known: a fragment, but not a whole command."""


class Wanted(NamedTuple):
    """All changes by their knob, and what they are for."""

    changes: Mapping[Knob, Setting]
    runtime: Runtime
    at_hand: AtHand


Answer = Words | str
_Turn = Callable[[Setting, Wanted], Answer]
_TYPES = ("auto", "half", "float16", "bfloat16", "float", "float32")
_DRAFT_TOKENS = 3  # a few: later ones of a draft are seldom right
_CACHE_WORDS = {"q8_0": "fp8", "f16": "auto", "bf16": "auto"}
"""What is as large there: eight bits, and the type of the weights."""
MADE_ON_LOADING = ("fp8", "bitsandbytes")
"""Quants that vLLM makes of plain weights while it loads them."""
ALL_BLOCKS = "all blocks"
"""Of `Knob.CAPACITY`: as many as the memory has room for."""
DRAFT_PLACE = "DRAFT_MODEL"
"""Of `Knob.SPECULATIVE`: stands for a model that is for the reader to choose."""
_NO_NUMBER, _NO_DRAFT = "it needs a number, which is not known", "which model shall draft is not known"
_DRAFTING = ("speculative", "draft_model", "draft_tokens")


def words_of(change: Change, wanted: Wanted) -> Answer:
    """The words of one change among all, or why there are none."""
    turn = _TURNS.get(change.knob)
    answer = turn(change.value, wanted) if turn else "vLLM has no setting for it"
    return answer if isinstance(answer, str) else _lacking(answer, wanted) or answer


def _lacking(words: Words, wanted: Wanted) -> str:
    version = full_version(wanted.runtime.version)
    flags = [word for word in words.words if word.startswith("--")]
    needed = [name for name, value in words.environment.items() if value is not None]
    return next((why for word in (*flags, *needed) if (why := lacking(word, version))), "")


def _flag(name: str, flag: str) -> _Turn:
    """A flag with a whole number."""

    def turn(value: Setting, _wanted: Wanted) -> Answer:
        if value is None:
            return Words((name,), (flag, PLACE), missing=_NO_NUMBER)
        whole = isinstance(value, int) and not isinstance(value, bool) and value > 0
        return Words((name,), (flag, str(value))) if whole else f"{value!r} is no value of {flag}"

    return turn


def _model(value: Setting, wanted: Wanted) -> Answer:
    """A folder of this machine, or a checkpoint that was seen: nobody has checked any other name."""
    name = str(value or "")
    if is_absolute(name) or name in wanted.at_hand.listed:
        return Words(model=name)
    return f"{name} is no folder of this machine and no checkpoint that was seen"


def _quant(value: Setting, wanted: Wanted) -> Answer:
    if Knob.MODEL_FILE in wanted.changes:
        return Words()
    plain = not isinstance(wanted.runtime.quantization, Known)
    if plain and value in MADE_ON_LOADING:
        return Words(("quantization",), ("--quantization", str(value)))
    return f"no checkpoint of this model as {value} was named"


def _share(value: Setting, _wanted: Wanted) -> Answer:
    names, flag = ("memory_fraction", "kv_bytes"), "--gpu-memory-utilization"
    if value is None:
        return Words(names, (flag, PLACE), missing=_NO_NUMBER)
    share = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 1
    return Words(names, (flag, f"{value:g}")) if share else f"{value!r} is no share"


def _margin(value: Setting, wanted: Wanted) -> Answer:
    """What it leaves free is what its share leaves."""
    return Words() if Knob.MEMORY_SHARE in wanted.changes else _share(value, wanted)


def _fit(value: Setting, wanted: Wanted) -> Answer:
    """The longest context that there is room for; of all else it takes what it is told to."""
    if value is False or Knob.CONTEXT_LENGTH in wanted.changes:
        return Words()
    return Words(("context",), ("--max-model-len", "auto"))


def _blocks(value: Setting, _wanted: Wanted) -> Answer:
    return Words(("kv_blocks",)) if value == ALL_BLOCKS else "how much more it needs is not known"


def _cache_type(value: Setting, wanted: Wanted) -> Answer:
    if value is None:
        return Words(("kv_type",))
    word = _CACHE_WORDS.get(str(value), str(value))
    since, version = CACHE_TYPES_SINCE.get(word), full_version(wanted.runtime.version)
    if since is None:
        return f"vLLM has no cache of {value}"
    if version is not None and version < since:
        return f"vLLM {wanted.runtime.version.value_or('')} has no cache of {word}"
    return Words(("kv_type",), ("--kv-cache-dtype", word))


def _value_type(value: Setting, wanted: Wanted) -> Answer:
    keys = wanted.changes.get(Knob.KV_CACHE_TYPE, wanted.runtime.kv_type_k.value_or("auto"))
    return Words() if value == keys else "vLLM has one type for keys and values"


def _graphs(value: Setting, _wanted: Wanted) -> Answer:
    return Words(("eager", "optimisation", "unoptimised"), ("--enforce-eager",) if value is False else ())


def _prefixes(value: Setting, _wanted: Wanted) -> Answer:
    if value is None:
        return Words(("prefix_cache",))
    return Words(("prefix_cache",), ("--no-enable-prefix-caching" if value is False else "--enable-prefix-caching",))


def _weights_type(value: Setting, _wanted: Wanted) -> Answer:
    if value is None:
        return Words(("dtype",))
    return Words(("dtype",), ("--dtype", str(value))) if value in _TYPES else f"vLLM computes in none of {value}"


def _attention(value: Setting, wanted: Wanted) -> Answer:
    """A flag since 0.13; before, a variable."""
    names = ("attention", "attention_config")
    if value is None:
        return Words(names)
    if not re.fullmatch(r"[A-Z][A-Z0-9_]{2,60}", str(value)):
        return f"{value!r} is not the name of a kernel"
    old = lacking("--attention-backend", full_version(wanted.runtime.version))
    if old:
        return Words(names, environment={"VLLM_ATTENTION_BACKEND": str(value)})
    return Words(names, ("--attention-backend", str(value)))


def _flash(value: Setting, wanted: Wanted) -> Answer:
    if Knob.ATTENTION in wanted.changes:
        return Words()
    return _attention(None if value is None else "FLASH_ATTN" if value else "TRITON_ATTN", wanted)


def _split(value: Setting, wanted: Wanted) -> Answer:
    """Every layer on all GPUs (2), or whole layers on each (`layer 2`); a bare `layer` is over as many as run now."""
    names = ("tensor_parallel", "pipeline_parallel")
    if value is None:
        return Words(names)
    if stages := re.fullmatch(r"layer ([1-9]\d{0,2})", str(value)):
        return Words(names, ("--pipeline-parallel-size", stages[1]))
    runtime = wanted.runtime
    now = runtime.tensor_parallel.value_or(1) * runtime.pipeline_parallel.value_or(1)
    count = 1 if value == "none" else value if isinstance(value, int) and not isinstance(value, bool) else now
    flag = "--pipeline-parallel-size" if value == "layer" else "--tensor-parallel-size"
    if count < 1 or (count == 1 and value not in ("none", 1)):
        return Words(names, (flag, PLACE), missing="over how many GPUs is not known")
    return Words(names, (flag, str(count)))


def _layers(value: Setting, _wanted: Wanted) -> Answer:
    return Words(("cpu_offload",)) if value in (None, -1) else "vLLM computes no layers on the CPU beside a GPU"


def _kernel(value: Setting, _wanted: Wanted) -> Answer:
    """Left out, the fastest kernel is chosen by the checkpoint."""
    return Words(("quantization",), ("--quantization", str(value)) if value and "marlin" not in str(value) else ())


def _drafting(value: Setting, wanted: Wanted) -> Answer:
    if not value or value == "none":
        return Words(_DRAFTING)
    name = str(value)
    missing = _NO_DRAFT if name == DRAFT_PLACE else ""
    if not (missing or is_absolute(name) or name in wanted.at_hand.listed):
        return f"{name} is no folder of this machine and no checkpoint that was seen"
    if lacking("--speculative-config", full_version(wanted.runtime.version)):
        return Words(
            _DRAFTING, ("--speculative-model", name, "--num-speculative-tokens", str(_DRAFT_TOKENS)), missing=missing
        )
    config = json.dumps({"model": name, "num_speculative_tokens": _DRAFT_TOKENS}, ensure_ascii=False)
    return Words(_DRAFTING, ("--speculative-config", config), missing=missing)


def _device(value: Setting, _wanted: Wanted) -> Answer:
    """CUDA1 is GPU 1, and 1,2 are two of them; a product's name has other figures."""
    named = re.fullmatch(r"[A-Za-z]*(\d{1,3}(?:,\d{1,3}){0,63})", str(value))
    missing = "" if named else f"{value!r} names no device"
    return Words(environment={"CUDA_VISIBLE_DEVICES": named[1] if named else "NUMBER"}, missing=missing)


def _threads(value: Setting, wanted: Wanted) -> Answer:
    if wanted.runtime.device_used.value_or("") != "cpu":
        return "threads compute only where vLLM runs on the CPU"
    if value is None:
        return Words(environment={"VLLM_CPU_OMP_THREADS_BIND": "auto"})
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        return f"{value!r} is no number of threads"
    return Words(environment=dict(thread_variables(value, full_version(wanted.runtime.version))))


_TURNS: Mapping[Knob, _Turn] = {
    Knob.MODEL_FILE: _model,
    Knob.QUANT: _quant,
    Knob.MEMORY_SHARE: _share,
    Knob.FIT_MARGIN: _margin,
    Knob.FIT: _fit,
    Knob.CAPACITY: _blocks,
    Knob.CONTEXT_LENGTH: _flag("context", "--max-model-len"),
    Knob.PARALLEL: _flag("sequences", "--max-num-seqs"),
    Knob.BATCH: _flag("batched_tokens", "--max-num-batched-tokens"),
    Knob.KV_CACHE_TYPE: _cache_type,
    Knob.VALUE_CACHE_TYPE: _value_type,
    Knob.GRAPHS: _graphs,
    Knob.COMPILE: _graphs,
    Knob.PROMPT_CACHE: _prefixes,
    Knob.WEIGHTS_TYPE: _weights_type,
    Knob.ATTENTION: _attention,
    Knob.FLASH_ATTENTION: _flash,
    Knob.SPLIT_MODE: _split,
    Knob.GPU_LAYERS: _layers,
    Knob.QUANT_KERNEL: _kernel,
    Knob.SPECULATIVE: _drafting,
    Knob.DEVICE: _device,
    Knob.THREADS: _threads,
}
