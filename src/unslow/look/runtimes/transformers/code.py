"""Many changes at once as a program: loading and generating with Transformers, as a whole that runs."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from unslow.facts.knob import Change, Knob, Setting
from unslow.facts.placed import Place, labelled
from unslow.facts.runtime import Runtime
from unslow.facts.spelled import Spelled
from unslow.look.at_hand import NOTHING, AtHand
from unslow.look.paths import is_absolute

_UNNAMED = "MODEL"
_NAMELESS = f"{_UNNAMED} stands for the folder of the model, or its name in the hub"
_DTYPE_ARGUMENT = (4, 56)  # before, it is `torch_dtype`
_TYPES = ("float32", "float16", "bfloat16")
_CACHES = ("dynamic", "static", "offloaded", "offloaded_static", "quantized")
_QUANTISED = {"q8_0": ("hqq", 8), "q4_0": ("quanto", 4)}
"""The library and the bits of a cache: quanto has four bits and fewer, hqq eight too."""
_PACKAGES = {"hqq": "hqq", "quanto": "optimum-quanto"}
_BITS = {"nf4": "load_in_4bit", "4bit": "load_in_4bit", "8bit": "load_in_8bit", "int8": "load_in_8bit"}
_ATTENTION = re.compile(r"[a-z][\w-]{1,40}(?:/[\w.-]{1,80})?")


class Code(NamedTuple):
    """What a change adds to the program."""

    load: Mapping[str, str] = {}
    """Arguments of loading."""
    generate: Mapping[str, str] = {}
    """Arguments of generating."""
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    """Lines before the model is loaded, and after."""
    imports: tuple[str, ...] = ()
    """Names of Transformers that it needs."""
    model: str = ""
    packages: tuple[str, ...] = ()


class _Wanted(NamedTuple):
    changes: Mapping[Knob, Setting]
    runtime: Runtime
    at_hand: AtHand


_Turn = Callable[[Setting, _Wanted], Code | str]


def spell_all(changes: Sequence[Change], runtime: Runtime, at_hand: AtHand = NOTHING) -> Spelled:
    """One program with all changes."""
    wanted = _Wanted({change.knob: change.value for change in changes}, runtime, at_hand)
    asked = {change.knob: change for change in changes}.values()
    answers = [(change, _code_of(change, wanted)) for change in asked]
    codes = [answer for _, answer in answers if isinstance(answer, Code)]
    left = tuple((change, answer) for change, answer in answers if isinstance(answer, str))
    if not codes:
        return Spelled(left_out=left)
    model = next((code.model for code in codes if code.model), "") or _model(at_hand)
    packages = list(dict.fromkeys(package for code in codes for package in code.packages))
    needed = (f"pip install {' '.join(packages)}",) if packages else ()
    notes = (labelled(Place.HAND, _NAMELESS),) if model == _UNNAMED else ()
    return Spelled((*needed, labelled(Place.PYTHON, program(model, codes)), *notes), left)


def _code_of(change: Change, wanted: _Wanted) -> Code | str:
    turn = _TURNS.get(change.knob)
    return turn(change.value, wanted) if turn else "Transformers has no setting for it"


def _model(at_hand: AtHand) -> str:
    return at_hand.checkpoint or _UNNAMED


def program(model: str, codes: Sequence[Code]) -> str:
    """The text of a program that loads a model and generates with it."""
    names = sorted({"AutoModelForCausalLM", "AutoTokenizer", *(name for code in codes for name in code.imports)})
    load = {name: value for code in codes for name, value in code.load.items()}
    generate = {name: value for code in codes for name, value in code.generate.items()}
    return "\n".join(
        [
            "import torch",
            f"from transformers import {', '.join(names)}",
            "",
            *dict.fromkeys(line for code in codes for line in code.before),
            f"tokenizer = AutoTokenizer.from_pretrained({model!r})",
            _call("model = AutoModelForCausalLM.from_pretrained", [repr(model), *_arguments(load)]),
            *dict.fromkeys(line for code in codes for line in code.after),
            'inputs = tokenizer("Once upon a time", return_tensors="pt").to(model.device)',
            "with torch.inference_mode():",
            _call("    tokens = model.generate", ["**inputs", "max_new_tokens=64", *_arguments(generate)]),
            "print(tokenizer.decode(tokens[0], skip_special_tokens=True))",
        ]
    )


def _arguments(given: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in given.items()]


def _call(function: str, arguments: Sequence[str]) -> str:
    return f"{function}({', '.join(arguments)})"


def _weights_type(value: Setting, wanted: _Wanted) -> Code | str:
    if value not in (*_TYPES, "auto"):
        return f"weights can't be loaded as {value}"
    found = re.match(r"(\d{1,3})\.(\d{1,4})", wanted.runtime.version.value_or(""))
    old = found is not None and (int(found[1]), int(found[2])) < _DTYPE_ARGUMENT
    return Code({"torch_dtype" if old else "dtype": '"auto"' if value == "auto" else f"torch.{value}"})


def _attention(value: Setting, _wanted: _Wanted) -> Code | str:
    if not _ATTENTION.fullmatch(str(value)):
        return f"{value!r} is not the name of a kernel"
    packages = ("flash-attn",) if value == "flash_attention_2" else ()
    return Code({"attn_implementation": f'"{value}"'}, packages=packages)


def _flash(value: Setting, wanted: _Wanted) -> Code | str:
    """By itself attention is PyTorch's, which has a flash kernel of its own."""
    if Knob.ATTENTION in wanted.changes:
        return Code()
    return _attention("sdpa" if value is None else "flash_attention_2" if value else "eager", wanted)


