"""Who runs what: the subjects out of what several dialects say."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from unslow.facts.machine import Machine
from unslow.facts.merge import overlaid
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import Fact, Known, Origin, first_known
from unslow.look.contradictions import added, contradictions

_INNER = "llama.cpp"
_AROUND_LLAMA_CPP = ("Ollama", "LM Studio", "KoboldCpp", "llama-swap")
_OUTER_FACTS = ("name", "version", "url", "loads")
"""What is said of the inner program by these is not true of the outer one, which alone knows the file of each load."""


def merged_subjects(subjects: Iterable[Subject]) -> tuple[Subject, ...]:
    """One for each runtime that the text tells of; lines of llama.cpp in another program's log belong to that one."""
    named: dict[str, Subject] = {}
    nameless = Subject()
    for subject in subjects:
        name = subject.runtime.name.value_or("")
        if name:
            named[name] = merged_subject(named[name], subject) if name in named else subject
        else:
            nameless = merged_subject(nameless, subject)
    found = _nested(named)
    if not found:
        return () if nameless == Subject() else (nameless,)
    # what nobody claims is said of the only runtime, or of the one that most is known of
    first, *others = sorted(found, key=_known_facts, reverse=True)
    return (merged_subject(nameless, first), *others)


def _known_facts(subject: Subject) -> int:
    runtime = subject.runtime
    return sum(isinstance(getattr(runtime, name), Known) for name in runtime.__struct_fields__)


def contradicted(subject: Subject, said: Sequence[Subject], machine: Machine, subjects: int) -> Subject:
    """The subject with where those who speak of it, in the order of asking and answering, can't all be right."""
    name = subject.runtime.name.value_or("")
    names = {name, "" if subjects == 1 else name, _INNER if name in _AROUND_LLAMA_CPP else name}
    sources = [each.runtime for each in said if each.runtime.name.value_or("") in names]
    found = contradictions([("", runtime) for runtime in sources], subject.model, machine)
    return msgspec.structs.replace(subject, contradictions=added(subject.contradictions, found))


def merged_subject(base: Subject, over: Subject) -> Subject:
    """`over` on top of `base`, except where it only guesses or was only told what `base` was shown."""
    return Subject(
        runtime=_merged_runtime(base.runtime, over.runtime),
        model=surer(base.model, over.model),
        run=surer(base.run, over.run),
        account=overlaid(base.account, over.account),
        contradictions=base.contradictions + over.contradictions,
    )


_WEIGHT = {Origin.TOLD: 0, Origin.ESTIMATED: 1, Origin.DATASHEET: 1, Origin.REPORTED: 2, Origin.MEASURED: 3}


def surer(base: Any, over: Any) -> Any:
    """`over` on top, except where `base` knows a fact from a better origin."""
    keep: dict[str, Any] = {}
    for name in over.__struct_fields__:
        old, new = getattr(base, name), getattr(over, name)
        if isinstance(old, Known) and isinstance(new, Known):
            keep[name] = old if _WEIGHT[old.origin] > _WEIGHT[new.origin] else new
    return msgspec.structs.replace(overlaid(base, over), **keep)


def _merged_runtime(base: Runtime, over: Runtime) -> Runtime:
    merged: Runtime = surer(base, over)
    return msgspec.structs.replace(
        merged,
        warnings=_joined(base.warnings, over.warnings),
        loads=_longer(base.loads, over.loads),
        environment=_both(base.environment, over.environment),
    )


def _nested(named: dict[str, Subject]) -> list[Subject]:
    """llama.cpp within the program around it: its lines are the exact ones, the name is the outer one."""
    inner = named.get(_INNER)
    outer = next((name for name in _AROUND_LLAMA_CPP if name in named), "")
    if inner is None or not outer:
        return list(named.values())
    whole = merged_subject(named[outer], inner)
    kept = {name: getattr(named[outer].runtime, name) for name in _OUTER_FACTS}
    if not isinstance(kept["loads"], Known):
        del kept["loads"]
    whole = msgspec.structs.replace(whole, runtime=msgspec.structs.replace(whole.runtime, **kept))
    return [whole, *(subject for name, subject in named.items() if name not in (_INNER, outer))]


def _joined(first: Fact[list[str]], second: Fact[list[str]]) -> Fact[list[str]]:
    if isinstance(first, Known) and isinstance(second, Known):
        return Known(list(dict.fromkeys(first.value + second.value)), second.origin, first.source)
    return first_known(first, second)


def _longer(first: Fact[list[Any]], second: Fact[list[Any]]) -> Fact[list[Any]]:
    return first if len(first.value_or(())) > len(second.value_or(())) else first_known(second, first)


def _both(first: Fact[dict[str, str]], second: Fact[dict[str, str]]) -> Fact[dict[str, str]]:
    if isinstance(first, Known) and isinstance(second, Known):
        return Known({**first.value, **second.value}, second.origin, f"{first.source}, {second.source}")
    return first_known(first, second)
