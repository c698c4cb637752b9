"""What llama.cpp knows of an architecture beyond what a model's file says."""

from functools import cache

import msgspec

from unslow.catalog import entries


class Architecture(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An architecture's habits; the tensors of a file tell the rest."""

    source: str
    window: int = 0
    """The sliding window where the file gives none."""
    window_period: int = 0
    """Of so many layers, one attends to everything; 0 where the file must say it."""
    window_full_first: bool = False
    """Whether that one is the first of the period, else the last."""
    window_layers_from: int = 0
    """From so many layers on a model has windows at all (EXAONE 4: only the large one)."""
    ignores_window: bool = False
    """Whether llama.cpp attends to everything whatever the file says."""
    layers_with_cache: int = 0
    """How many layers, from the first, have a cache of their own; the others read theirs. 0 for all."""
    norm: str = "rms_norm"
    parallel: bool = False
    """Whether attention and feed-forward read the same input, and their results are added together."""
    positions: int = 1
    """Position numbers for each token (4 where images have places too)."""
    recurrent_period: int = 0
    """Of so many layers, the last one attends and the others keep a state; 0 where the file's heads tell."""
    both_kinds: bool = False
    """Whether each layer has attention and a state side by side (Falcon H1)."""
    picks_outputs_last: bool = False
    """Whether every token goes through the whole last layer, wanted or not, for drafts of further tokens."""
    scales_embeddings: bool = False
    scales_queries: bool = False
    squares: bool = False
    """Whether the activation is a squared one (ReLU squared)."""
    gating: int = 1
    """How a router turns its scores into weights: 1 softmax, 2 sigmoid, 3 softmax over the chosen ones."""
    weighs_experts_first: bool = False
    """Whether the input of an expert is weighted, and not its result (Llama 4)."""
    normalises_weights: bool = True
    """Whether the weights of the chosen experts are made to add up to one."""


_PLAIN = Architecture(source="nothing is known of it: its tensors must tell")


@cache
def _architectures() -> dict[str, Architecture]:
    return {name.replace("_", "-"): value for name, value in entries("architectures", Architecture)}


def architecture(name: str) -> Architecture:
    """What is known of an architecture by its GGUF name; a plain one where nothing is."""
    return _architectures().get(name.replace("_", "-"), _PLAIN)
