"""What a size in a sentence is the size of."""

import re
from typing import Literal

from unslow.think.claims.amounts import Amount
from unslow.think.claims.phrases import any_of
from unslow.think.claims.said import Said

Role = Literal["device", "host", "layer", "cache", "room", "weights", "need", "other"]
_AROUND = 48
_PER_LAYER = re.compile(r"\s?(?:/|per|a|each|for each|for every)\s?(?:\w+\s)?layer\b")
_CACHE = any_of("kv", "cache", "keys and values")
_ELSE_NEAR = any_of("l[123]", "sram", "activations?", "overhead", "driver", "headroom")
_ELSE_AFTER = re.compile(r"\s?(?:spilled|short|over\b|left|free|headroom)")
_ELSE_BEFORE = re.compile(r"\b(?:spills?|offload\w*|leaves?)\s\S{0,3}$")
_HOST = re.compile(r"\s?(?:of\s)?(?:system\s|host\s|cpu\s)?(?:ram\b|ddr\d|main memory)")
_ROOM_BEFORE = re.compile(
    r"\b(?:fits?|fitting|in(?:to|side)?|within|on|with|for|across)(?:\s(?:an?|the|its|your|only|just|one|single|of|two|~))*\s?~?$"
)
_ROOM_AFTER = re.compile(
    r"[\s-](?:\w+\s)?(?:cards?|gpus?|graphics|macs?|machine|laptop|is (?:enough|plenty|sufficient))\b"
    r"|\s?(?:-|:)\s*_|\s(?:can|could) (?:run|hold|load|fit)"
)
_NEED_BEFORE = re.compile(
    r"\b(?:needs?|requires?|takes?|uses?|wants?|demands?|consumes?|occup\w+|asks? for|minimum|at least)\b[^,;]{0,24}$"
)
_WEIGHTS = any_of("weights?", "files?", "gguf", "download", "on disk", "weighs?", "reads?", "streams?", "per token")
_MEMORY = any_of("v?ram", "memory")


def role_of(said: Said, amount: Amount) -> Role:
    """The role of a size, from the device that it stands in, else from the words around it."""
    holder = next((d for d in said.devices if d.start <= amount.start and amount.end <= d.end), None)
    if holder:
        return "room" if holder.is_class else "device"
    before = said.rest[max(0, amount.start - _AROUND) : amount.start]
    after = said.rest[amount.end : amount.end + _AROUND]
    clause = re.split(r"[,;]\s", before)[-1] + " # " + re.split(r"[,;]\s", after)[0]
    return _of_something_else(said, clause, before, after) or _of_the_model(clause, before, after)


def _of_something_else(said: Said, clause: str, before: str, after: str) -> Role | None:
    if _PER_LAYER.match(after):
        return "layer"
    if _ELSE_NEAR.search(clause) or _ELSE_AFTER.match(after) or _ELSE_BEFORE.search(before):
        return "other"
    only_one = sum(a.kind == "size" for a in said.amounts) == 1
    if _CACHE.search(clause) or (only_one and _CACHE.search(said.rest)):
        return "cache"
    return "host" if _HOST.match(after) else None


def _of_the_model(clause: str, before: str, after: str) -> Role:
    about_weights = bool(_WEIGHTS.search(clause))
    if _NEED_BEFORE.search(before):
        return "weights" if about_weights else "need"
    if _ROOM_BEFORE.search(before) or _ROOM_AFTER.match(after):
        return "room"
    return "need" if _MEMORY.search(clause) and not about_weights else "weights"
