"""The versioned answer of `unslow predict`: these fields are a promise to whoever reads the JSON."""

from typing import Literal

import msgspec

from unslow.think.physics.terms import Interval

SCHEMA = "unslow.prediction/1"


class RateShown(msgspec.Struct, frozen=True, kw_only=True):
    """The middle of a prediction, and the ends that contain four of five measurements."""

    low: float
    mid: float
    high: float


class ModelShown(msgspec.Struct, frozen=True, kw_only=True):
    """The model in question."""

    name: str
    quant: str
    source: str
    parameters: int
    weights_bytes: int
    layers: int
    stands_for: str = ""  # The model that was named, where this one of the same shape was computed
    estimated_as: str = ""  # The mix that stands for a quant whose tensors do not follow from its name
    size_off: float = 0.0  # How far the weights may then be off, as a share


class PlaceShown(msgspec.Struct, frozen=True, kw_only=True):
    """Where it runs."""

    device: str
    gpus: int
    bytes_per_s: float  # What one device's memory delivers at most
    backend: str
    runtime: str
    host_bytes_per_s: float | None = None  # Host memory bandwidth, where a part of the model is there


class PlacementShown(msgspec.Struct, frozen=True, kw_only=True):
    """GPU layers as llama.cpp counts them: the repeating layers, and the output as one more."""

    gpu_layers: int
    all_gpu_layers: int
    experts_on_cpu: int
    chosen: bool  # Whether it was left open, and this is as much as fits
    fits: bool | None  # Whether the memory is large enough for this placement; None where its size is not known


class WallShown(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the time of a step, and the speed if it were half as long."""

    part: str
    seconds: float
    share: float
    binds: bool
    halved_tokens_per_s: float


class SpeedShown(msgspec.Struct, frozen=True, kw_only=True):
    """How fast tokens are generated."""

    tokens_per_s: RateShown  # Of all conversations together
    each_tokens_per_s: float  # Of one of them
    step_s: float
    ceiling_tokens_per_s: float | None  # What bandwidth alone would allow; None where nothing is read
    walls: tuple[WallShown, ...]


class PromptShown(msgspec.Struct, frozen=True, kw_only=True):
    """How fast a prompt is read."""

    prompt_tokens: int
    micro_batch: int
    tokens_per_s: RateShown
    time_to_first_token_s: RateShown


class BasisShown(msgspec.Struct, frozen=True, kw_only=True):
    """What the interval was learned from."""

    kind: Literal["catalog", "calibrated"]
    text: str
    group: str = ""
    configurations: int = 0
    devices: int = 0
    median_error: float = 0.0


class BatchShown(msgspec.Struct, frozen=True, kw_only=True):
    """A step that brings several conversations forward."""

    conversations: int
    tokens_per_s: float
    each_tokens_per_s: float
    fits: bool | None


class QuantShown(msgspec.Struct, frozen=True, kw_only=True):
    """The same model in another quant."""

    name: str
    weights_bytes: int
    bits_per_weight: float
    fits: bool | None
    gpu_layers: int | None  # How many layers find room on the GPUs; None for all
    experts_on_cpu: int  # Of how many layers the experts stay on the host
    tokens_per_s: float


class ExplainShown(msgspec.Struct, frozen=True, kw_only=True):
    """The memory wall of this case."""

    batching: tuple[BatchShown, ...]
    ridge_conversations: float | None  # From so many on compute takes as long as reading weights; None on a CPU
    quants: tuple[QuantShown, ...]


class SpeculativeShown(msgspec.Struct, frozen=True, kw_only=True):
    """With a small model that drafts tokens, which the large one checks all at once."""

    draft: str
    draft_tokens: int
    acceptance: float
    accepted_per_step: float
    tokens_per_s: RateShown
    speedup: float
    break_even_acceptance: float | None  # Below it the draft costs more than it saves; None where it always does


class PredictionReport(msgspec.Struct, frozen=True, kw_only=True):
    """The whole answer; without `decode` where nothing can be said, and `reason` says why."""

    schema: str = SCHEMA
    unslow_version: str
    model: ModelShown
    place: PlaceShown | None = None
    settings: dict[str, str | int | float | bool] = {}
    placement: PlacementShown | None = None
    decode: SpeedShown | None = None
    prefill: PromptShown | None = None
    speculative: SpeculativeShown | None = None
    explain: ExplainShown | None = None
    basis: BasisShown | None = None
    notes: tuple[str, ...] = ()
    reason: str = ""
    hint: str = ""


def shown_rate(interval: Interval) -> RateShown:
    """As reports have it."""
    return RateShown(low=interval.low, mid=interval.mid, high=interval.high)
