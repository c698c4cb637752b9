"""Everything that may be asked about a case, in groups: `case.placement`, `case.vram`, `case.speed` and others.

One view serves one judgement. An answer is worked out when first asked for and kept as long as the view. A fact is
read from `case.machine`, `.runtime`, `.model`, `.run` and `.account`, by attribute or by its path.
"""

from collections.abc import Callable, Iterator
from functools import cached_property, lru_cache
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import fields

from unslow.facts.runtime import FACT_PATHS
from unslow.facts.snapshot import Case, Snapshot
from unslow.facts.values import MIB, Known, MissingFactError, Origin, Unknown, not_found
from unslow.think.case.cure import Cure
from unslow.think.case.engine import EngineView
from unslow.think.case.gpus import GpuView
from unslow.think.case.group import Citations
from unslow.think.case.host import HostView
from unslow.think.case.memory import MemoryView
from unslow.think.case.narrative import NarrativeView
from unslow.think.case.physics import PhysicsView
from unslow.think.case.placement import PlacementView
from unslow.think.case.samplers import SamplerView
from unslow.think.case.sharing import SharingView
from unslow.think.case.software_renderer import on_the_host, without_renderers
from unslow.think.case.speed import SpeedView
from unslow.think.case.system import SystemView
from unslow.think.case.telemetry import TelemetryView
from unslow.think.case.vram import VramView
from unslow.think.case.waits import WaitView
from unslow.think.report import Evidence


class CaseView:
    """One subject on its machine, with what follows from its facts."""

    system = cached_property(SystemView)
    engine = cached_property(EngineView)
    gpus = cached_property(GpuView)
    vram = cached_property(VramView)
    host = cached_property(HostView)
    memory = cached_property(MemoryView)
    placement = cached_property(PlacementView)
    telemetry = cached_property(TelemetryView)
    narrative = cached_property(NarrativeView)
    waits = cached_property(WaitView)
    physics = cached_property(PhysicsView)
    speed = cached_property(SpeedView)
    sharing = cached_property(SharingView)
    samplers = cached_property(SamplerView)

    def __init__(self, facts: Case) -> None:
        self.facts = facts
        self.machine, self.runtime = without_renderers(facts.machine), on_the_host(facts.runtime)
        self.model = facts.model
        self.run, self.account, self.wish = facts.run, facts.account, facts.wish
        self.contradictions, self.calibrations, self.taken_at = facts.contradictions, facts.calibrations, facts.taken_at
        self._cured: dict[Cure, CaseView] = {}

    def fact(self, path: str) -> Any:
        """The fact at a dotted path, through known lists by index; an Unknown on the way is the answer."""
        plain = _getter_of(path)
        try:
            return plain(self) if plain else _walk(self, path)
        except AttributeError as error:
            name = path.rpartition(".")[2]
            meant = f": did you mean runtime.{FACT_PATHS[name]}?" if name in FACT_PATHS else ""
            raise AttributeError(f"there is no fact {path}{meant} (docs/reference/facts.md lists all)") from error

    def need(self, path: str) -> Any:
        """The value at a path; a missing one makes the verdict "cannot tell", by name."""
        fact = self.fact(path)
        if isinstance(fact, Unknown):
            raise MissingFactError(fact, path)
        return fact.value if isinstance(fact, Known) else fact

    def ask_for(self, path: str, how_to_get: str) -> Any:
        """The value at a path; where it is missing and the fact has no advice of its own, this is how to get it."""
        fact = self.fact(path)
        if isinstance(fact, Unknown) and not fact.how_to_get:
            raise MissingFactError(msgspec.structs.replace(fact, how_to_get=how_to_get), path)
        return self.need(path)

    def cite(self, path: str, reference: object = None, words: str | None = None) -> Evidence:
        """A known fact as evidence, with what it was held against; `words` say what matters of one with many parts."""
        fact = self.fact(path)
        origin, source = (str(fact.origin), fact.source) if isinstance(fact, Known) else ("reported", "")
        value = fact.value if isinstance(fact, Known) else fact
        if words is not None:
            value = words
        elif not isinstance(value, str | int | float | bool):
            value = _in_words(value)
        held_against = None if reference is None else str(reference)
        return Evidence(fact=path, value=value, reference=held_against, origin=origin, source=source)

    def cite_known(self, *paths: str, reference: object = None) -> Citations:
        """Those of these facts that are known, as evidence."""
        return tuple(self.cite(path, reference) for path in paths if isinstance(self.fact(path), Known))

    def replace(self, **facts: Any) -> "CaseView":
        """A view of the same case with other facts."""
        return CaseView(msgspec.structs.replace(self.facts, **facts))

    def at_depth(self, tokens: int) -> "CaseView":
        """The case as if it had been measured that far into the context."""
        depth = Known(tokens, Origin.MEASURED, "run.depths")
        return self.replace(run=msgspec.structs.replace(self.run, depth_tokens=depth))

    @cached_property
    def without_cpu_quota(self) -> "CaseView":
        """The case as if its processes could use all of the CPUs' time."""
        none = not_found("no quota")
        cpu = msgspec.structs.replace(self.machine.cpu, quota_cpus=none)
        machine = msgspec.structs.replace(self.machine, cpu=cpu)
        return self.replace(machine=machine, runtime=self.runtime.with_facts(quota_cpus=none))

    def with_cure(self, cure: Cure) -> "CaseView":
        """The case with the settings that a cure changes."""
        if cure not in self._cured:
            changed = self._settings_of(cure)
            self._cured[cure] = self.replace(runtime=self.runtime.with_facts(**changed)) if changed else self
        return self._cured[cure]

    def _settings_of(self, cure: Cure) -> dict[str, Known[Any]]:
        runtime, values = self.runtime, dict[str, Any]()
        for name, value in (("threads", cure.threads), ("ubatch", cure.ubatch)):
            if value:
                values[name] = int(value)
        if cure.ubatch and runtime.compute.batch.value_or(0) < cure.ubatch and isinstance(runtime.compute.batch, Known):
            values["batch"] = values["ubatch"]  # which no micro-batch exceeds
        if cure.quota_cpus and cure.quota_cpus > self.host.quota[0].value_or(cure.quota_cpus):
            values["quota_cpus"] = cure.quota_cpus
        if cure.flash_attention:
            values["flash_attention"] = True
        if cure.best_split:
            values["buffers"] = self.gpus.rebalanced_buffers
        if (cure.one_gpu or cure.by_layers) and isinstance(runtime.placement.tensor_parallel, Known):
            # No layer is cut, over so many times the stages that there are
            stages = 1 if cure.one_gpu else runtime.placement.tensor_parallel.value
            values["tensor_parallel"] = 1
            values["pipeline_parallel"] = stages * runtime.placement.pipeline_parallel.value_or(1) if stages > 1 else 1
        # Where kernels are not launched one by one, a cure leaves the case as it is
        by_default = "transformers" in runtime.name.value_or("").lower()
        if cure.graphs and runtime.compute.eager.value_or(default=by_default):
            values["eager"] = False
        if cure.graphs and self.engine.graphs_without_attention and not self.engine.leaves_attention_out_by_default:
            values["graphs_without_attention"] = False
        return {name: Known(value, Origin.ESTIMATED, "cured") for name, value in values.items()}


