"""What several GPUs add: the way from one to the next, or putting every layer's parts together again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from unslow.think.physics.decoding import REFERENCE_WIDTH
from unslow.think.physics.terms import Factor, Factors, Term

if TYPE_CHECKING:
    from unslow.think.physics.numbers import Number

LINK = "link"
LAYER, ROW, TENSOR = "layer", "row", "tensor"
"""How a model is split: whole layers; rows of each matrix, gathered by llama.cpp; or by a runtime made for it."""


def layer_split_terms(gpus: Number, backend: str, weights_s: Number) -> Iterator[Term]:
    """Whole layers on each GPU, one after the other: a crossing between two, and a part that runs less smoothly."""
    yield Term(LINK, gpus - 1, (Factor(f"crossing/{backend}"),))
    yield Term(LINK, (gpus - 1) / gpus * weights_s, (Factor("crossing waste"),))


def tensor_split_terms(gpus: Number, layers: Number, width: Number, split: str, ways: Factors) -> Iterator[Term]:
    """A part of each layer on each GPU: all wait for all, twice a layer, by the ways that they have."""
    others = layers * (gpus - 1)
    yield Term(LINK, layers, (Factor(f"gather/{split}"), *ways))
    yield Term(LINK, others, (Factor(f"gather each/{split}"), *ways))
    yield Term(LINK, others * width / REFERENCE_WIDTH, (Factor(f"gather wide/{split}"), *ways))


def ways_between(*, peers: bool, linked: bool) -> Factors:
    """What makes gathering slower or faster: GPUs that can't talk directly, or that have links of their own."""
    return (Factor("linked"),) if linked else () if peers else (Factor("no peers"),)


def offload_terms(crossings: Number, backend: str) -> Iterator[Term]:
    """Between layers on a GPU and layers on the CPU: each crossing waits for the other side."""
    yield Term(LINK, crossings, (Factor(f"host crossing/{backend}"),))
