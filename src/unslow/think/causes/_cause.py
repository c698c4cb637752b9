"""What a cause is: its question, the facts that decide it, the ways to find it, how it asks for what is missing.

And its answers.
"""

from collections.abc import Callable
from functools import lru_cache
from operator import attrgetter
from typing import Any, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import fields

from unslow.facts.knob import Change
from unslow.facts.snapshot import Case
from unslow.facts.values import Absence, Known, MissingFactError, Unknown, not_found
from unslow.think.case.instructions import container_of, system_of
from unslow.think.case.narrative import is_report
from unslow.think.case.placement import uses_no_gpu
from unslow.think.case.runtime import runs_ggml
from unslow.think.case.work import Cure
from unslow.think.report import Cost, Evidence

Citations = tuple[Evidence, ...]
"""The facts that show something, as they are shown themselves."""
Phase = Literal["client", "queue", "load", "prefill", "decode"]


class Remedy(NamedTuple):
    """A knob to turn, and what physics should then reckon with; None where it can't say."""

    change: Change
    cure: Cure | None = None
    risk: str = ""


class Found(NamedTuple):
    """The cause is there: why, the facts that show it, what is different without it, what to change.

    `explains` narrows or widens what the cause explains in general, where the facts of the case decide that.
    `speedup` is how many times faster it was without the cause, where somebody tried: an experiment beats physics.
    `lost` is what the cause costs where that was measured itself, such as the seconds that a request waits.
    """

    because: str
    evidence: Citations
    cure: Cure | None = None
    remedies: tuple[Remedy, ...] = ()
    explains: tuple[str, ...] | None = None
    speedup: float | None = None
    sure: bool = False  # Whether it stands beside other causes, though it is a last resort
    lost: Cost | None = None
    apart: bool = False
    """Whether what it costs is no part of the time of its phase, as it was measured: then nothing else shares it."""


class Absent(NamedTuple):
    """The cause is not there, and why that is sure."""

    because: str


class Suspected(NamedTuple):
    """Something speaks for the cause, and the fact that would decide it is missing."""

    because: str
    missing: str
    how_to_get: str


class CannotTell(NamedTuple):
    """A fact that decides is missing, and how to get it; `suspected` says what speaks for the cause all the same."""

    missing: str
    why: str
    how_to_get: str
    suspected: str = ""


Need = str | tuple[str, ...]


class Cause(NamedTuple):
    """One reason for slow inference. A need that is a tuple is met by any one of its facts.

    `gpu_only` causes are ruled out on a machine without a GPU before anything else is asked, those of what is `on_gpu`
    where the runtime uses none, and `ggml_only` ones in runtimes that do nothing of the kind. Of a load that failed
    only what `fails_load` matters. `ask` is the command that gets what decides, where the fact itself has no advice. A
    `last_resort` stands only where nothing else was found.
    """

    title: str
    phase: Phase
    needs: tuple[Need, ...]
    check: Callable[[Case], Found | Absent | Suspected]
    explains: tuple[str, ...] = ()
    gpu_only: bool = False
    ask: str = ""
    last_resort: bool = False
    on_gpu: bool = False
    fails_load: bool = False
    ggml_only: bool = False
    not_on: tuple[str, ...] = ()
    """Systems that have nothing of the kind, unless it is in a container, which is a Linux of its own."""


def ruled_out_at_once(case: Case, cause: Cause) -> Absent | None:
    """The reason for which a cause is no question here, whatever else is known."""
    if cause.gpu_only and isinstance(case.machine.gpus, Known) and not case.machine.gpus.value:
        return Absent("no GPU in this machine")
    if not cause.fails_load and case.runtime.state.value_or("") == "failed" and not is_report(case):
        return Absent("the model was never loaded, so there is no speed to explain")
    if cause.ggml_only and runs_ggml(case) is False and not is_report(case):
        return Absent(f"{case.runtime.name.value_or('this runtime')} does nothing of the kind")
    if cause.not_on and system_of(case) in cause.not_on and not container_of(case) and not is_report(case):
        return Absent(f"{system_of(case)} has nothing of the kind")
    if cause.on_gpu and uses_no_gpu(case):
        return Absent("the runtime uses no GPU")
    return None


def fact_at(case: Case, path: str) -> Any:
    """The fact at a dotted path, through known lists by index; an Unknown on the way is the answer."""
    plain = _plainly(path)
    return plain(case) if plain else _step_by_step(case, path)


@lru_cache(maxsize=1024)  # the paths that causes name, which every judgement walks again
def _plainly(path: str) -> Callable[[Case], Any] | None:
    """How a path is walked that has no fact before its end; None of one that has."""
    kind: Any = Case
    for step in path.split(".")[:-1]:
        kind = next((field.type for field in fields(kind) if field.name == step), None)
        if not isinstance(kind, type) or not issubclass(kind, Struct) or issubclass(kind, Unknown):
            return None
    return attrgetter(path)


def _step_by_step(case: Case, path: str) -> Any:
    value: Any = case
    for step in _steps(path):
        if isinstance(value, Unknown):
            return value
        if isinstance(value, Known):
            value = value.value
        if isinstance(step, str):
            value = getattr(value, step)
        elif step < len(value):
            value = value[step]
        else:
            return not_found(f"there is no {path}")
    return value


@lru_cache(maxsize=1024)
def _steps(path: str) -> tuple[str | int, ...]:
    return tuple(int(step) if step.isdigit() else step for step in path.split("."))


def missing_need(case: Case, needs: tuple[Need, ...]) -> CannotTell | None:
    """The first need that the case does not meet."""
    for need in needs:
        paths = (need,) if isinstance(need, str) else need
        facts = [fact_at(case, path) for path in paths]
        if all(isinstance(fact, Unknown) for fact in facts):
            # of several, the one whose looker left the best advice
            best = max(facts, key=lambda fact: (bool(fact.how_to_get), fact.absence is not Absence.NOT_LOOKED))
            return CannotTell(" or ".join(paths), best.why, best.how_to_get)
    return None


Route = Callable[[Case], Found | Absent | Suspected | None]
"""One way to look at a cause: None where it has nothing to say, MissingFactError where it lacks a fact."""


def check_by(*routes: Route) -> Callable[[Case], Found | Absent | Suspected]:
    """The check of a cause that is looked at in several ways."""
    return lambda case: first_to_decide(case, *routes)


def first_to_decide(case: Case, *routes: Route) -> Found | Absent | Suspected:
    """The answer of the first way that decides; else the first suspicion; else what the first way lacks."""
    suspected, lacking = None, None
    for route in routes:
        try:
            answer = route(case)
        except MissingFactError as error:
            lacking = lacking or error
            continue
        if isinstance(answer, Found | Absent):
            return answer
        suspected = suspected or answer
    if suspected:
        return suspected
    raise lacking or MissingFactError(Unknown("nothing that was seen speaks of it"))