def views_of(snapshot: Snapshot) -> Iterator[CaseView]:
    """A view of each subject of a snapshot."""
    return map(CaseView, snapshot.cases())


@lru_cache(maxsize=1024)  # the paths that causes name, which every judgement walks again
def _getter_of(path: str) -> Callable[[CaseView], Any] | None:
    """How a path is read that has no fact before its end; None of one that has."""
    kind: Any = Case
    for step in path.split(".")[:-1]:
        kind = next((field.type for field in fields(kind) if field.name == step), None)
        if not isinstance(kind, type) or not issubclass(kind, Struct) or issubclass(kind, Unknown):
            return None
    return attrgetter(path)


def _walk(case: CaseView, path: str) -> Any:
    value: Any = case
    for step in path.split("."):
        if isinstance(value, Unknown):
            return value
        if isinstance(value, Known):
            value = value.value
        if not step.isdigit():
            value = getattr(value, step)
        elif int(step) < len(value):
            value = value[int(step)]
        else:
            return not_found(f"there is no {path}")
    return value


def _in_words(value: object) -> str:
    """A fact that is more than one value, in words; a list or a table of plain values as Python writes it."""
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    if items and not any(isinstance(item, Struct) for item in items):
        return str(value)
    if isinstance(value, dict):
        return "; ".join(f"{name}: {_in_words(item)}" for name, item in value.items())
    if isinstance(value, list | tuple):
        return "; ".join(_in_words(item) for item in value)
    if isinstance(value, Known):
        return _in_words(value.value)
    if not isinstance(value, Struct):
        return str(value)
    pairs = [(name, getattr(value, name)) for name in value.__struct_fields__]
    known = [(name, fact.value if isinstance(fact, Known) else fact) for name, fact in pairs]
    return ", ".join(_with_unit(name, fact) for name, fact in known if fact not in (None, "", False, (), []))


def _with_unit(name: str, value: object) -> str:
    """A field of a fact with its name and unit."""
    words = name.replace("_", " ")
    match value:
        case str():
            return value
        case True:
            return words
        case int() | float() if name.endswith("bytes"):
            return f"{words.removesuffix('bytes').strip()} {value / MIB:,.1f} MiB".strip()
        case int() | float() if name.endswith("_s") and not name.endswith("_per_s"):
            return f"{words.removesuffix(' s')} {value * 1000:,.1f} ms"
        case int() | float():
            return f"{value:,.6g} {words}" if abs(value) < 1e6 else f"{value:,.0f} {words}"  # noqa: PLR2004
        case _:
            return f"{words}: {_in_words(value)}"
