"""What changes when a cause is gone, and the knob that a person turns to get there."""

from typing import NamedTuple

from unslow.facts.knob import Change

ALL_BYTES = 1e18


class Cure(NamedTuple):
    """What changes when a cause is gone; None leaves the fact as it is. An empty cure is the case as configured."""

    vram_bytes: float | None = None
    """This much memory for the runtime, which places the model again: output, layers, experts."""
    only_own_memory: bool | None = None
    """The driver lends a GPU nothing of the host's: the runtime places what fits, and the CPU computes the rest."""
    context: float | None = None  # A context of this many tokens
    threads: float | None = None  # This many threads
    quota_cpus: float | None = None  # The time of at least this many CPUs for its control group
    flash_attention: bool | None = None  # Attention in one fused kernel
    kv_on_gpu: bool | None = None  # The KV cache is beside its layers
    output_on_gpu: bool | None = None
    experts_on_gpu: bool | None = None  # As many experts as the GPU has room for
    ubatch: float | None = None  # A micro-batch of this many tokens
    plain_sampling: bool | None = None  # No sort of the whole vocabulary, no grammar, no logprobs
    alone: bool | None = None  # No other process uses the CPUs or the GPU
    best_split: bool | None = None  # Of several GPUs the fastest hold as much of the model as they can
    one_gpu: bool | None = None  # The whole model on one of the GPUs
    by_layers: bool | None = None  # Whole layers on each GPU, where each had a part of every layer
    graphs: bool | None = None  # Launches are recorded and replayed, the model compiled

    def and_also(self, other: "Cure") -> "Cure":
        """Both cures at once, whichever is first: the larger memory and batch, the shorter context, fewer threads."""
        pairs = {
            name: [v for v in (mine, getattr(other, name)) if v is not None] for name, mine in self._asdict().items()
        }
        chosen = {name: _WHERE_BOTH.get(name, max)(values) if values else None for name, values in pairs.items()}
        return Cure(**chosen)


_WHERE_BOTH = {"context": min, "threads": min}
"""Which of two values counts; the larger where nothing is said, and what either switches on is on."""
EVERYTHING = Cure(vram_bytes=ALL_BYTES)  # As if the GPU had all the memory that the model asks for
AS_USUAL = Cure(kv_on_gpu=True, plain_sampling=True, alone=True, graphs=True)
"""Placed and threaded as it is, with nothing else in the way: what a speed is held against to see whether it lacks."""


class Remedy(NamedTuple):
    """A knob to turn, and what physics then calculates with; None where it can't say."""

    change: Change
    cure: Cure | None = None
    risk: str = ""
