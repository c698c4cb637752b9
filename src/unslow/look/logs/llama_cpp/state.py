"""What one pass over a llama.cpp log remembers: the process, its loads, their caches and buffers.

Every store is bounded, so that a log of any size, also one made to attack this program, costs the same memory.
"""

import re
from collections import deque
from collections.abc import MutableMapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

from unslow.facts.run import Completion
from unslow.facts.runtime import AllocationFailure, Buffer, PastLoad, SeenDevice
from unslow.facts.values import NOT_LOOKED, Fact, Known, reported_fact

K = TypeVar("K")
V = TypeVar("V")
FactsByName = dict[str, Known[Any]]
SeenBuffers = dict[tuple[str, ...], tuple[Buffer, str]]  # each with the line that names it
KEPT_COMPLETIONS = 1000
KEPT_NAMES = 256
KEPT_LOADS = 200
KEPT_WARNINGS, KEPT_OF_A_KIND = 40, 2
_CLOCK = re.compile(r"\b(\d{1,6})\.(\d\d)\.(\d{3})\.(\d{3}) [IWED] ")
_DATE = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d")


class Cache(NamedTuple):
    """One KV cache; models with sliding windows have two."""

    bytes: int
    cells: int | None
    type_k: str
    type_v: str
    where: str


@dataclass
class Context:
    """One llama_context: its parameters, caches and scratch memory."""

    facts: FactsByName = field(default_factory=dict)
    parameters: set[str] = field(default_factory=set)
    buffers: SeenBuffers = field(default_factory=dict)
    caches: dict[str, Cache] = field(default_factory=dict)
    section: str = ""


@dataclass
class ModelLoad:
    """One model file being loaded: its description, where its weights went, its contexts."""

    path: str = ""
    model: FactsByName = field(default_factory=dict)
    runtime: FactsByName = field(default_factory=dict)
    weights: SeenBuffers = field(default_factory=dict)
    context: Context = field(default_factory=Context)
    largest: Context = field(default_factory=Context)
    """Of those before: a side context (of multi-token prediction, say) must not hide the main one."""
    overridden: bool = False
    repeating: int = 0  # Layers on the GPU without the output, as a line of its own counts them
    dry: bool = False  # Only looked at by the fit, so nothing of it was allocated

    def main_context(self) -> Context:
        """The context with the largest cache, the last of equals."""
        return max((self.context, self.largest), key=lambda one: sum(cache.bytes for cache in one.caches.values()))


@dataclass
class Load:
    """From one "loading model" to the next: the fit, the main model and any draft, the outcome and the requests."""

    facts: FactsByName = field(default_factory=dict)
    overflow: dict[str, tuple[int, str]] = field(default_factory=dict)
    models: dict[str, ModelLoad] = field(default_factory=dict)
    current: ModelLoad = field(default_factory=ModelLoad)
    started_s: float | None = None
    started_at: str = ""
    where: str = ""
    failure: AllocationFailure | None = None
    failure_where: str = ""
    completions: deque[Completion] = field(default_factory=lambda: deque(maxlen=KEPT_COMPLETIONS))
    completions_where: str = ""
    prompt: tuple[int, float] = (0, 0.0)
    rates: tuple[Known[float], Known[float]] | None = None
    decay: Known[float] | None = None
    accepted: int = 0
    drafted: int = 0
    placed: bool = False

    def main_model(self) -> ModelLoad:
        """The model with most layers by its offload line; a draft has fewer."""
        models = (self.current, *self.models.values())
        return max(models, key=lambda model: model.runtime["layers"].value if "layers" in model.runtime else 0)


@dataclass
class Reading:
    """Everything known after the lines so far."""

    process: FactsByName = field(default_factory=dict)
    devices: dict[str, tuple[SeenDevice, str]] = field(default_factory=dict)
    devices_listed: str = ""
    init_kind: str = "CUDA"
    backends: dict[str, str] = field(default_factory=dict)
    load: Load = field(default_factory=Load)
    past: deque[PastLoad] = field(default_factory=lambda: deque(maxlen=KEPT_LOADS))
    warnings: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    counts: dict[str, tuple[int, str]] = field(default_factory=dict)
    cpu: FactsByName = field(default_factory=dict)
    memory: FactsByName = field(default_factory=dict)
    recognised: int = 0
    strong: int = 0
    prompt_tokens: int | None = None  # Of the request that was begun last
    seconds: float | None = None
    clock: str = ""
    before: "Reading | None" = None

    def start_process(self) -> None:
        """A line that only a starting process prints: what was known belongs to the one before."""
        if self.load.placed:
            self.before = replace(self, before=None, past=self.past.copy())
            self.past.append(self._past())
            self.process, self.devices, self.devices_listed, self.backends = {}, {}, "", {}
            self.load = Load()

    def last_told(self) -> "Reading":
        """The last process that tells of a load; what a later line says of the program alone is said of it too."""
        load = self.load
        tells = load.placed or load.facts or load.completions or load.rates or load.models or load.failure
        if self.before is None or tells:
            return self
        process = {**self.before.process, **self.process}
        return replace(self.before, process=process, recognised=self.recognised, strong=self.strong)

    def read_clock(self, line: str) -> None:
        """The server's own clock, which counts from its start, and whatever date stands before it."""
        if clock := _CLOCK.search(line):
            minutes, seconds, milli, micro = (int(part) for part in clock.groups())
            self.seconds = minutes * 60 + seconds + milli / 1e3 + micro / 1e6
        if date := _DATE.search(line[:200]):
            self.clock = date[0]

    def start_load(self, line: str, where: str) -> None:
        if self.load.placed:
            self.past.append(self._past())
        self.read_clock(line)
        self.load = Load(started_s=self.seconds, started_at=self.clock, where=where)

    def loads(self) -> list[PastLoad]:
        present = [self._past()] if self.load.placed else []
        return [*self.past, *present]

    def count(self, needle: str, more: int, where: str = "") -> None:
        """`more` lines of a kind that is counted."""
        before, last = self.counts.get(needle, (0, ""))
        self.counts[needle] = (before + more, where or last)

    def _past(self) -> PastLoad:
        load, main = self.load, self.load.main_model()
        context = main.main_context().facts
        # What all devices had free before the load, where each of them says so
        known = [device.free_bytes for device, _ in self.devices.values() if isinstance(device.free_bytes, Known)]
        free: Fact[int] = NOT_LOOKED
        if known and len(known) == len(self.devices):
            free = reported_fact(sum(fact.value for fact in known), known[0].source)
        return PastLoad(
            at=load.started_at,
            model=main.model.get("path") or main.model.get("name") or NOT_LOOKED,
            context_length=context.get("context_length", NOT_LOOKED),
            gpu_layers=main.runtime.get("gpu_layers", NOT_LOOKED),
            layers=main.runtime.get("layers", NOT_LOOKED),
            free_bytes=load.facts.get("available_bytes", free),
            asked_bytes=load.facts.get("asked_bytes", NOT_LOOKED),
            seconds=load.facts.get("load_s", NOT_LOOKED),
            source=load.where or next((fact.source for fact in main.model.values()), ""),
        )


def keep(store: MutableMapping[K, V], key: K, value: V) -> None:
    """Remember the last value of a key, of a limited number of keys."""
    if key in store or len(store) < KEPT_NAMES:
        store[key] = value
