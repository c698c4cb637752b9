"""Lines about a context: its parameters, flash attention, the splits of its graph, the slots of a server."""

import re

from unslow.facts.values import reported
from unslow.look.logs.llama_cpp.state import Reading, Rule

_PARAMETERS = {
    "n_ctx": "context_length",
    "n_ctx_seq": "context_per_slot",
    "n_ctx_per_seq": "context_per_slot",
    "n_batch": "batch",
    "n_ubatch": "ubatch",
    "n_seq_max": "slots",
}
_MOST_DIGITS = 12  # so that every count fits its fact


def _parameter(reading: Reading, found: re.Match[str], where: str) -> None:
    """A parameter seen twice belongs to the next context."""
    name, value = found[1], found[2]
    model = reading.load.current
    if name in model.context.parameters:
        model.next_context()
    model.context.parameters.add(name)
    facts = model.context.facts
    if name in _PARAMETERS and value.isascii() and value.isdecimal() and len(value) <= _MOST_DIGITS:
        facts[_PARAMETERS[name]] = reported(int(value), where)
    elif name == "kv_unified":
        facts["kv_unified"] = reported(value in ("true", "1"), where)
    elif name == "flash_attn" and value != "auto":
        facts["flash_attention"] = reported(value in ("enabled", "1"), where)


def _flash_attention(reading: Reading, found: re.Match[str], where: str) -> None:
    off = found["off"] is not None
    reading.load.current.context.facts["flash_attention"] = reported(not off, where)


def _splits(reading: Reading, found: re.Match[str], where: str) -> None:
    """Those of one token at a time; prompts, which come first in the line, have more."""
    reading.load.current.context.facts["graph_splits"] = reported(int(found[2] or found[3] or found[1]), where)


def _slots(reading: Reading, found: re.Match[str], where: str) -> None:
    """The server's own count; n_seq_max can be larger."""
    facts = reading.load.facts
    facts["slots"] = reported(int(found[1]), where)
    if found[2]:
        facts["context_per_slot"] = reported(int(found[2]), where)
    if found[3]:
        facts["kv_unified"] = reported(found[3] == "true", where)


_PARAMETER = "(n_seq_max|n_ctx|n_ctx_seq|n_ctx_per_seq|n_batch|n_ubatch|flash_attn|kv_unified)"
_CONTEXTS = ("llama_context", "llama_init_from_model", "llama_new_context_with_model", "llama_model_load_internal")
RULES = (
    *(Rule(f"{prefix}: ", re.compile(rf"\b{prefix}:\s+{_PARAMETER}\s*=\s*(\S+)"), _parameter) for prefix in _CONTEXTS),
    Rule(
        "Flash Attention ",
        re.compile(
            r"Flash Attention (?:(?:was auto, set to )?enabled|(?P<off>(?:not supported|was auto), set to disabled))"
        ),
        _flash_attention,
    ),
    Rule(
        "flash_attn ",
        re.compile(r"(?:enabling flash_attn since|flash_attn (?P<off>(?:requires|is not compatible).* forcing off))"),
        _flash_attention,
    ),
    Rule(
        "splits = ",
        re.compile(r"\bsplits = (\d{1,12})(?: / (\d{1,12})| \(with bs=\d+\), (\d{1,12}) \(with bs=1\))?"),
        _splits,
    ),
    Rule(
        "n_slots = ",
        re.compile(r"n_slots = (\d{1,12})(?:, n_ctx_slot = (\d{1,12}))?(?:.*kv_unified = '(\w+)')?"),
        _slots,
    ),
)
