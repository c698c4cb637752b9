"""A model down to its tensors: the names, types and shapes that memory is counted from."""

import re
from functools import cached_property
from typing import NamedTuple

import msgspec

from unslow.facts.model_bounds import LEAST_CONTEXT, MOST_LAYERS, check_metadata

_LAYER = re.compile(r"blk\.(\d{1,4})\.")
_LARGEST = 2**53

Value = str | int | float | bool | list[int]


def _whole(number: float) -> int:
    """A count as a file may claim it, brought into what a count can be."""
    return int(min(max(number, 0), _LARGEST))


class Tensor(NamedTuple):
    """One tensor; `shape` has the length of a row first, as GGUF has it, and `bytes` is without padding."""

    name: str
    type: str
    """The name of a ggml type, such as `Q4_K`."""
    shape: tuple[int, ...]
    bytes: int


class Blueprint(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """What a model consists of, from a file's header or made up from a well-known shape."""

    architecture: str
    metadata: dict[str, Value]
    """By the keys of GGUF, such as `llama.block_count`; without long arrays."""
    tensors: list[Tensor]
    vocabulary: int = 0
    """0 where nothing tells; then the token table does."""
    file_bytes: int = 0
    """0 where there is no file."""

    def check(self) -> None:
        """ValueError where it can't be a model that runs; to be asked once, of whatever a stranger wrote."""
        check_metadata(self.architecture, self.metadata)
        if not self.tensors:
            raise ValueError("holds no weights (vocabulary only)")
        if empty := next((t for t in self.tensors if not all(t.shape) or not t.shape), None):
            raise ValueError(f"has a tensor without elements: {empty.name[:64]!r}")
        if 0 < self.count("context_length", LEAST_CONTEXT) < LEAST_CONTEXT:
            raise ValueError(f"is for a context of 1 token; a prompt and an answer need {LEAST_CONTEXT}")
        if 0 < self.count("block_count") <= self.count("nextn_predict_layers"):
            raise ValueError("has no layers but those that only predict further tokens (nextn_predict_layers)")

    def number(self, key: str, default: float = 0) -> float:
        """The architecture's number of that key (`block_count`); of one for each layer, the largest."""
        value = self.metadata.get(f"{self.architecture}.{key}", default)
        if isinstance(value, list):
            return max(value, default=default)
        return default if isinstance(value, str) else value

    def count(self, key: str, default: int = 0) -> int:
        """As `number`, where it can only be whole and not negative."""
        return _whole(self.number(key, default))

    def per_layer(self, key: str, layers: int, default: int = 0) -> list[int]:
        """The architecture's number of that key for each layer."""
        value = self.metadata.get(f"{self.architecture}.{key}", default)
        if isinstance(value, list):
            known = [_whole(n) for n in value[:layers]]
            return [*known, *[known[-1] if known else default] * (layers - len(known))]
        return [default if isinstance(value, str) else _whole(value)] * layers

    @cached_property
    def by_name(self) -> dict[str, Tensor]:
        """The tensors by name."""
        return {t.name: t for t in self.tensors}

    @cached_property
    def layer_tensors(self) -> list[list[Tensor]]:
        """The tensors of each repeating layer, named without `blk.N.`."""
        layers: list[list[Tensor]] = [[] for _ in range(min(self.count("block_count"), MOST_LAYERS))]
        for tensor in self.tensors:
            match = _LAYER.match(tensor.name)
            if match and int(match[1]) < len(layers):
                layers[int(match[1])].append(tensor._replace(name=tensor.name[match.end() :]))
        return layers
