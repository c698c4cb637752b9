"""What `unslow watch` shows of one moment, and its JSON lines hold: speeds, what limits a server, who holds memory."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Literal, NamedTuple

import msgspec

from unslow.facts.machine import Gpu
from unslow.facts.runtime import Buffer
from unslow.facts.values import Known, MissingFactError, Unknown
from unslow.page.view import MemoryBar, MemoryPart, Missing, PartKind
from unslow.think.case.speed import DECODE
from unslow.think.case.view import CaseView
from unslow.think.causes import all_causes
from unslow.think.judge.judge import judge
from unslow.think.judge.phases import PER
from unslow.think.memo import one_judgement
from unslow.think.report import Cost, Per, Range, SubjectReport

SCHEMA = "unslow.watch/1"
PhaseNow = Literal["idle", "queue", "load", "prefill", "decode", "busy", "unknown"]
"""As in the telemetry; "busy" if it works at an unreported phase, "unknown" if it reports nothing."""
Spell = Callable[[SubjectReport, CaseView], SubjectReport]  # Puts the fixes of a report into commands
State = Literal["answers", "silent", "loading", "gone", "none"]
NORMAL = "none: it is as fast as this hardware allows"
NOTHING = "none stands out"
NO_SPEED, UNSURE = "no speed measured yet", "undetermined so far"
_COMPUTES = ("prefill", "decode")
_MATTERS = 0.1  # Of the time that it computed: what is only suspected of a phase that took less is not the answer
_KINDS: dict[str, PartKind] = {"model": "weights", "kv": "kv", "state": "kv", "compute": "compute", "output": "compute"}
_OWN_NAMES: dict[PartKind, str] = {"weights": "weights", "kv": "KV cache", "compute": "buffers"}
UNNAMED, NOT_TOLD = "driver and others", "owner unknown"
OTHERS, REST = "others", "server itself"
_NUMBER = re.compile(r"(\d+)\D*$")
MOST_OTHERS = 4


class ServerNow(msgspec.Struct, frozen=True, kw_only=True):
    """The watched server, and whether it answers."""

    runtime: str = ""
    model: str = ""
    url: str = ""
    pid: int | None = None
    state: State = "none"
    because: str = ""  # Why it does not answer; empty if it does


class SpeedNow(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens per second now, and what they should be."""

    tokens_per_s: float | None = None  # Of all requests together
    each_tokens_per_s: float | None = None  # Of one request, on average
    prompt_tokens_per_s: float | None = None
    last_tokens_per_s: float | None = None
    """Of the last response in the server's log, if the server does not report its current speed."""
    expected: Range | None = None  # Of one request, with these settings
    ceiling: float | None = None  # The memory bandwidth ceiling of one request
    source: str = ""
    missing: Missing | None = None  # Why there is no current speed, and how to get it


class RequestNow(msgspec.Struct, frozen=True, kw_only=True):
    """One running request."""

    slot: int
    phase: PhaseNow
    tokens: int = 0  # Generated so far
    tokens_per_s: float | None = None
    prompt_tokens: int | None = None
    prompt_read: float | None = None  # The share of the prompt that is prefilled


class RequestsNow(msgspec.Struct, frozen=True, kw_only=True):
    """How many requests run and wait; None if the server does not report it."""

    running: float | None = None
    waiting: float | None = None
    each: tuple[RequestNow, ...] = ()


class PhasesNow(msgspec.Struct, frozen=True, kw_only=True):
    """The current phase, and the phases of the last minute as shares that add up to one."""

    now: PhaseNow = "unknown"
    minute: dict[str, float] = msgspec.field(default_factory=dict)
    queued: float = 0.0  # The share of the minute in which requests waited


class WallPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the time of a token."""

    part: str
    seconds: float
    share: float


class Wall(msgspec.Struct, frozen=True, kw_only=True):
    """Where the time of a phase goes, the largest part first."""

    phase: str
    per: Per
    parts: tuple[WallPart, ...]
    measured: bool  # Whether the parts add up to a measured time, or to a predicted one


class DeviceNow(msgspec.Struct, frozen=True, kw_only=True):
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
    reasons: tuple[str, ...] = ()  # Why the driver lowers its clocks; idle reasons are left out


class HostNow(msgspec.Struct, frozen=True, kw_only=True):
    """The CPUs, the memory and the disks."""

    cpus: int | None = None
    busy_cpus: float | None = None
    own_cpus: float | None = None  # What the server uses
    others_cpus: float | None = None
    throttled: float | None = None  # The share of the periods in which its CPU quota ran out
    ram_total_bytes: float | None = None
    ram_available_bytes: float | None = None
    own_ram_bytes: float | None = None
    swap_in_bytes_per_s: float | None = None
    swap_out_bytes_per_s: float | None = None
    disk_read_bytes_per_s: float | None = None


class Suspicion(msgspec.Struct, frozen=True, kw_only=True):
    """What makes it slow, by the causes; `found` is proven, `suspected` needs another measurement."""

    kind: Literal["found", "suspected", "nothing", "cannot_tell"]
    title: str
    because: str = ""
    cause: str = ""
    cost: Cost | None = None
    speedup: float | None = None
    more: int = 0  # How many other findings there are
    fix: str = ""
    command: str = ""  # The first command of the fix, if it has one
    at: str = ""  # When it was diagnosed


class Tick(msgspec.Struct, frozen=True, kw_only=True):
    """One moment."""

    schema: str = SCHEMA
    at: str = ""
    seconds: float = 0.0  # Since the start
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
    notes: tuple[str, ...] = ()  # Events, and what is not reported


class Judgement(NamedTuple):
    """All that is drawn from one judgement."""

    suspicion: Suspicion
    walls: dict[str, Wall]  # By phase
    expected: Range | None
    ceiling: float | None


@one_judgement()
def judge_case(
    case: CaseView, at: str = "", shares: Mapping[str, float] | None = None, spell: Spell = lambda report, _case: report
) -> Judgement:
    """Judge what was seen so far; `shares` are the phases of the last minute."""
    report = spell(judge(case), case)
    expected = report.expected
    return Judgement(
        suspicion_of(report, at, shares or {}), walls_of(case, report), expected.as_configured.get(DECODE),
        expected.ceiling_tokens_per_s,
    )  # fmt: skip


def suspicion_of(report: SubjectReport, at: str = "", shares: Mapping[str, float] | None = None) -> Suspicion:
    """The first finding; else what is suspected; else that it is normal, or that it can't be told."""
    if report.findings:
        findings = report.findings
        first = findings[0]
        fix, command = next(((fix.why, fix.commands[0]) for fix in first.fixes if fix.commands), ("", ""))
        fix = fix or (first.fixes[0].why if first.fixes and not command else "")
        return Suspicion(
            kind="found", title=first.title, because=first.because, cause=first.cause, cost=first.cost,
            speedup=first.speedup, more=len(findings) - 1, fix=fix, command=command, at=at,
        )  # fmt: skip
    # Phases that took too little of the last minute for what slows them to matter
    took = {name: (shares or {}).get(name, 0.0) for name in _COMPUTES}
    minor = {name for name in took if took[name] < _MATTERS * sum(took.values())}
    suspected = [one for one in report.cannot_tell if one.suspected and all_causes()[one.cause].phase not in minor]
    if suspected:
        likely = suspected[0]
        return Suspicion(
            kind="suspected", title=all_causes()[likely.cause].title, because=likely.because, cause=likely.cause,
            more=len(suspected) - 1, fix=likely.how_to_get, at=at,
        )  # fmt: skip
    if report.verdict == "normal":
        return Suspicion(kind="nothing", title=NORMAL, at=at)
    if DECODE not in report.measured:
        return Suspicion(kind="cannot_tell", title=NO_SPEED, because=report.summary, at=at)
    if report.verdict == "cannot_tell":
        bad = (f"{item.item} No: {item.because}" for item in report.checklist if item.state == "bad")
        return Suspicion(kind="cannot_tell", title=next(bad, UNSURE), because=report.summary, at=at)
    return Suspicion(kind="nothing", title=NOTHING, because=report.summary, at=at)


