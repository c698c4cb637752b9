"""The versioned answer of `unslow fit`: these fields are a promise to whoever reads the JSON."""

import msgspec

SCHEMA = "unslow.fit/1"


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the answer."""


class ModelShown(Shown, frozen=True, kw_only=True):
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


class MemoryShown(Shown, frozen=True, kw_only=True):
    """A device's memory, or the host's: what the model asks of it, and what is there."""

    name: str
    weights_bytes: int
    kv_bytes: int
    compute_bytes: int
    total_bytes: int
    """Weights, keys and values, and compute together."""
    free_bytes: int | None
    """What stays free with the model loaded; None where the size of the memory is unknown."""
    fits: bool | None
    lacking_bytes: int = 0
    """What is missing, with the margin."""
    capacity_bytes: int | None = None
    others_bytes: int = 0
    """In use by other processes."""
    reserve_bytes: int = 0
    """What the driver keeps, and the runtime's own context."""
    margin_bytes: int = 0


class QuantShown(Shown, frozen=True, kw_only=True):
    """A smaller quant that fits."""

    name: str
    weights_bytes: int
    gpu_bytes: int


class RuleShown(Shown, frozen=True, kw_only=True):
    """What the rule of thumb of the guides says."""

    text: str
    says_bytes: int
    says_fits: bool | None
    needs_bytes: int
    """What is really needed on GPUs and host together, for comparison."""


class KvShown(Shown, frozen=True, kw_only=True):
    """Layers whose part of the cache is alike."""

    what: str
    layers: int
    cells: int
    bytes: int


class FitReport(Shown, frozen=True, kw_only=True):
    """The whole answer."""

    schema: str = SCHEMA
    unslow_version: str
    model: ModelShown
    runtime: str
    settings: dict[str, str | int | bool]
    fits: bool | None
    devices: tuple[MemoryShown, ...]
    host: MemoryShown
    gpu_layers: int
    """In the count of llama.cpp: the repeating layers, and the output as one more."""
    all_gpu_layers: int
    max_gpu_layers: int | None
    max_context: int | None
    """The most tokens that fit with this placement, up to what the model was trained for."""
    kv: tuple[KvShown, ...] = ()
    next_quant: QuantShown | None = None
    rule_of_thumb: RuleShown | None = None
    notes: tuple[str, ...] = ()
