"""A load as the lines tell of it: the models that were read, their contexts, caches and buffers.

Every store is bounded, so that a log of any size, or one made up to hurt, costs the same memory.
"""

from collections import deque
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from unslow.facts.run import Completion
from unslow.facts.runtime import AllocationFailure, Buffer
from unslow.facts.values import Known

K = TypeVar("K")
V = TypeVar("V")
FactsByName = dict[str, Known[Any]]

KEPT_COMPLETIONS = 1000
KEPT_NAMES = 256


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
    repeating: int = 0
    """Layers on the GPU without the output, as a line of its own counts them."""
    dry: bool = False
    """Only looked at by the fit, so nothing of it was allocated."""

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

    def open_model(self, path: str) -> None:
        """A file is read: again after the fit's dry run (then the later one counts), or a draft beside the main one."""
        self.current = ModelLoad(path)
        keep(self.models, path, self.current)

    def told(self) -> bool:
        """Whether any line spoke of it."""
        return bool(self.facts or self.completions or self.rates or self.models or self.failure)

    def has_context(self, path: str) -> bool:
        """Whether this file was loaded already, for real and to its end."""
        model = self.models.get(path)
        return model is not None and not model.dry and bool(model.main_context().caches)

    def main_model(self) -> ModelLoad:
        """The model with most layers; a draft has fewer."""
        return max((self.current, *self.models.values()), key=ModelLoad.layers)


def keep(store: MutableMapping[K, V], key: K, value: V) -> None:
    """Remember the last value of a key, of so many keys at most."""
    if key in store or len(store) < KEPT_NAMES:
        store[key] = value
