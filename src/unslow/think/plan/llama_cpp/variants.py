"""The files of one model that a plan may choose among, from the finest to the coarsest."""

from typing import NamedTuple

from unslow.facts.blueprint import Blueprint
from unslow.think.plan.llama_cpp.pieces import Pieces


class Variant(NamedTuple):
    """The model in one quant."""

    quant: str
    pieces: Pieces
    parameters: int
    file: str = ""
    """Where it lies; empty where the user does not have it."""
    given: bool = False
    """Whether it is the one that runs, or that the user named."""
    at_hand: bool = False
    """Whether the user has it, or has no file at all and can take any."""
    whole: bool = False
    """Whether it is here because all of it fits onto the GPUs, and no usual one does."""

    @property
    def blueprint(self) -> Blueprint:
        """Down to its tensors."""
        return self.pieces.blueprint
