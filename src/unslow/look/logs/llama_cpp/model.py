"""Lines that describe the model: `print_info:` (older builds: `llm_load_print_meta:`)."""

import re

from unslow.facts.units import GIB, MIB
from unslow.facts.values import Known, estimated, reported
from unslow.look.logs.llama_cpp.state import Reading, Rule

_COUNTS = {
    "n_layer": "layers",
    "n_head": "heads",
    "n_head_kv": "kv_heads",
    "n_embd": "width",
    "n_embd_head_k": "key_length",
    "n_embd_head_v": "value_length",
    "n_vocab": "vocabulary",
    "n_ctx_train": "context_trained",
    "n_expert": "experts",
    "n_expert_used": "experts_used",
    "n_ff_exp": "expert_width",
}
_KEYS = {
    "block_count": "layers",
    "attention.head_count": "heads",
    "attention.head_count_kv": "kv_heads",
    "embedding_length": "width",
    "context_length": "context_trained",
    "expert_count": "experts",
    "expert_used_count": "experts_used",
}
_TEXTS = {"arch": "architecture", "general.name": "name"}
_SCALES = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}
_SIZES = {"KiB": 1024, "MiB": MIB, "GiB": GIB}
_MOST_COUNT = 2**53
_MOST_BYTES = 2**60
_WHOLE = re.compile(r"[0-9]{1,15}")
_LETTERS = {"Small": "S", "Medium": "M", "Large": "L"}
_NUMBERED = re.compile(r"^\d{1,3} \((.{1,60})\)$")  # in 2023: `ftype = 15 (mostly Q4_K - Medium)`
_IRREGULAR = {"Q2_K - Medium": "Q2_K", "IQ3_S mix - 3.66 bpw": "IQ3_M", "MXFP4 MoE": "MXFP4_MOE"}


def parse_file_type(text: str) -> str:
    """The short name of a quant as llama.cpp describes it: `Q4_K - Medium` is Q4_K_M, `IQ4_NL - 4.5 bpw` is IQ4_NL."""
    text = text.replace("(guessed)", "").strip().removeprefix("all ").removeprefix("mostly ").strip()
    if text in _IRREGULAR:
        return _IRREGULAR[text]
    name, _, rest = text.partition(" - ")
    letter = _LETTERS.get(rest, "")
    return f"{name}_{letter}" if letter else name


def _described(reading: Reading, found: re.Match[str], where: str) -> None:
    name, value = found[1], found[2].strip()
    facts = reading.load.current.model
    if name in _COUNTS and _WHOLE.fullmatch(value):
        facts[_COUNTS[name]] = reported(int(value), where)
    elif name in _TEXTS and value:
        facts[_TEXTS[name]] = reported(value, where)
    elif name == "no_alloc":
        reading.load.current.dry = value == "1"
    elif name in ("file type", "model ftype", "ftype"):
        facts["quant"] = reported(parse_file_type(_NUMBERED.sub(r"\1", value)), where)


def _key(reading: Reading, found: re.Match[str], where: str) -> None:
    """A line of the file's own keys; the lines of `print_info` that follow say the same with more care."""
    _, _, name = found[1].partition(".")
    value, facts = found[2].strip(), reading.load.current.model
    if name in _KEYS and _WHOLE.fullmatch(value):
        facts.setdefault(_KEYS[name], reported(int(value), where))
    elif found[1] == "general.name" and value:
        facts.setdefault("name", reported(value, where))
    elif found[1] == "general.architecture" and value:
        facts.setdefault("architecture", reported(value, where))


def _size(reading: Reading, found: re.Match[str], where: str) -> None:
    """Printed with two digits, so an estimate."""
    size = float(found[1]) * _SIZES[found[2]]
    if size < _MOST_BYTES:
        reading.load.current.model["weights_bytes"] = estimated(round(size), where)


def _parameters(reading: Reading, found: re.Match[str], where: str) -> None:
    count = float(found[1]) * _SCALES[found[2]]
    if count < _MOST_COUNT:
        fact: Known[int] = estimated(round(count), where)
        reading.load.current.model["parameters"] = fact


_PREFIX = r"\b(?:print_info|llm_load_print_meta|llama_model_load_internal):\s+"
_NUMBER = r"(\d{1,15}(?:\.\d{1,6})?)"
_DESCRIBED = re.compile(_PREFIX + r"([\w.]+|file type|model ftype)\s+= (.+)")
_SIZE = re.compile(_PREFIX + rf"(?:file|model) size\s+= {_NUMBER} ([KMG]iB)")
RULES = (
    Rule("- kv ", re.compile(r"- kv\s+\d{1,4}:\s+([\w.-]{1,100}) \w{1,16}\s+= (.{1,400})"), _key),
    Rule("print_info: ", _DESCRIBED, _described),
    Rule("llm_load_print_meta: ", _DESCRIBED, _described),
    Rule("llama_model_load_internal: ", _DESCRIBED, _described),
    Rule("file size ", _SIZE, _size),
    Rule("model size ", _SIZE, _size),
    Rule("model params", re.compile(_PREFIX + rf"model params\s+= {_NUMBER} ([KMBT])\b"), _parameters),
)
