"""Settings with which llama.cpp does not start, whatever memory there is."""

from unslow.think.memory.llama_cpp.hyper import Hyper
from unslow.think.memory.llama_cpp.node import block_of
from unslow.think.memory.llama_cpp.settings import Settings

_MOST_SLOTS = 256


def refusal(hyper: Hyper, settings: Settings) -> str:
    """Why llama.cpp refuses to start; empty where it would."""
    key, value = settings.key_type, settings.value_type
    if settings.slots > _MOST_SLOTS:
        return f"llama.cpp has at most {_MOST_SLOTS} slots"
    if hyper.is_latent and key != value:
        return "keys and values of this model lie in one row, so their types can't differ"
    if settings.flash_attention is False:
        return "values can only be quantised with flash attention" if block_of(value)[0] > 1 else ""
    return _uneven(hyper, "key", key) or _uneven(hyper, "value", value)


def _uneven(hyper: Hyper, what: str, kind: str) -> str:
    """Whether a head's row is no multiple of the type's block."""
    block = block_of(kind)[0]
    lengths = {(hyper.key_length if what == "key" else hyper.value_length)(il) for il in range(hyper.all_layers)}
    odd = [n for n in lengths if n % block]
    return f"{kind.lower()} packs {block} numbers, and a head has {max(odd)} {what} numbers" if odd else ""
