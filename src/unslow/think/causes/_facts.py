"""The facts of a case as causes use them: asked for by path, so that a missing one is named, and cited as evidence."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from unslow.facts.account import Comparison, Remark
from unslow.facts.snapshot import Case
from unslow.facts.values import MIB, Known, MissingFactError, Origin, Unknown
from unslow.think.case.demand import missing
from unslow.think.case.gpus import LoadedGpu, loaded_gpus
from unslow.think.case.narrative import gain_of, times_as_fast
from unslow.think.case.prediction import Prediction, measured_rate, predict
from unslow.think.case.slowness import generates_slowly
from unslow.think.case.vram import gpu_places, gpus_used, is_gpu, own_is_known
from unslow.think.case.work import Cure
from unslow.think.causes._cause import Citations, Found, Remedy, fact_at
from unslow.think.report import Evidence

GPU_STATE = "while it generates: {gpu_state}"  # Clocks, power, temperature and link of the GPU at hand
OWN_SPEED = "{own_speed}"  # What makes the runtime tell its own speed
Reading = TypeVar("Reading")


def need(case: Case, path: str) -> Any:
    """The value at a path; a missing one makes the verdict "cannot tell", by name."""
    fact = fact_at(case, path)
    if isinstance(fact, Unknown):
        raise MissingFactError(fact, path)
    return fact.value if isinstance(fact, Known) else fact


def ask_for(case: Case, path: str, how_to_get: str) -> Any:
    """The value at a path; where it is missing, what its looker advises, else this command."""
    fact = fact_at(case, path)
    if isinstance(fact, Unknown) and not fact.how_to_get:
        raise MissingFactError(msgspec.structs.replace(fact, how_to_get=how_to_get), path)
    return need(case, path)


def if_known(read: Callable[[Case], Reading], case: Case) -> Reading | None:
    """What a reading of the case gives; None where it lacks a fact."""
    try:
        return read(case)
    except MissingFactError:
        return None


def cite(case: Case, path: str, reference: object = None, words: str | None = None) -> Evidence:
    """A known fact as evidence, with what it was held against; `words` say what matters of one with many parts."""
    fact = fact_at(case, path)
    origin, source = (str(fact.origin), fact.source) if isinstance(fact, Known) else ("reported", "")
    value = fact.value if isinstance(fact, Known) else fact
    if words is not None:
        value = words
    elif not isinstance(value, str | int | float | bool):
        value = _worded(value)
    held_against = None if reference is None else str(reference)
    return Evidence(fact=path, value=value, reference=held_against, origin=origin, source=source)


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


def cite_known(case: Case, *paths: str, reference: object = None) -> Citations:
    """Those of these facts that are known, as evidence."""
    return tuple(cite(case, path, reference) for path in paths if isinstance(fact_at(case, path), Known))


def cite_remarks(case: Case, remarks: Iterable[Remark]) -> Citations:
    """What a person says they saw, as evidence, each once."""
    texts = {remark.text: remark for remark in remarks}
    return tuple(_item("account.remarks", text, case.account.remarks, r.source) for text, r in texts.items())


def cite_comparison(case: Case, comparison: Comparison) -> Evidence:
    """Two speeds as evidence."""
    text = comparison.text or f"{comparison.slow:g} against {comparison.fast:g}"
    return _item("account.comparisons", text, case.account.comparisons, comparison.source)


def found_by_trial(case: Case, trial: Comparison, what: str, *remedies: Remedy, cure: Cure | None = None) -> Found:
    """Somebody tried: `what` is the fast side, as in "with more power it"."""
    because = f"{what} is {times_as_fast(trial)}"
    return Found(because, (cite_comparison(case, trial),), cure, remedies, speedup=gain_of(trial))


def _item(fact: str, text: str, known: Known[Any] | Unknown, source: str) -> Evidence:
    origin = known.origin if isinstance(known, Known) else Origin.TOLD
    return Evidence(fact=fact, value=text, reference=None, origin=str(origin), source=source)


def free_before_load(case: Case) -> Citations:
    """What the runtime itself saw free on its first GPU, where it says so."""
    devices = case.runtime.devices.value_or([])
    index = next((i for i, d in enumerate(devices) if is_gpu(d) and isinstance(d.free_bytes, Known)), None)
    return () if index is None else (cite(case, f"runtime.devices.{index}.free_bytes", "free before the load"),)


def at_work(case: Case) -> list[LoadedGpu]:
    """The runtime's GPUs while they compute; none where they were watched and idle."""
    ask_for(case, "machine.gpus", GPU_STATE)
    loaded = loaded_gpus(case)
    if not loaded:
        ask_for(case, "run.gpus", GPU_STATE)
    return loaded


def ask_gpu_state(case: Case, *paths: str) -> None:
    """What the driver shows of a GPU while it generates must be known."""
    for path in paths:
        ask_for(case, path, GPU_STATE)


def must_be_slow(case: Case) -> bool:
    """Whether tokens come slower than they should; MissingFactError names what it lacks to tell."""
    slow = generates_slowly(case)
    if slow is not None:
        return slow
    if isinstance(measured_rate(case), Known):
        must_predict(case)
    ask_for(case, "run.decode_tokens_per_s", OWN_SPEED)
    return False


def must_predict(case: Case, cure: Cure | None = None) -> Prediction:
    """What a token should take; MissingFactError names what it lacks to tell."""
    expected = predict(case, cure)
    if isinstance(expected, Unknown):
        raise MissingFactError(expected)
    return expected


def places_used(case: Case) -> list[int]:
    """Where the GPUs stand in the machine's list that the runtime uses."""
    return [place for place, gpu in gpu_places(case) if gpu in gpus_used(case)]


def must_list_processes(case: Case) -> None:
    """Without the list of every GPU in use, nothing can be said of strangers."""
    for place in places_used(case) or [0]:
        need(case, f"machine.gpus.{place}.processes")


def must_tell_own(case: Case, how_to_get: str) -> None:
    """Without the runtime told from the other processes on its GPUs, nothing can be said of strangers."""
    if own_is_known(case):
        return
    need(case, "runtime.pid")
    raise missing("which process on the GPU is the runtime: its number is of another namespace", how_to_get)
