"""What one pass over a llama.cpp log remembers: the process, its current load, the models and their contexts.

Every store is bounded, so that a log of any size, or one made up to hurt, costs the same memory.
"""

import re
from collections import deque
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from unslow.facts.run import Completion
from unslow.facts.runtime import AllocationFailure, Buffer, SeenDevice
from unslow.facts.values import Known

K = TypeVar("K")
V = TypeVar("V")
FactsByName = dict[str, Known[Any]]

KEPT_COMPLETIONS = 1000
KEPT_NAMES = 256


class Rule(NamedTuple):
    """A kind of line: a text that it must hold, what to read from it, and what that means."""

    needle: str
    pattern: re.Pattern[str]
    take: Callable[["Reading", re.Match[str], str], None]


class SeenBuffer(NamedTuple):
    """A buffer and the line that names it."""

    buffer: Buffer
    where: str


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
    buffers: dict[tuple[str, ...], SeenBuffer] = field(default_factory=dict)
    caches: dict[str, Cache] = field(default_factory=dict)
    section: str = ""

    def kv_bytes(self) -> int:
        """What its caches take."""
        return sum(cache.bytes for cache in self.caches.values())


@dataclass
class ModelLoad:
    """One model file being loaded: its description, where its weights went, its contexts."""

    path: str = ""
    model: FactsByName = field(default_factory=dict)
    runtime: FactsByName = field(default_factory=dict)
    weights: dict[tuple[str, ...], SeenBuffer] = field(default_factory=dict)
    context: Context = field(default_factory=Context)
    largest: Context | None = None
    overridden: bool = False

    def next_context(self) -> None:
        """Start another context; a side context (of multi-token prediction, say) must not hide the main one."""
        self.largest = self.main_context()
        self.context = Context()

    def main_context(self) -> Context:
        """The context with the largest cache, the last of equals."""
        if self.largest is None or self.context.kv_bytes() >= self.largest.kv_bytes():
            return self.context
        return self.largest

    def layers(self) -> int:
        """All layers by the offload line; 0 where it is missing."""
        fact = self.runtime.get("layers")
        return int(fact.value) if fact else 0


@dataclass
class Load:
    """From one "loading model" to the next: the fit, the main model and any draft, the outcome and the requests."""

    facts: FactsByName = field(default_factory=dict)
    overflow: dict[str, tuple[int, str]] = field(default_factory=dict)
    models: dict[str, ModelLoad] = field(default_factory=dict)
    current: ModelLoad = field(default_factory=ModelLoad)
    started_s: float | None = None
    failure: AllocationFailure | None = None
    failure_where: str = ""
    completions: deque[Completion] = field(default_factory=lambda: deque(maxlen=KEPT_COMPLETIONS))
    completions_where: str = ""
    prompt: tuple[int, float] = (0, 0.0)
    placed: bool = False

    def open_model(self, path: str) -> None:
        """A file is read: again after the fit's dry run (then the later one counts), or a draft beside the main one."""
        self.current = ModelLoad(path)
        keep(self.models, path, self.current)

    def main_model(self) -> ModelLoad:
        """The model with most layers; a draft has fewer."""
        return max((self.current, *self.models.values()), key=ModelLoad.layers)


@dataclass
class Reading:
    """Everything known after the lines so far."""

    process: FactsByName = field(default_factory=dict)
    devices: dict[str, tuple[SeenDevice, str]] = field(default_factory=dict)
    devices_listed: str = ""
    init_kind: str = "CUDA"
    backends: dict[str, str] = field(default_factory=dict)
    load: Load = field(default_factory=Load)
    recognised: int = 0
    seconds: float | None = None

    def start_process(self) -> None:
        """A line that only a starting process prints: what was known belongs to the one before."""
        if self.load.placed:
            self.process, self.devices, self.devices_listed, self.backends = {}, {}, "", {}
            self.load = Load()

    def start_load(self) -> None:
        """The process loads a model (again)."""
        self.load = Load(started_s=self.seconds)


def keep(store: MutableMapping[K, V], key: K, value: V) -> None:
    """Remember the last value of a key, of so many keys at most."""
    if key in store or len(store) < KEPT_NAMES:
        store[key] = value