def walls_of(case: CaseView, report: SubjectReport) -> dict[str, Wall]:
    """What binds in each phase that computes: as measured, else as predicted."""
    walls = {}
    for phase, predictor in (("decode", case.speed.predict), ("prefill", case.speed.predict_prefill)):
        parts = [(b.part, b.seconds) for b in report.budget if b.phase == phase]
        measured = bool(parts)
        if not measured:
            known = predictor()
            parts = [] if isinstance(known, Unknown) else [(p.name, p.seconds) for p in known.parts]
        parts = sorted((part for part in parts if part[1] > 0), key=lambda part: -part[1])
        total = sum(seconds for _, seconds in parts)
        if shown := tuple(WallPart(part=name, seconds=seconds, share=seconds / total) for name, seconds in parts):
            walls[phase] = Wall(phase=phase, per=PER[phase], parts=shown, measured=measured)
    return walls


def bars_of(
    case: CaseView, vram_used: Mapping[int, float], ram: HostNow, laid: Sequence[MemoryBar] = ()
) -> tuple[MemoryBar, ...]:
    """A bar for each GPU whose size is known, and one for the host.

    `laid` are the bars of the model as it is laid out: what is told of a server that does not say what it allocated.
    """
    gpus = [gpu for gpu in case.machine.gpus.value_or(()) if isinstance(gpu.vram_total_bytes, Known)]
    # The server's parts on each GPU and on the host: none where it says itself, or where not all finds its room
    whole = all(bar.fits for bar in laid) and not any(part.wanted_bytes for bar in laid for part in bar.parts)
    devices = [bar for bar in laid if not bar.is_host]
    on_gpus: list[list[MemoryPart]] = [[] for _ in gpus]
    on_host: list[MemoryPart] = []
    if not isinstance(case.runtime.memory.buffers, Known) and whole and len(devices) == len(gpus):
        on_gpus = [_own_parts(bar) for bar in devices]
        on_host = [part for bar in laid if bar.is_host for part in _own_parts(bar)]
    bars = [_gpu_bar(case, gpu, vram_used, own, alone=len(gpus) == 1) for gpu, own in zip(gpus, on_gpus, strict=True)]
    host = _host_bar(case, ram, on_host)
    return (*bars, host) if host else tuple(bars)


def _own_parts(bar: MemoryBar) -> list[MemoryPart]:
    own = (part for part in bar.parts if part.kind in _OWN_NAMES)
    return [MemoryPart(kind=part.kind, name=_OWN_NAMES[part.kind], bytes=part.bytes) for part in own]