def _cache(value: Setting, _wanted: _Wanted) -> Code | str:
    if value not in _CACHES:
        return f"Transformers has no cache of the kind {value}"
    return Code() if value == "dynamic" else Code(generate={"cache_implementation": f'"{value}"'})


def _cache_type(value: Setting, wanted: _Wanted) -> Code | str:
    if value in (None, "f16", "bf16"):
        return Code()
    if value not in _QUANTISED:
        return f"Transformers has no cache of {value}"
    if wanted.changes.get(Knob.CACHE, "quantized") != "quantized" or wanted.changes.get(Knob.COMPILE):
        return "a quantised cache is a kind of its own, and no compiled model takes it"
    backend, bits = _QUANTISED[str(value)]
    config = f'{{"backend": "{backend}", "nbits": {bits}}}'
    generate = {"cache_implementation": '"quantized"', "cache_config": config}
    return Code(generate=generate, packages=(_PACKAGES[backend],))


def _compile(value: Setting, wanted: _Wanted) -> Code | str:
    """Compiled code wants a cache that keeps its size."""
    if not value:
        return Code(generate={"disable_compile": "True"})
    if wanted.changes.get(Knob.CACHE, "static") not in ("static", "dynamic"):
        return "compiled code needs a static cache"
    line = 'model.forward = torch.compile(model.forward, mode="reduce-overhead", fullgraph=True)'
    return Code(generate={"cache_implementation": '"static"', "disable_compile": "True"}, after=(line,))


def _device(value: Setting, _wanted: _Wanted) -> Code | str:
    """CUDA1 is GPU 1."""
    named = re.fullmatch(r"(?i)(?:cuda:?|rocm:?)?(\d{1,3})", str(value))
    places = {"cpu": "cpu", "mps": "mps", "cuda": "cuda", "auto": "auto", "none": "cpu"}
    place = f"cuda:{named[1]}" if named else places.get(str(value).lower(), "")
    return Code({"device_map": f'"{place}"'}, packages=("accelerate",)) if place else f"{value!r} names no device"


def _layers(value: Setting, wanted: _Wanted) -> Code | str:
    if Knob.DEVICE in wanted.changes:
        return Code()
    places = {None: "cuda", -1: "cuda", 0: "cpu"}
    if value not in places:
        return 'Transformers counts bytes, not layers: `device_map="auto"` with `max_memory`'
    return _device(places[value], wanted)  # type: ignore[index]


def _quant(value: Setting, wanted: _Wanted) -> Code | str:
    """Made while the weights are loaded; any other quant is another checkpoint."""
    if Knob.MODEL_FILE in wanted.changes:
        return Code()
    argument = _BITS.get(str(value).lower())
    if argument is None:
        return f"no checkpoint of this model as {value} was named"
    config = f"BitsAndBytesConfig({argument}=True)"
    return Code({"quantization_config": config}, imports=("BitsAndBytesConfig",), packages=("bitsandbytes",))


def _seen(value: Setting, wanted: _Wanted) -> bool:
    return is_absolute(str(value)) or str(value) in wanted.at_hand.listed


def _model_file(value: Setting, wanted: _Wanted) -> Code | str:
    why = f"{value} is no folder of this machine and no checkpoint that was seen"
    return Code(model=str(value)) if _seen(value, wanted) else why


def _drafting(value: Setting, wanted: _Wanted) -> Code | str:
    if not value or value == "none":
        return Code()
    if not _seen(value, wanted):
        return f"{value} is no folder of this machine and no checkpoint that was seen"
    line = f"draft = AutoModelForCausalLM.from_pretrained({str(value)!r}, device_map=model.device)"
    return Code(generate={"assistant_model": "draft"}, after=(line,), packages=("accelerate",))


def _threads(value: Setting, _wanted: _Wanted) -> Code | str:
    whole = isinstance(value, int) and not isinstance(value, bool) and value > 0
    return Code(before=(f"torch.set_num_threads({value})",)) if whole else f"{value!r} is no number of threads"


def _prompt_cache(value: Setting, _wanted: _Wanted) -> Code | str:
    return Code(generate={"use_cache": str(value is not False)})


def _context(_value: Setting, _wanted: _Wanted) -> Code | str:
    return "the cache of Transformers is as long as each conversation"


_TURNS: Mapping[Knob, _Turn] = {
    Knob.MODEL_FILE: _model_file,
    Knob.QUANT: _quant,
    Knob.WEIGHTS_TYPE: _weights_type,
    Knob.ATTENTION: _attention,
    Knob.FLASH_ATTENTION: _flash,
    Knob.CACHE: _cache,
    Knob.KV_CACHE_TYPE: _cache_type,
    Knob.COMPILE: _compile,
    Knob.GRAPHS: _compile,
    Knob.DEVICE: _device,
    Knob.GPU_LAYERS: _layers,
    Knob.SPECULATIVE: _drafting,
    Knob.THREADS: _threads,
    Knob.PROMPT_CACHE: _prompt_cache,
    Knob.CONTEXT_LENGTH: _context,
}
