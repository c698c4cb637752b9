"""What a plan for llama.cpp is asked for: the files to choose among, what may be set, the goal, and what runs now."""

from typing import NamedTuple

from unslow.facts.model import Blueprint
from unslow.think.hardware import Hardware
from unslow.think.memory.llama_cpp.hyperparameters import Settings
from unslow.think.plan.goal import Goal
from unslow.think.plan.llama_cpp.pieces import Pieces

MICRO_BATCHES = (128, 256, 512, 1024, 2048, 4096)


class Abilities(NamedTuple):
    """All of it, where nothing else is said."""

    apart: bool = True  # Tensors by name, or the experts of some layers
    partly: bool = True  # Some of the matrices of a layer, and not only all of them
    cache_on_host: bool = True
    unmapped: bool = True  # Whether it can be told to load a file into memory, and not to map it
    micro_batches: tuple[int, ...] = MICRO_BATCHES
    fuses: bool | None = None
    """Whether its CUDA keeps what fused kernels read (see scheduler.py); None where the build is not known."""
    cache_types: tuple[str, ...] = ("F16", "Q8_0", "Q4_0")
    mixed_cache: bool = True  # Whether keys may be of another type than values
    rotates: bool = False  # Whether its build is known to rotate quantised keys and values, by which they lose less


EVERYTHING = Abilities()
OLLAMA = Abilities(apart=False, cache_on_host=False, mixed_cache=False)
"""It knows layers, a batch, and a type of cache for all models."""


class Variant(NamedTuple):
    """The model in one quant."""

    quant: str
    pieces: Pieces
    parameters: int
    file: str = ""  # Where it lies; empty where the user does not have it
    given: bool = False  # Whether it is the one that runs, or that the user named
    at_hand: bool = False  # Whether the user has it, or has no file at all and can take any
    whole: bool = False  # Whether it is here because all of it fits onto the GPUs, and no usual one does

    @property
    def blueprint(self) -> Blueprint:
        """Down to its tensors."""
        return self.pieces.blueprint


class Draft(NamedTuple):
    """A small model that guesses ahead."""

    name: str
    pieces: Pieces
    file: str = ""
    tokens: int = 4  # That it guesses at a time


class Current(NamedTuple):
    """What runs now, as far as it is known."""

    settings: Settings
    threads: int
    whole: int = 0
    apart: int = 0
    pinned: bool = False  # Whether its weights on the host lie in memory that a GPU copies from directly

    def split(self, layers: int, gpus: int) -> tuple[int, ...]:
        """How many layers each GPU has, where all have about as many."""
        held = 0 if not gpus else layers + 1 - self.whole if self.whole < layers else 0
        return tuple(held // gpus + (n < held % gpus) for n in range(gpus))


class LlamaPlanQuestion(NamedTuple):
    """What a plan is asked for."""

    variants: tuple[Variant, ...]  # From the finest to the coarsest; one of them is the given one
    hardware: Hardware
    goal: Goal
    margin_bytes: int
    threads: int
    abilities: Abilities = EVERYTHING
    current: Current | None = None
    draft: Draft | None = None
    runtime: str = "llama.cpp"  # That it is for, by its own name: llama.cpp, or what is built on it
    shared_slots: int = 0
    """Slots of what runs that share one cache, and stay as they are; 0 where each conversation has its own."""

    @property
    def given_variant(self) -> Variant:
        """The file that runs, or that the user named."""
        return next(variant for variant in self.variants if variant.given)
