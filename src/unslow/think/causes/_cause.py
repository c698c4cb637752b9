"""What a cause is: its question, the facts that decide it, the ways to find it, how it asks for what is missing.

And its answers.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from operator import attrgetter
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import fields

from unslow.facts.account import Comparison, Remark
from unslow.facts.knob import Change
from unslow.facts.snapshot import Case
from unslow.facts.values import MIB, Absence, Known, MissingFactError, Origin, Unknown, not_found
from unslow.think.case.demand import missing
from unslow.think.case.gpus import LoadedGpu, loaded_gpus
from unslow.think.case.instructions import container_of, spelled_out, system_of
from unslow.think.case.narrative import is_report
from unslow.think.case.placement import uses_no_gpu
from unslow.think.case.prediction import measured_rate, predict
from unslow.think.case.runtime import runs_ggml
from unslow.think.case.slowness import generates_slowly
from unslow.think.case.vram import is_gpu, own_is_known
from unslow.think.case.work import Cure
from unslow.think.report import Cost, Evidence

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
    evidence: tuple[Evidence, ...]
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


def need(case: Case, path: str) -> Any:
    """The value at a path; a missing one makes the verdict "cannot tell", by name."""
    fact = fact_at(case, path)
    if isinstance(fact, Unknown):
        raise MissingFactError(fact, path)
    return fact.value if isinstance(fact, Known) else fact


def cite(case: Case, path: str, reference: object = None) -> Evidence:
    """A known fact as evidence, with what it was held against."""
    fact = fact_at(case, path)
    origin, source = (str(fact.origin), fact.source) if isinstance(fact, Known) else ("reported", "")
    value = fact.value if isinstance(fact, Known) else fact
    plain = value if isinstance(value, str | int | float | bool) else _worded(value)
    return Evidence(
        fact=path, value=plain, reference=None if reference is None else str(reference), origin=origin, source=source
    )


def _worded(value: object) -> str:
    """A fact that is more than one value, in words; a list or a table of plain values as Python writes it."""
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    if items and not any(isinstance(item, Struct) for item in items):
        return str(value)
    if isinstance(value, dict):
        return "; ".join(f"{name}: {_worded(item)}" for name, item in value.items())
    if isinstance(value, list | tuple):
        return "; ".join(_worded(item) for item in value)
    if isinstance(value, Known):
        return _worded(value.value)
    if not isinstance(value, Struct):
        return str(value)
    pairs = [(name, getattr(value, name)) for name in value.__struct_fields__]
    told = [(name, fact.value if isinstance(fact, Known) else fact) for name, fact in pairs]
    return ", ".join(_named(name, fact) for name, fact in told if fact not in (None, "", False, (), []))


def _named(name: str, value: object) -> str:
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
            return f"{words}: {_worded(value)}"


def missing_need(case: Case, needs: tuple[Need, ...]) -> CannotTell | None:
    """The first need that the case does not meet."""
    for need in needs:
        paths = (need,) if isinstance(need, str) else need
        facts: list[Unknown] = []
        for path in paths:
            fact = fact_at(case, path)
            if not isinstance(fact, Unknown):
                break
            facts.append(fact)
        else:
            # of several, the one whose looker left the best advice
            best = max(facts, key=_advice) if len(facts) > 1 else facts[0]
            return CannotTell(" or ".join(paths), best.why, best.how_to_get)
    return None


def _advice(fact: Unknown) -> tuple[bool, bool]:
    return bool(fact.how_to_get), fact.absence is not Absence.NOT_LOOKED


def free_before_load(case: Case) -> tuple[Evidence, ...]:
    """What the runtime itself saw free on its first GPU, where it says so."""
    devices = case.runtime.devices.value_or([])
    index = next((i for i, d in enumerate(devices) if is_gpu(d) and isinstance(d.free_bytes, Known)), None)
    return () if index is None else (cite(case, f"runtime.devices.{index}.free_bytes", "free before the load"),)


Route = Callable[[Case], Found | Absent | Suspected | None]
"""One way to look at a cause: None where it has nothing to say, MissingFactError where it lacks a fact."""


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


def if_slow(case: Case, evidence: Evidence, remedy: Remedy, suspected: Suspected) -> Found | Absent | Suspected:
    """A known mechanism is the cause where it is slow, and no more than a suspicion where nobody can tell."""
    slow = True if is_report(case) else generates_slowly(case)
    if slow is None:
        return suspected
    cured = remedy._replace(cure=None if is_report(case) else Cure())
    return (
        Found(suspected.because, (evidence,), cured.cure, (cured,)) if slow else Absent("it is as fast as it should be")
    )


def cite_remarks(case: Case, remarks: Iterable[Remark]) -> tuple[Evidence, ...]:
    """What a person says they saw, as evidence, each once."""
    texts = {remark.text: remark for remark in remarks}
    return tuple(_item("account.remarks", text, case.account.remarks, r.source) for text, r in texts.items())


def cite_comparison(case: Case, comparison: Comparison) -> Evidence:
    """Two speeds as evidence."""
    text = comparison.text or f"{comparison.slow:g} against {comparison.fast:g}"
    return _item("account.comparisons", text, case.account.comparisons, comparison.source)


def _item(fact: str, text: str, known: Known[Any] | Unknown, source: str) -> Evidence:
    origin = known.origin if isinstance(known, Known) else Origin.TOLD
    return Evidence(fact=fact, value=text, reference=None, origin=str(origin), source=source)


def ask_for(case: Case, path: str, how_to_get: str) -> Any:
    """The value at a path; where it is missing, what its looker advises, else this command."""
    fact = fact_at(case, path)
    if isinstance(fact, Unknown) and not fact.how_to_get:
        raise MissingFactError(msgspec.structs.replace(fact, how_to_get=how_to_get), path)
    return need(case, path)


def at_work(case: Case) -> list[LoadedGpu]:
    """The runtime's GPUs while they compute; none where they were watched and idle."""
    ask_for(case, "machine.gpus", gpu_state(case))
    loaded = loaded_gpus(case)
    if not loaded:
        ask_for(case, "run.gpus", gpu_state(case))
    return loaded


def must_be_slow(case: Case) -> bool:
    """Whether tokens come slower than they should; MissingFactError names what it lacks to tell."""
    slow = generates_slowly(case)
    if slow is not None:
        return slow
    expected = predict(case)
    if isinstance(measured_rate(case), Known) and isinstance(expected, Unknown):
        raise MissingFactError(expected)
    ask_for(case, "run.decode_tokens_per_s", own_speed(case))
    return False


def gpu_state(case: Case) -> str:
    """The command that shows clocks, power, temperature and link of the GPU at hand, while it generates."""
    return spelled_out("while it generates: {gpu_state}", case)


def own_speed(case: Case) -> str:
    """The command that makes the runtime tell its own speed."""
    return spelled_out("{own_speed}", case)


def must_tell_own(case: Case, how_to_get: str) -> None:
    """Without the runtime told from the other processes on its GPUs, nothing can be said of strangers."""
    if own_is_known(case):
        return
    need(case, "runtime.pid")
    raise missing("which process on the GPU is the runtime: its number is of another namespace", how_to_get)
