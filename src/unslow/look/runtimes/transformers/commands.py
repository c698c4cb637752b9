"""The commands of Transformers: a program that loads and generates so, or what to change in one that runs."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from unslow.facts.commands import Commands, Place, by_hand, labelled_line
from unslow.facts.knob import Change, Knob, Setting
from unslow.facts.runtime import Runtime
from unslow.look import command_writer as writer
from unslow.look.command_line import is_absolute_path
from unslow.look.command_writer import NOTHING_AT_HAND, Advice, AtHand, ChangeRequest

_UNNAMED = "MODEL"
_NAMELESS = f"{_UNNAMED} stands for the folder of the model, or its name in the hub"
_DTYPE_ARGUMENT = (4, 56)  # before, it is `torch_dtype`
_QUANTISED = {"q8_0": ("hqq", 8), "q4_0": ("quanto", 4)}
"""The library and the bits of a cache: quanto has four bits and fewer, hqq eight too."""
_PACKAGES = {"hqq": "hqq", "quanto": "optimum-quanto"}
_UNSEEN = "{value} is neither a folder on this machine nor a known checkpoint"
_BITS = {"nf4": "load_in_4bit", "4bit": "load_in_4bit", "8bit": "load_in_8bit", "int8": "load_in_8bit"}
_ATTENTION = re.compile(r"[a-z][\w-]{1,40}(?:/[\w.-]{1,80})?")


class Code(NamedTuple):
    """What a change adds to the program."""

    load: Mapping[str, str] = {}  # Arguments of loading
    generate: Mapping[str, str] = {}  # Arguments of generating
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()  # Lines before the model is loaded, and after
    imports: tuple[str, ...] = ()  # Names of Transformers that it needs
    model: str = ""
    packages: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()  # Other ways to say it to a program that runs
    missing: str = ""  # What the reader has to fill in first


_Answer = Code | Advice | str
_Turn = Callable[[Setting, ChangeRequest], _Answer]


def commands_for(changes: Sequence[Change], runtime: Runtime, at_hand: AtHand = NOTHING_AT_HAND) -> Commands:
    """One program with all changes; where a program runs already, what to change in it."""
    codes, advised, left = writer.answer_changes("Transformers", _TURNS, changes, runtime, at_hand)
    if not at_hand.anew:
        return Commands(lines=(*_fragments(_merge_codes(codes)), *advised), left_out=left)
    codes = [code for code in codes if not code.missing]
    if not codes:
        return Commands(lines=advised, left_out=left)
    code = _merge_codes(codes)
    model = code.model or at_hand.checkpoint or _UNNAMED
    notes = (by_hand(_NAMELESS),) if model == _UNNAMED else ()
    needed = (f"pip install {' '.join(code.packages)}",) if code.packages else ()
    whole = labelled_line(Place.PYTHON, program(model, code))
    return Commands(lines=(*needed, whole, *notes, *advised), left_out=left)


def _merge_codes(codes: Sequence[Code]) -> Code:
    """All changes as one; lines and packages that several need are there once."""

    def once(name: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(item for code in codes for item in getattr(code, name)))

    return Code(
        load={name: value for code in codes for name, value in code.load.items()},
        generate={name: value for code in codes for name, value in code.generate.items()},
        model=next((code.model for code in codes if code.model), ""),
        beside=tuple(line for code in codes for line in code.beside),
        before=once("before"),
        after=once("after"),
        imports=once("imports"),
        packages=once("packages"),
    )


def _fragments(code: Code) -> Iterator[str]:
    model = repr(code.model) if code.model else "..."
    loaded = _call("AutoModelForCausalLM.from_pretrained", [model], code.load)
    generated = [_call("model.generate", ["..."], code.generate)] if code.generate else []
    lines = [*code.before, *([loaded] if code.load or code.model else []), *code.after, *generated]
    yield from (labelled_line(Place.PYTHON, line) for line in dict.fromkeys(lines))
    yield from code.beside
    if code.packages:
        yield by_hand(f"it needs a package: pip install {' '.join(code.packages)}")


def program(model: str, code: Code) -> str:
    """The text of a program that loads a model and generates with it."""
    return "\n".join(
        [
            "import torch",
            f"from transformers import {', '.join(sorted({'AutoModelForCausalLM', 'AutoTokenizer', *code.imports}))}",
            "",
            *code.before,
            f"tokenizer = AutoTokenizer.from_pretrained({model!r})",
            _call("model = AutoModelForCausalLM.from_pretrained", [repr(model)], code.load),
            *code.after,
            'inputs = tokenizer("Once upon a time", return_tensors="pt").to(model.device)',
            "with torch.inference_mode():",
            _call("    tokens = model.generate", ["**inputs", "max_new_tokens=64"], code.generate),
            "print(tokenizer.decode(tokens[0], skip_special_tokens=True))",
        ]
    )


def _call(function: str, first: Sequence[str], named: Mapping[str, str]) -> str:
    return f"{function}({', '.join([*first, *(f'{name}={value}' for name, value in named.items())])})"


def _weights_type(value: Setting, wanted: ChangeRequest) -> _Answer:
    if value not in ("float32", "float16", "bfloat16", "auto"):
        return f"weights can't be loaded as {value}"
    found = re.match(r"(\d{1,3})\.(\d{1,4})", wanted.runtime.version.value_or(""))
    old = found is not None and (int(found[1]), int(found[2])) < _DTYPE_ARGUMENT
    return Code({"torch_dtype" if old else "dtype": '"auto"' if value == "auto" else f"torch.{value}"})


def _attention(value: Setting, _wanted: ChangeRequest) -> _Answer:
    if not _ATTENTION.fullmatch(str(value)):
        return f"{value!r} is not the name of a kernel"
    packages = ("flash-attn",) if value == "flash_attention_2" else ()
    return Code({"attn_implementation": f'"{value}"'}, packages=packages)


def _cache_type(value: Setting, wanted: ChangeRequest) -> _Answer:
    if value in (None, "f16", "bf16"):
        return Code()
    if value not in _QUANTISED:
        return f"Transformers has no {value} KV cache"
    if wanted.changes.get(Knob.CACHE, "quantized") != "quantized" or wanted.changes.get(Knob.COMPILE):
        return "a quantized KV cache does not work with a compiled model"
    backend, bits = _QUANTISED[str(value)]
    config = f'{{"backend": "{backend}", "nbits": {bits}}}'
    generate = {"cache_implementation": '"quantized"', "cache_config": config}
    return Code(generate=generate, packages=(_PACKAGES[backend],))


def _compile(value: Setting, wanted: ChangeRequest) -> _Answer:
    """Compiled code wants a cache that keeps its size."""
    if not value:
        return Code(generate={"disable_compile": "True"})
    if wanted.changes.get(Knob.CACHE, "static") not in ("static", "dynamic"):
        return "compiled code needs a static cache"
    line = 'model.forward = torch.compile(model.forward, mode="reduce-overhead", fullgraph=True)'
    generate = {"cache_implementation": '"static"', "disable_compile": "True"}
    return Code(generate=generate, after=(line,), beside=("transformers serve --compile",))


def _device(value: Setting, _wanted: ChangeRequest) -> _Answer:
    if value is None:
        return Code({"device_map": '"cuda:N"'}, missing="the device is unknown")
    named = re.fullmatch(r"(?i)(?:cuda:?|rocm:?)?(\d{1,3})", str(value))
    places = {"cpu": "cpu", "mps": "mps", "cuda": "cuda", "auto": "auto", "none": "cpu"}
    place = f"cuda:{named[1]}" if named else places.get(str(value).lower(), "")
    return Code({"device_map": f'"{place}"'}, packages=("accelerate",)) if place else f"{value!r} is not a device"


def _layers(value: Setting, wanted: ChangeRequest) -> _Answer:
    if Knob.DEVICE in wanted.changes:
        return Code()
    if value not in (None, -1, 0):
        return 'Transformers counts bytes, not layers: `device_map="auto"` with `max_memory`'
    return _device("cpu" if value == 0 else "cuda", wanted)


def _quant(value: Setting, wanted: ChangeRequest) -> _Answer:
    """Made while the weights are loaded; any other quant is another checkpoint."""
    if Knob.MODEL_FILE in wanted.changes:
        return Code()
    packed = wanted.runtime.compute.quantization.value_or("") == "bitsandbytes"
    argument = _BITS.get("4bit" if value is None and not packed else str(value).lower())
    if argument is None:
        kind = value or "AWQ or GPTQ"
        line = by_hand(f"load a checkpoint of this model as {kind}")
        return Advice([line], f"no checkpoint of this model as {kind} is known")
    config = f"BitsAndBytesConfig({argument}=True)"
    return Code({"quantization_config": config}, imports=("BitsAndBytesConfig",), packages=("bitsandbytes",))


def _is_known_model(value: Setting, wanted: ChangeRequest) -> bool:
    return is_absolute_path(str(value)) or str(value) in wanted.at_hand.listed


def _drafting(value: Setting, wanted: ChangeRequest) -> _Answer:
    if not value or value == "none":
        return Code()
    if not _is_known_model(value, wanted):
        return _UNSEEN.format(value=value)
    line = f"draft = AutoModelForCausalLM.from_pretrained({str(value)!r}, device_map=model.device)"
    return Code(generate={"assistant_model": "draft"}, after=(line,), packages=("accelerate",))


_TURNS: Mapping[Knob, _Turn] = {
    Knob.MODEL_FILE: lambda value, wanted: (
        Code(model=str(value)) if _is_known_model(value, wanted) else _UNSEEN.format(value=value)
    ),
    Knob.QUANT: _quant,
    Knob.WEIGHTS_TYPE: _weights_type,
    Knob.ATTENTION: _attention,
    # by itself attention is PyTorch's, which has a flash kernel of its own
    Knob.FLASH_ATTENTION: lambda value, wanted: (
        Code()
        if Knob.ATTENTION in wanted.changes
        else _attention("sdpa" if value is None else "flash_attention_2" if value else "eager", wanted)
    ),
    Knob.CACHE: lambda value, _wanted: (
        Code(generate={} if value == "dynamic" else {"cache_implementation": f'"{value}"'})
        if value in ("dynamic", "static", "offloaded", "offloaded_static", "quantized")
        else f"Transformers has no {value} cache"
    ),
    Knob.KV_CACHE_TYPE: _cache_type,
    Knob.COMPILE: _compile,
    Knob.GRAPHS: _compile,
    Knob.DEVICE: _device,
    Knob.GPU_LAYERS: _layers,
    Knob.SPECULATIVE: _drafting,
    Knob.THREADS: lambda value, _wanted: (
        Code(before=(f"torch.set_num_threads({value})",), beside=(f"OMP_NUM_THREADS={value} python ...",))
        if writer.is_integer(value) and value > 0
        else f"{value!r} is not a number of threads"
    ),
    Knob.PROMPT_CACHE: lambda value, _wanted: Code(generate={"use_cache": str(value is not False)}),
    Knob.CONTEXT_LENGTH: lambda _value, _wanted: "the cache of Transformers is as long as each conversation",
    Knob.GPU_BACKEND: writer.advice(
        by_hand("install torch for CUDA or ROCm: a build without either says +cpu in `torch.__version__`")
    ),
    Knob.THINKING: writer.advice(
        labelled_line(Place.PYTHON, "tokenizer.apply_chat_template(..., enable_thinking=False)")
    ),
}
