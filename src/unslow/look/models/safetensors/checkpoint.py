"""A model in safetensors files: its tensors, its config, and what follows from them."""

from collections import Counter
from functools import cached_property

import msgspec

from unslow.facts.blueprint import Tensor
from unslow.look.models.hf_config import Config, Quantization, parse_quantization
from unslow.look.models.safetensors.packed import parameters_in, type_name


class Part(msgspec.Struct, frozen=True):
    """One file of a checkpoint."""

    path: str
    bytes: int


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The headers of a model in safetensors files, and its config."""

    path: str
    parts: list[Part]
    tensors: list[Tensor]
    """With the types' names of the format, such as BF16 and F8_E4M3."""
    config: Config = {}
    """`config.json` without what is long; empty where there is none."""
    quant_types: dict[str, str] = {}
    """Of single tensors, where the files themselves name them (Ollama's MLX models)."""

    @property
    def file_bytes(self) -> int:
        """All parts together."""
        return sum(p.bytes for p in self.parts)

    @cached_property
    def weights_bytes(self) -> int:
        """All tensors together."""
        return sum(t.bytes for t in self.tensors)

    @cached_property
    def quantization(self) -> Quantization | None:
        """How the weights are quantised; None where they are not."""
        return parse_quantization(self.config) or _noted(self.quant_types)

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of the tensors."""
        return frozenset(t.name for t in self.tensors)

    @cached_property
    def parameters(self) -> int | None:
        """Weights, counted after unpacking; None where nothing tells how they are packed."""
        counts = [parameters_in(t, self.quantization, self.names) for t in self.tensors]
        return sum(n or 0 for n in counts) if None not in counts else None

    @cached_property
    def type_bytes(self) -> dict[str, int]:
        """Bytes by type, the largest first: BF16, F8_E4M3, `I32 packed 4-bit`."""
        types: Counter[str] = Counter()
        for tensor in self.tensors:
            types[type_name(tensor, self.quantization, self.names)] += tensor.bytes
        return dict(types.most_common())


_NOTED_BITS = {"nvfp4": 4, "mxfp4": 4, "int4": 4, "mxfp8": 8, "int8": 8}  # ollama, x/quant/quant.go


def _noted(quant_types: dict[str, str]) -> Quantization | None:
    if not quant_types:
        return None
    most, _ = Counter(quant_types.values()).most_common(1)[0]
    bits = {name.rpartition(".")[0]: _NOTED_BITS.get(kind.lower(), 0) for name, kind in quant_types.items()}
    return Quantization(method="mlx", name=most.upper(), bits=_NOTED_BITS.get(most.lower(), 0), override_bits=bits)
