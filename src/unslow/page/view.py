"""The versioned view: the report and every number that the page, the file and the live screen draw."""

from typing import Literal

import msgspec

from unslow.think.report import Range, Report, Scalar

# These fields are a promise to whoever reads the JSON. A panel that can't be drawn is None, and `missing` says why and
# how to get it.

SCHEMA = "unslow.view/1"
PartKind = Literal["weights", "kv", "compute", "stranger", "reserve", "free", "lacking"]
Fits = Literal["fits", "tight", "partly", "does_not_fit", "cannot_tell"]


class Missing(msgspec.Struct, frozen=True, kw_only=True):
    """Why a panel is not there, and how to get it."""

    why: str
    how_to_get: str = ""


class SpeedRow(msgspec.Struct, frozen=True, kw_only=True):
    """One metric: what was measured, between which ends it should lie, and what physics allows at most."""

    metric: str
    """As in the report: `decode_tokens_per_s`, `prefill_tokens_per_s`, `time_to_first_token_s`."""
    measured: float | None = None
    as_configured: Range | None = None
    achievable: Range | None = None
    ceiling: float | None = None
    goal: float | None = None
    """What the user wants, where they said so."""


class MemoryPart(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of the bar of a memory; parts add up to the capacity, or to more where something is lacking."""

    kind: PartKind
    name: str
    """What it is in plain words; of a stranger, the name of its process."""
    bytes: int
    """Of what is lacking, what finds no room; of a part that has no room whole, what has."""
    wanted_bytes: int | None = None
    """What such a part would take whole; None where it is whole."""


class MemoryBar(msgspec.Struct, frozen=True, kw_only=True):
    """The memory of a device, or of the host."""

    name: str
    is_host: bool = False
    capacity_bytes: int | None = None
    """None where it is not known; the bar is then as long as what is asked of it."""
    parts: tuple[MemoryPart, ...] = ()
    fits: bool | None = None


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """One place of a slider."""

    value: str
    label: str


class Slider(msgspec.Struct, frozen=True, kw_only=True):
    """A knob that can be moved, and all its places, from small to large."""

    knob: Literal["context", "gpu_layers", "kv_type", "quant", "slots"]
    label: str
    value: str
    """Where it stands: one of the choices."""
    choices: tuple[Choice, ...]


class WhatIf(msgspec.Struct, frozen=True, kw_only=True):
    """The memory and the speed with certain settings."""

    settings: dict[str, str]
    """The value of every slider."""
    bars: tuple[MemoryBar, ...]
    verdict: Fits
    summary: str
    """One sentence: whether it fits, and how fast it should be."""
    decode_tokens_per_s: Range | None = None
    prefill_tokens_per_s: Range | None = None
    command: str = ""
    """How to run it so."""
    notes: tuple[str, ...] = ()


class MemoryView(msgspec.Struct, frozen=True, kw_only=True):
    """The memory as it is, and the sliders that change it."""

    now: WhatIf
    sliders: tuple[Slider, ...] = ()
    ready: tuple[WhatIf, ...] = ()
    """Answers worked out beforehand, one slider moved at a time: for a file that can ask nobody."""
    source: str = ""
    """How the layout is known: from its log, from its tensors, from the catalogue."""


class RooflinePoint(msgspec.Struct, frozen=True, kw_only=True):
    """A phase of this model: how much it computes for each byte it reads, and how much it computes a second."""

    phase: Literal["decode", "prefill"]
    label: str
    flops_per_byte: float
    predicted_flops_per_s: float | None = None
    measured_flops_per_s: float | None = None
    roof_flops_per_s: float
    """What the roof allows at this intensity."""
    bound_by: Literal["memory", "compute", "overhead"]


class Roof(msgspec.Struct, frozen=True, kw_only=True):
    """One device: its two limits."""

    device: str
    bytes_per_s: float
    flops_per_s: float
    ridge_flops_per_byte: float
    source: str
    """Of the two numbers."""


class RooflineView(msgspec.Struct, frozen=True, kw_only=True):
    """The roofs of the devices that compute, and the phases under them."""

    roofs: tuple[Roof, ...]
    points: tuple[RooflinePoint, ...]
    summary: str
    """One sentence that says what it shows."""


class Track(msgspec.Struct, frozen=True, kw_only=True):
    """One quantity over the time of a run; None where there is no sample."""

    name: str
    """With its unit, such as `clock_hz`, `power_w`, `vram_used_bytes`, `busy`."""
    label: str
    device: str
    values: tuple[float | None, ...]
    limit: float | None = None
    """What it can't pass, where that is known: the size of the memory, the power limit."""


class PhaseSpan(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of a run."""

    phase: str
    start_s: float
    end_s: float


class ThrottleMark(msgspec.Struct, frozen=True, kw_only=True):
    """When the driver named a reason for low clocks."""

    device: str
    reason: str
    start_s: float
    end_s: float
    harmful: bool
    """Whether it costs speed; an idle GPU may clock down."""


class TimelineView(msgspec.Struct, frozen=True, kw_only=True):
    """What all devices did while something was measured."""

    times_s: tuple[float, ...]
    tracks: tuple[Track, ...]
    spans: tuple[PhaseSpan, ...] = ()
    marks: tuple[ThrottleMark, ...] = ()
    summary: str = ""


class CurvePoint(msgspec.Struct, frozen=True, kw_only=True):
    """One place of a curve; `low` and `high` are the interval of what was measured."""

    at: float
    measured: float | None = None
    low: float | None = None
    high: float | None = None
    predicted: float | None = None
    predicted_low: float | None = None
    predicted_high: float | None = None
    note: str = ""


class CurveView(msgspec.Struct, frozen=True, kw_only=True):
    """One thing varied: tokens per second by depth of the context, or by users at once."""

    axis: Literal["depth", "users"]
    metric: str
    points: tuple[CurvePoint, ...]
    verdict: str = ""
    because: str = ""
    knee: float | None = None
    measured_at: str = ""
    """When it was measured; empty where it is predicted only."""


class ChangeRow(msgspec.Struct, frozen=True, kw_only=True):
    """One figure before and after; a speed-up of more than 1 is faster, also of times."""

    metric: str
    before: Range
    after: Range
    speedup: Range
    verdict: str


class ChangeView(msgspec.Struct, frozen=True, kw_only=True):
    """Before and after a change."""

    verdict: str
    because: str
    rows: tuple[ChangeRow, ...]
    changes: tuple[str, ...] = ()
    """What differs, in plain words."""
    source: str
    """`unslow verify`, or the two benchmarks that were compared."""
    answers: str = ""
    """Whether the answers stayed the same, where that was looked at."""


class SubjectView(msgspec.Struct, frozen=True, kw_only=True):
    """What can be drawn of one subject; `number` is its place in `report.subjects`."""

    number: int
    speeds: tuple[SpeedRow, ...] = ()
    memory: MemoryView | None = None
    roofline: RooflineView | None = None
    timeline: TimelineView | None = None
    depth: CurveView | None = None
    users: CurveView | None = None
    change: ChangeView | None = None
    missing: dict[str, Missing] = {}
    """By the name of the panel."""


class View(msgspec.Struct, frozen=True, kw_only=True):
    """The whole of it."""

    schema: str = SCHEMA
    unslow_version: str
    taken_at: str = ""
    machine: dict[str, Scalar] = {}
    report: Report
    subjects: tuple[SubjectView, ...] = ()
    masked: bool = True
    """Whether names of users, keys, prompts and addresses were taken out."""
