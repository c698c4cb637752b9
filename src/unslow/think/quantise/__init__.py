"""The type that each tensor of a model gets in a mix, as llama-quantize picks it."""

from unslow.think.quantise.choose import types_of

__all__ = ["types_of"]
