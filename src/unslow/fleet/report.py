"""The one versioned result of a fleet: these fields are a promise to whoever reads the JSON."""

from typing import Literal, NamedTuple

import msgspec

from unslow.think.report import Expected, Finding, Range, Scalar, Verdict

SCHEMA = "unslow.fleet/1"
Kind = Literal["partial", "limit", "skew", "down", "stale", "labels", "duplicates", "missing", "note"]


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """What a reader must know before trusting the rest."""

    kind: Kind
    text: str
    hint: str = ""
    instances: int = 0
    """How many it concerns; 0 for the whole fleet."""
    such_as: tuple[str, ...] = ()
    """Keys of a few of them."""


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """What an instance does not give, over the window; None where it can't be told, with the reason."""

    tokens_per_s: float | None = None
    gpu_hours: float | None = None
    """GPUs times hours times the share of the speed that is missing, while it worked."""
    idle_gpu_hours: float | None = None
    """GPUs times hours in which the instance answered nobody: capacity that is paid for and not asked."""
    because: str = ""


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """One engine of the fleet, judged."""

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
    running: float | None = None
    """Requests that were being answered, mean over the window with its pauses."""
    at_once: float | None = None
    """How many requests shared a step while it worked; None where nothing tells."""
    tokens_per_s: float | None = None
    """Of all its requests together."""
    measured: dict[str, float] = msgspec.field(default_factory=dict)
    expected: Expected = Expected()
    findings: tuple[Finding, ...] = ()
    by_itself: tuple[str, ...] = ()
    """Causes that the exporter on its own machine names, and nothing here can see."""
    cannot_tell: int = 0
    """How many causes could not be judged by what Prometheus knows."""
    lost: Loss = Loss()
    lost_by: dict[str, float] = msgspec.field(default_factory=dict)
    """The lost tokens per second by cause; under the empty name what no cause explains. They sum to what is lost."""
    notes: tuple[str, ...] = ()


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A fact in which an instance is unlike its peers."""

    fact: str
    value: Scalar
    peers: Scalar
    """What most of them have; of numbers the median."""
    share: float
    """Of the peers that agree with one another and not with it."""
    explains: str = ""
    """The cause that this fact decides, where there is one."""
    source: str = ""


class Odd(msgspec.Struct, frozen=True, kw_only=True):
    """An instance that is slower than its peers, and what is different about it."""

    key: str
    reached: float
    """Its speed as a share of what its peers reach at the same load."""
    differences: tuple[Difference, ...] = ()
    """The most telling first; empty where no known fact differs."""
    summary: str


class PeerGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Instances with the same runtime, model and devices."""

    runtime: str
    model: str
    devices: str
    instances: int
    judged: int
    """Those with enough tokens in the window to compare."""
    speed: Range | None = None
    """Tokens a second of one request over the group: 10th, 50th and 90th percentile."""
    odd: tuple[Odd, ...] = ()
    because: str = ""
    """Why nothing was compared, where nothing was."""


class CauseCount(msgspec.Struct, frozen=True, kw_only=True):
    """A cause over the whole fleet."""

    cause: str
    title: str
    instances: int
    tokens_per_s: float | None
    """Lost to it where that is known; None where it is of no instance."""
    gpu_hours: float | None
    worst: tuple[str, ...] = ()
    """Keys of a few that lose most to it."""


class FleetReport(msgspec.Struct, frozen=True, kw_only=True):
    """The diagnosis of everything that one Prometheus knows."""

    schema: str = SCHEMA
    unslow_version: str
    prometheus: str
    """Its address, without what is secret in it."""
    taken_at: str
    window_s: float
    queries: int
    seconds: float
    complete: bool
    """Whether every answer was whole; where not, a statement says what is missing."""
    statements: tuple[Statement, ...] = ()
    verdicts: dict[str, int] = msgspec.field(default_factory=dict)
    tokens_per_s: float | None = None
    """Of all instances together of which it is known; None where it is of none."""
    lost: Loss = Loss()
    gpus: int | None = None
    """Of all instances together of which it is known."""
    causes: tuple[CauseCount, ...] = ()
    """Those that cost most first."""
    untold: dict[str, int] = msgspec.field(default_factory=dict)
    """Why instances that were asked something could not be judged, and how many: the commonest reasons first, bounded.
    """
    idle: int = 0
    """Instances that nobody asked anything, and that can't be judged for it: they are among `cannot_tell`."""
    instances: tuple[Instance, ...] = ()
    """Those that lose most first; those that lose nothing last."""
    peers: tuple[PeerGroup, ...] = ()


class Judged(NamedTuple):
    """An instance, and its known facts by path (`runtime.version`, `machine.gpus.0.power_limit_w`) to compare them."""

    instance: Instance
    facts: dict[str, Scalar]
