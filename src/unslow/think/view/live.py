"""The live screen's numbers at one moment: what `unslow watch` shows, and what its JSON lines hold."""

from typing import Literal

import msgspec

from unslow.think.report import Cost, Per, Range
from unslow.think.view.report import MemoryBar, Missing, Shown

SCHEMA = "unslow.watch/1"
PhaseNow = Literal["idle", "queue", "load", "prefill", "decode", "busy", "unknown"]
"""As in the telemetry; "busy" where it works and does not tell at what, "unknown" where it tells nothing."""
State = Literal["answers", "silent", "loading", "gone", "none"]


class ServerNow(Shown, frozen=True, kw_only=True):
    """Which server is looked at, and whether it answers."""

    runtime: str = ""
    model: str = ""
    url: str = ""
    pid: int | None = None
    state: State = "none"
    because: str = ""
    """Why it does not answer, where it does not."""


class SpeedNow(Shown, frozen=True, kw_only=True):
    """Tokens per second of this moment, and what they should be."""

    tokens_per_s: float | None = None
    """Of all requests together."""
    each_tokens_per_s: float | None = None
    """Of one request, on average."""
    prompt_tokens_per_s: float | None = None
    last_tokens_per_s: float | None = None
    """Of the last answer by the server's log, where the server tells nothing of this moment."""
    expected: Range | None = None
    """Of one request, as it is set up."""
    ceiling: float | None = None
    """What the memory allows one request at most."""
    source: str = ""
    missing: Missing | None = None
    """Why no speed is told, or only a late one, and how to get it."""


class RequestNow(Shown, frozen=True, kw_only=True):
    """One request in work."""

    slot: int
    phase: PhaseNow
    tokens: int = 0
    """Generated so far."""
    tokens_per_s: float | None = None
    prompt_tokens: int | None = None
    prompt_read: float | None = None
    """The share of the prompt that was read."""


class RequestsNow(Shown, frozen=True, kw_only=True):
    """How many are answered and how many wait; None where the server does not tell."""

    running: float | None = None
    waiting: float | None = None
    each: tuple[RequestNow, ...] = ()


class PhasesNow(Shown, frozen=True, kw_only=True):
    """What it does, and what it did over the last minute: shares of the time that add up to one."""

    now: PhaseNow = "unknown"
    minute: dict[str, float] = msgspec.field(default_factory=dict)
    queued: float = 0.0
    """The share of the minute in which somebody waited."""


class WallPart(Shown, frozen=True, kw_only=True):
    """What a token's time goes to."""

    part: str
    seconds: float
    share: float


class Wall(Shown, frozen=True, kw_only=True):
    """What binds in a phase: its largest part first."""

    phase: str
    per: Per
    parts: tuple[WallPart, ...]
    measured: bool
    """Whether the parts add up to a measured time, or to a predicted one."""


class DeviceNow(Shown, frozen=True, kw_only=True):
    """One GPU."""

    number: int
    name: str
    busy: float | None = None
    memory_busy: float | None = None
    clock_hz: float | None = None
    clock_max_hz: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    temperature_c: float | None = None
    vram_used_bytes: float | None = None
    vram_total_bytes: float | None = None
    reasons: tuple[str, ...] = ()
    """Why the driver keeps its clocks low, as it says; those of an idle GPU are left out."""


class HostNow(Shown, frozen=True, kw_only=True):
    """The processors, the memory and the disks."""

    cpus: int | None = None
    busy_cpus: float | None = None
    own_cpus: float | None = None
    """What the server uses."""
    others_cpus: float | None = None
    throttled: float | None = None
    """The share of the periods in which its CPU quota ran out."""
    ram_total_bytes: float | None = None
    ram_available_bytes: float | None = None
    own_ram_bytes: float | None = None
    swap_in_bytes_per_s: float | None = None
    swap_out_bytes_per_s: float | None = None
    disk_read_bytes_per_s: float | None = None


class Suspicion(Shown, frozen=True, kw_only=True):
    """What seems to make it slow, by the causes; `found` is sure, `suspected` wants one more look."""

    kind: Literal["found", "suspected", "nothing", "cannot_tell"]
    title: str
    because: str = ""
    cause: str = ""
    cost: Cost | None = None
    speedup: float | None = None
    more: int = 0
    """How many other findings there are."""
    fix: str = ""
    command: str = ""
    """The first line to copy of the fix, where it has one."""
    at: str = ""
    """When it was judged."""


class Tick(Shown, frozen=True, kw_only=True):
    """One moment."""

    schema: str = SCHEMA
    at: str = ""
    seconds: float = 0.0
    """Since the watching began."""
    servers: tuple[str, ...] = ()
    chosen: int = 0
    server: ServerNow = ServerNow()
    speed: SpeedNow = SpeedNow()
    requests: RequestsNow = RequestsNow()
    phases: PhasesNow = PhasesNow()
    wall: Wall | None = None
    devices: tuple[DeviceNow, ...] = ()
    memory: tuple[MemoryBar, ...] = ()
    host: HostNow = HostNow()
    suspicion: Suspicion | None = None
    notes: tuple[str, ...] = ()
    """Sources that can't be read, and what that costs."""
