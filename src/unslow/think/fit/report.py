"""The versioned answer of `unslow fit`: these fields are a promise to whoever reads the JSON."""

from typing import Literal

import msgspec

SCHEMA = "unslow.fit/1"
Verdict = Literal["fits", "tight", "partly", "does_not_fit", "cannot_tell"]
"""tight: it fits, and leaves less free than the margin. partly: some layers fit the GPUs, the others the host."""


class ModelShown(msgspec.Struct, frozen=True, kw_only=True):
    """The model in question."""

    name: str
    architecture: str
    quant: str
    source: str
    parameters: int
    weights_bytes: int
    file_bytes: int
    layers: int
    context_trained: int
    stands_for: str = ""  # The model that was named, where this one of the same shape was computed
    estimated_as: str = ""  # The mix that stands for a quant whose tensors do not follow from its name
    size_off: float = 0.0  # How far the weights may then be off, as a share


class MemoryShown(msgspec.Struct, frozen=True, kw_only=True):
    """A device's memory, or the host's: what the model asks of it, and what is there."""

    name: str
    weights_bytes: int
    kv_bytes: int
    compute_bytes: int
    total_bytes: int  # Weights, keys and values, and compute together
    free_bytes: int | None  # What stays free with the model loaded; None where the size of the memory is unknown
    fits: bool | None
    lacking_bytes: int = 0  # What is missing for it to fit at all
    capacity_bytes: int | None = None
    others_bytes: int = 0  # In use by other processes
    reserve_bytes: int = 0  # What the driver keeps, and the runtime's own context
    margin_bytes: int = 0

    @property
    def usable_bytes(self) -> int | None:
        """What others and the driver leave; None where its size is unknown."""
        if self.capacity_bytes is None:
            return None
        return max(0, self.capacity_bytes - self.others_bytes - self.reserve_bytes)


class WayShown(msgspec.Struct, frozen=True, kw_only=True):
    """Something that would fit, and how to ask for it."""

    what: str
    command: str = ""
    commands: tuple[str, ...] = ()  # In lines, each with the label of its place (facts.placed), where it takes several


class QuantShown(msgspec.Struct, frozen=True, kw_only=True):
    """A smaller quant that fits."""

    name: str
    weights_bytes: int
    gpu_bytes: int


class RuleShown(msgspec.Struct, frozen=True, kw_only=True):
    """What the rule of thumb of the guides says."""

    text: str
    says_bytes: int
    says_fits: bool | None
    needs_bytes: int  # What is really needed on GPUs and host together, for comparison


class KvShown(msgspec.Struct, frozen=True, kw_only=True):
    """Layers whose part of the cache is alike."""

    what: str
    layers: int
    cells: int
    bytes: int


class FitReport(msgspec.Struct, frozen=True, kw_only=True):
    """The whole answer."""

    schema: str = SCHEMA
    unslow_version: str
    model: ModelShown
    runtime: str
    settings: dict[str, str | int | bool]
    verdict: Verdict
    fits: bool | None  # With the placement that was asked for; None where the host's memory decides and is not known
    devices: tuple[MemoryShown, ...]
    host: MemoryShown
    gpu_layers: int  # In the count of llama.cpp: the repeating layers, and the output as one more
    all_gpu_layers: int
    max_gpu_layers: int | None
    max_context: int | None  # The most tokens that fit with this placement, up to what the model was trained for
    kv: tuple[KvShown, ...] = ()
    next_quant: QuantShown | None = None  # The largest usual quant below this one with which everything fits
    least_cpu_moe: int | None = None  # The fewest layers whose experts stay on the host so that the rest fits the GPUs
    command: str = ""  # How to run it: as asked, or partly on the host where it fits so; empty where it does not fit
    commands: tuple[str, ...] = ()  # In lines, each with the label of its place (facts.placed), where it takes several
    ways: tuple[WayShown, ...] = ()  # What would fit, where this does not
    rule_of_thumb: RuleShown | None = None
    notes: tuple[str, ...] = ()
