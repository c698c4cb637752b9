"""What a plan for llama.cpp is asked for, and what runs now."""

from typing import NamedTuple

from unslow.think.hardware import Hardware
from unslow.think.memory.llama_cpp.settings import Settings
from unslow.think.plan.goal import Goal
from unslow.think.plan.llama_cpp.abilities import EVERYTHING, Abilities
from unslow.think.plan.llama_cpp.pieces import Pieces
from unslow.think.plan.llama_cpp.variants import Variant


class Draft(NamedTuple):
    """A small model that guesses ahead."""

    name: str
    pieces: Pieces
    file: str = ""
    tokens: int = 4
    """That it guesses at a time."""


class Current(NamedTuple):
    """What runs now, as far as it is known."""

    settings: Settings
    threads: int
    whole: int = 0
    apart: int = 0
    pinned: bool = False
    """Whether its weights with the host lie in memory that a GPU copies from directly."""

    def split(self, layers: int, gpus: int) -> tuple[int, ...]:
        """How many layers each GPU has, where all have about as many."""
        held = 0 if not gpus else layers + 1 - self.whole if self.whole < layers else 0
        return tuple(held // gpus + (n < held % gpus) for n in range(gpus))


class Question(NamedTuple):
    """What a plan is asked for."""

    variants: tuple[Variant, ...]
    """From the finest to the coarsest; one of them is the given one."""
    hardware: Hardware
    goal: Goal
    margin_bytes: int
    threads: int
    abilities: Abilities = EVERYTHING
    current: Current | None = None
    draft: Draft | None = None
    runtime: str = "llama.cpp"
    """That it is for, by its own name: llama.cpp, or what is built on it."""
    shared_slots: int = 0
    """Slots of what runs that share one cache, and stay as they are; 0 where each conversation has its own."""

    @property
    def given(self) -> Variant:
        """The file that runs, or that the user named."""
        return next(variant for variant in self.variants if variant.given)
