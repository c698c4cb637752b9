"""The one versioned result of a fleet: these fields are a promise to whoever reads the JSON."""

from typing import Literal, NamedTuple

import msgspec

from unslow.think.report import Expectation, Finding, Range, Scalar, Verdict

SCHEMA = "unslow.fleet/1"
Kind = Literal["partial", "limit", "skew", "down", "stale", "labels", "duplicates", "missing", "note"]


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """A limitation of the data that a reader must know."""

    kind: Kind
    text: str
    hint: str = ""
    instances: int = 0  # How many it concerns; 0 for the whole fleet
    such_as: tuple[str, ...] = ()  # Keys of a few of them


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """What an instance loses over the window; None if unknown, with the reason."""

    tokens_per_s: float | None = None
    gpu_hours: float | None = None  # GPUs times busy hours times the missing share of the speed
    idle_gpu_hours: float | None = None  # GPUs times hours without requests: unused capacity
    because: str = ""


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """One engine of the fleet with its verdict."""

    key: str
    host: str = ""
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    runtime: str
    version: str = ""
    model: str
    devices: tuple[str, ...] = ()
    gpus: int | None = None
    verdict: Verdict
    summary: str
    phase: str = ""
    running: float | None = None  # Running requests, mean over the window including pauses
    at_once: float | None = None  # Batch size while busy; None if unknown
    tokens_per_s: float | None = None  # Total of its requests
    measured: dict[str, float] = msgspec.field(default_factory=dict)
    expected: Expectation = Expectation()
    findings: tuple[Finding, ...] = ()
    by_itself: tuple[str, ...] = ()
    """Causes found by `unslow exporter` on its machine that Prometheus data does not show."""
    cannot_tell: int = 0  # Number of causes that are undetermined
    lost: Loss = Loss()
    lost_by: dict[str, float] = msgspec.field(default_factory=dict)
    """Lost tokens per second by cause, unexplained under the empty name. They sum to the loss."""
    notes: tuple[str, ...] = ()


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A fact in which an instance differs from its peers."""

    fact: str
    value: Scalar
    peers: Scalar  # The most common value, or the median of numbers
    share: float  # Share of peers with the common value
    explains: str = ""  # The cause that this fact decides, if any
    source: str = ""


class Odd(msgspec.Struct, frozen=True, kw_only=True):
    """An instance that is slower than its peers, and its differences."""

    key: str
    reached: float  # Its speed as a share of what its peers reach at the same load
    differences: tuple[Difference, ...] = ()  # Most significant first; empty if no known fact differs
    summary: str


class PeerGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Instances with the same runtime, model and devices."""

    runtime: str
    model: str
    devices: str
    instances: int
    judged: int  # Those with enough tokens in the window to compare
    speed: Range | None = None  # Tokens per second of one request over the group: 10th, 50th and 90th percentile
    odd: tuple[Odd, ...] = ()
    because: str = ""  # Why the group was not compared


class CauseCount(msgspec.Struct, frozen=True, kw_only=True):
    """A cause over the whole fleet."""

    cause: str
    title: str
    instances: int
    tokens_per_s: float | None  # Lost to it; None if unknown for every instance
    gpu_hours: float | None
    worst: tuple[str, ...] = ()  # Keys of a few that lose most to it


class FleetReport(msgspec.Struct, frozen=True, kw_only=True):
    """The diagnosis of all engines that one Prometheus scrapes."""

    schema: str = SCHEMA
    unslow_version: str
    prometheus: str  # Its address without credentials
    taken_at: str
    window_s: float
    queries: int
    seconds: float
    complete: bool  # Whether every response was complete; if not, a statement says what is missing
    statements: tuple[Statement, ...] = ()
    verdicts: dict[str, int] = msgspec.field(default_factory=dict)
    tokens_per_s: float | None = None  # Sum over instances with a known value; None if there are none
    lost: Loss = Loss()
    gpus: int | None = None  # Sum over instances with a known value
    causes: tuple[CauseCount, ...] = ()  # Largest loss first
    untold: dict[str, int] = msgspec.field(default_factory=dict)
    """Why instances with requests are undetermined, and how many: most common first, bounded."""
    idle: int = 0  # Instances without requests, counted among `cannot_tell`
    instances: tuple[Instance, ...] = ()  # Largest loss first
    peers: tuple[PeerGroup, ...] = ()


class Judgement(NamedTuple):
    """An instance, and its known facts by path (`runtime.version`, `machine.gpus.0.power_limit_w`) to compare them."""

    instance: Instance
    facts: dict[str, Scalar]