def _gpu_bar(
    case: CaseView, gpu: Gpu, vram_used: Mapping[int, float], laid: list[MemoryPart], *, alone: bool
) -> MemoryBar:
    capacity, pid = int(gpu.vram_total_bytes.need()), case.runtime.process.pid.value_or(None)

    def is_here(buffer: Buffer) -> bool:
        number = _NUMBER.search(buffer.device)  # in the runtime's name of a device, such as CUDA1
        return buffer.on_gpu and (alone or int(number[1] if number else 0) == gpu.index)

    buffers = [buffer for buffer in case.runtime.memory.buffers.value_or([]) if is_here(buffer)]
    used = int(vram_used.get(gpu.index, gpu.vram_used_bytes.value_or(0)))
    # Other processes that the driver lists, the largest first; those beyond a few together
    others = [p for p in gpu.processes.value_or([]) if p.pid != pid and p.vram_bytes.value_or(0)]
    others.sort(key=lambda p: -p.vram_bytes.value_or(0))
    sizes = [(p.name.value_or(f"process {p.pid}"), p.vram_bytes.need()) for p in others[:MOST_OTHERS]]
    smaller = sum(p.vram_bytes.need() for p in others[MOST_OTHERS:])
    sizes += [(OTHERS, smaller)] if smaller else []
    theirs = [MemoryPart(kind="stranger", name=name.rpartition("/")[2] or name, bytes=size) for name, size in sizes]
    left = used - sum(part.bytes for part in theirs)
    own = _buffer_parts(buffers) or (laid if sum(part.bytes for part in laid) <= left else [])
    # What the driver says that the server holds beyond its parts: its state on the GPU, or all where none is told
    held = sum(p.vram_bytes.value_or(0) for p in gpu.processes.value_or([]) if p.pid == pid)
    more = held - sum(part.bytes for part in own)
    beside = [MemoryPart(kind="compute", name=REST, bytes=more)] if more > 0 else []
    parts = [*own, *beside, *theirs]
    rest = used - sum(part.bytes for part in parts)
    if rest > 0:
        # in containers the driver does not list the server's own process
        parts.append(MemoryPart(kind="reserve", name=UNNAMED if len(parts) > len(theirs) else NOT_TOLD, bytes=rest))
    return MemoryBar(name=gpu.name.value_or("GPU"), capacity_bytes=capacity, parts=_with_free(parts, capacity))


def _buffer_parts(buffers: list[Buffer]) -> list[MemoryPart]:
    sums: Counter[PartKind] = Counter()
    for buffer in buffers:
        sums[_KINDS[buffer.kind]] += buffer.bytes
    return [MemoryPart(kind=kind, name=_OWN_NAMES[kind], bytes=size) for kind, size in sums.items() if size]


def _host_bar(case: CaseView, ram: HostNow, laid: list[MemoryPart]) -> MemoryBar | None:
    """The kernel counts mmapped weights as available; here they are the server's."""
    total, available = ram.ram_total_bytes, ram.ram_available_bytes
    if total is None or available is None:
        return None
    own = int(ram.own_ram_bytes or 0)
    left, parts = own, []
    for part in laid or _host_parts(case):
        size = min(part.bytes, left)
        left -= size
        if size:
            parts.append(MemoryPart(kind=part.kind, name=part.name, bytes=size))
    if left > 0:
        parts.append(MemoryPart(kind="compute", name=REST, bytes=left))
    mapped = sum(part.bytes for part in parts if part.kind == "weights")
    others = int(total - available) - (own - mapped)
    if others > 0:
        parts.append(MemoryPart(kind="stranger", name=OTHERS, bytes=others))
    return MemoryBar(name="RAM", is_host=True, capacity_bytes=int(total), parts=_with_free(parts, int(total)))


def _host_parts(case: CaseView) -> list[MemoryPart]:
    """From the reported buffers; else, without a GPU, the size of the model."""
    buffers = case.runtime.memory.buffers
    if isinstance(buffers, Known):
        return _buffer_parts([buffer for buffer in buffers.value if not buffer.on_gpu])
    if case.machine.gpus.value_or(()):
        return []
    cache = case.runtime.cache.bytes.value_or(None)
    if cache is None:  # as large as the context makes it; nothing where that is not known
        with suppress(MissingFactError):
            cache = round(case.memory.shape.kv_bytes_per_token * case.runtime.context.length.need())
    weights = MemoryPart(kind="weights", name="weights", bytes=case.model.weights_bytes.value_or(0))
    return [part for part in (weights, MemoryPart(kind="kv", name="KV cache", bytes=cache or 0)) if part.bytes]


def _with_free(parts: list[MemoryPart], capacity: int) -> tuple[MemoryPart, ...]:
    free = capacity - sum(part.bytes for part in parts)
    if free < 0:
        return (*parts, MemoryPart(kind="lacking", name="over capacity", bytes=-free))
    return (*parts, MemoryPart(kind="free", name="free", bytes=free))
