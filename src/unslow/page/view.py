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
    """Why a panel is missing, and how to get it."""

    why: str
    how_to_get: str = ""


class SpeedRow(msgspec.Struct, frozen=True, kw_only=True):
    """One metric: measured, expected, and the physical ceiling."""

    metric: str  # As in the report: `decode_tokens_per_s`, `prefill_tokens_per_s`, `time_to_first_token_s`
    measured: float | None = None
    as_configured: Range | None = None
    achievable: Range | None = None
    ceiling: float | None = None
    goal: float | None = None  # The user's goal, if given


class MemoryPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a memory bar; parts add up to the capacity, or to more if something does not fit."""

    kind: PartKind
    name: str  # What it is in plain words; for another program, the name of its process
    bytes: int  # Of `lacking`, the bytes that do not fit; of a part that fits only partly, the bytes that do
    wanted_bytes: int | None = None  # The full size of a part that fits only partly; None if it fits


class MemoryBar(msgspec.Struct, frozen=True, kw_only=True):
    """The memory of a device, or of the host."""

    name: str
    is_host: bool = False
    capacity_bytes: int | None = None  # None if unknown; the bar is then as long as its parts
    parts: tuple[MemoryPart, ...] = ()
    fits: bool | None = None


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """One value of a slider."""

    value: str
    label: str


class Slider(msgspec.Struct, frozen=True, kw_only=True):
    """A knob and all its values, from small to large."""

    knob: Literal["context", "gpu_layers", "kv_type", "quant", "slots"]
    label: str
    value: str  # The current value: one of the choices
    choices: tuple[Choice, ...]


class WhatIf(msgspec.Struct, frozen=True, kw_only=True):
    """The memory and the speed with certain settings."""

    settings: dict[str, str]  # The value of every slider
    bars: tuple[MemoryBar, ...]
    verdict: Fits
    summary: str  # One sentence: whether it fits, and how fast it should be
    decode_tokens_per_s: Range | None = None
    prefill_tokens_per_s: Range | None = None
    command: str = ""  # The command for these settings
    notes: tuple[str, ...] = ()


class MemoryView(msgspec.Struct, frozen=True, kw_only=True):
    """The current memory, and the sliders that change it."""

    now: WhatIf
    sliders: tuple[Slider, ...] = ()
    ready: tuple[WhatIf, ...] = ()  # Precomputed answers for each slider moved alone: for a file without a server
    source: str = ""  # Where the layout comes from: the log, the tensors or the catalog


class RooflinePoint(msgspec.Struct, frozen=True, kw_only=True):
    """A phase of this model: FLOP per byte read, and FLOP per second."""

    phase: Literal["decode", "prefill"]
    label: str
    flops_per_byte: float
    predicted_flops_per_s: float | None = None
    measured_flops_per_s: float | None = None
    roof_flops_per_s: float  # What the roof allows at this intensity
    bound_by: Literal["memory", "compute", "overhead"]


class Roof(msgspec.Struct, frozen=True, kw_only=True):
    """One device: its memory and compute limits."""

    device: str
    bytes_per_s: float
    flops_per_s: float
    ridge_flops_per_byte: float
    source: str  # Of the two numbers


class RooflineView(msgspec.Struct, frozen=True, kw_only=True):
    """The roofs of the devices, and the phases below them."""

    roofs: tuple[Roof, ...]
    points: tuple[RooflinePoint, ...]
    summary: str  # What it shows, in words


class Track(msgspec.Struct, frozen=True, kw_only=True):
    """One quantity over a run; None where there is no sample."""

    name: str  # With its unit, such as `clock_hz`, `power_w`, `vram_used_bytes`, `busy`
    label: str
    device: str
    values: tuple[float | None, ...]
    limit: float | None = None  # Its upper limit, if known: the memory size, the power limit


class PhaseSpan(msgspec.Struct, frozen=True, kw_only=True):
    """A phase of a run, from start to end."""

    phase: str
    start_s: float
    end_s: float


class ThrottleMark(msgspec.Struct, frozen=True, kw_only=True):
    """When the driver reported a reason for low clocks."""

    device: str
    reason: str
    start_s: float
    end_s: float
    harmful: bool  # Whether it costs speed; an idle GPU may clock down


class TimelineView(msgspec.Struct, frozen=True, kw_only=True):
    """All devices during a measurement."""

    times_s: tuple[float, ...]
    tracks: tuple[Track, ...]
    spans: tuple[PhaseSpan, ...] = ()
    marks: tuple[ThrottleMark, ...] = ()
    summary: str = ""


class CurvePoint(msgspec.Struct, frozen=True, kw_only=True):
    """One point of a curve; `low` and `high` are the interval of the measurement."""

    at: float
    measured: float | None = None
    low: float | None = None
    high: float | None = None
    predicted: float | None = None
    predicted_low: float | None = None
    predicted_high: float | None = None
    note: str = ""


class CurveView(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens per second by context depth or by concurrent users."""

    axis: Literal["depth", "users"]
    metric: str
    points: tuple[CurvePoint, ...]
    verdict: str = ""
    because: str = ""
    knee: float | None = None
    measured_at: str = ""  # When it was measured; empty if only predicted


class ChangeRow(msgspec.Struct, frozen=True, kw_only=True):
    """One metric before and after; a speedup above 1 is faster, for times too."""

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
    changes: tuple[str, ...] = ()  # What differs, in plain words
    source: str  # `unslow verify`, or the two compared benchmarks
    answers: str = ""  # Whether the output stayed the same, if that was checked


class SubjectView(msgspec.Struct, frozen=True, kw_only=True):
    """The panels of one subject; `number` is its index in `report.subjects`."""

    number: int
    speeds: tuple[SpeedRow, ...] = ()
    memory: MemoryView | None = None
    roofline: RooflineView | None = None
    timeline: TimelineView | None = None
    depth: CurveView | None = None
    users: CurveView | None = None
    change: ChangeView | None = None
    missing: dict[str, Missing] = {}  # By the name of the panel


class View(msgspec.Struct, frozen=True, kw_only=True):
    """The whole view."""

    schema: str = SCHEMA
    unslow_version: str
    taken_at: str = ""
    machine: dict[str, Scalar] = {}
    report: Report
    subjects: tuple[SubjectView, ...] = ()
    masked: bool = True  # Whether user names, keys, prompts and addresses are masked
