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
_TEXTS = {"arch": "architecture", "general.name": "name"}
_SCALES = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}
_SIZES = {"KiB": 1024, "MiB": MIB, "GiB": GIB}
_MOST_COUNT = 2**53
_MOST_BYTES = 2**60
_LETTERS = {"Small": "S", "Medium": "M", "Large": "L"}
_IRREGULAR = {"Q2_K - Medium": "Q2_K", "IQ3_S mix - 3.66 bpw": "IQ3_M", "MXFP4 MoE": "MXFP4_MOE"}


def parse_file_type(text: str) -> str:
    """The short name of a quant as llama.cpp describes it: `Q4_K - Medium` is Q4_K_M, `IQ4_NL - 4.5 bpw` is IQ4_NL."""
    text = text.replace("(guessed)", "").removeprefix("all ").strip()
    if text in _IRREGULAR:
        return _IRREGULAR[text]
    name, _, rest = text.partition(" - ")
    letter = _LETTERS.get(rest, "")
    return f"{name}_{letter}" if letter else name


def _described(reading: Reading, found: re.Match[str], where: str) -> None:
    name, value = found[1], found[2].strip()
    facts = reading.load.current.model
    if name in _COUNTS and value.isdigit() and int(value) < _MOST_COUNT:
        facts[_COUNTS[name]] = reported(int(value), where)
    elif name in _TEXTS and value:
        facts[_TEXTS[name]] = reported(value, where)
    elif name in ("file type", "model ftype"):
        facts["quant"] = reported(parse_file_type(value), where)


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


_PREFIX = r"\b(?:print_info|llm_load_print_meta):\s+"
_NUMBER = r"(\d{1,15}(?:\.\d{1,6})?)"
RULES = (
    Rule("print_", re.compile(_PREFIX + r"([\w.]+|file type|model ftype)\s+= (.+)"), _described),
    Rule("size ", re.compile(_PREFIX + rf"(?:file|model) size\s+= {_NUMBER} ([KMG]iB)"), _size),
    Rule("model params", re.compile(_PREFIX + rf"model params\s+= {_NUMBER} ([KMBT])\b"), _parameters),
)
