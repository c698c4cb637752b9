"""What a tensor is for, by its name, and where in the model it stands."""

import re
from functools import lru_cache
from typing import Literal, TypeAlias

from unslow.catalog.mixes import Layers, Role

Table: TypeAlias = Literal["output", "token_table"]
_TABLES: dict[str, Table] = {
    "output.weight": "output",
    "token_embd.weight": "token_table",
    "per_layer_token_embd.weight": "token_table",
}
# Values decide what a layer says: matrices that hold them with the queries and keys, or for MLA, count as they do.
_ROLES: dict[str, Role] = {
    "attn_qkv.weight": "attn_v",
    "attn_kv_b.weight": "attn_v",
    "attn_v.weight": "attn_v",
    "attn_k.weight": "attn_k",
    "attn_q.weight": "attn_q",
    "attn_output.weight": "attn_output",
    "ffn_up": "ffn_up",
    "ffn_gate": "ffn_gate",
    "ffn_down": "ffn_down",
}
_NAMED = re.compile("|".join(map(re.escape, _ROLES)))
_LAYER = re.compile(r"blk\.(\d{1,9})\.")


@lru_cache(maxsize=8192)  # the same names come back for each mix that is tried
def role_of(name: str) -> Role | Table | None:
    """What a tensor is for; None for those that no mix tells apart."""
    if name in _TABLES:
        return _TABLES[name]
    found = _NAMED.search(name)
    return _ROLES[found[0]] if found else None


@lru_cache(maxsize=8192)
def layer_of(name: str) -> int:
    """The repeating layer that a tensor belongs to; -1 outside of them."""
    found = _LAYER.match(name)
    return int(found[1]) if found else -1


def by_layer_and_name(name: str) -> tuple[int, str]:
    """What llama-quantize sorts the tensors by before it goes through them."""
    return layer_of(name), name


def is_among(layers: Layers, position: int, total: int) -> bool:
    """Whether a position of so many belongs to the layers that a rule means."""
    eighth, last_eighth = total // 8, 7 * total // 8
    if layers == "both ends and every third":
        return position < eighth or position >= last_eighth or (position - eighth) % 3 == 2  # noqa: PLR2004 (the third)
    if layers == "middle":
        return eighth <= position < last_eighth
    ends = {"all": total, "first two": 2, "first four": 4, "first sixteenth": total // 16, "first eighth": eighth}
    return layers == "all" or position < ends[layers]
