"""Machines of which less is known: the facts that a cause looks at, and the case without them."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from cases import with_facts, without

from unslow.facts.run import Telemetry
from unslow.facts.snapshot import Case
from unslow.facts.values import Known, Unknown

FIGURE = "run.telemetry.host."
"""A figure of the host that was sampled is gone where nobody could read it: the others stay."""


class Watched:
    """A case that knows which of its facts were read: blanking any other changes nothing."""

    def __init__(self, case: Case) -> None:
        self.case, self._seen = case, set[str]()
        self._known = list(_known(case, ""))
        self._twin = _spied(case, "", self._seen)

    def read_by(self, think: Callable[[Case], object]) -> list[str]:
        """The known facts that a function reads, by their paths."""
        self._seen.clear()
        think(self._twin)
        sampled = "run.telemetry" in self._seen
        return [p for p in self._known if p in self._seen] + [FIGURE + f for f in _figures(self.case) if sampled]


def blanked(case: Case, path: str) -> Case:
    """The case without a fact, or without one figure of those that were sampled."""
    if not path.startswith(FIGURE):
        return without(case, path)
    if not isinstance(case.run.telemetry, Known):
        return case
    return with_facts(case, {"run.telemetry": _without_figure(case.run.telemetry.value, path.removeprefix(FIGURE))})


def _without_figure(telemetry: Telemetry, name: str) -> Telemetry:
    phases = tuple(
        msgspec.structs.replace(phase, host={k: v for k, v in phase.host.items() if k != name})
        for phase in telemetry.phases
    )
    return msgspec.structs.replace(telemetry, phases=phases)


def _figures(case: Case) -> list[str]:
    phases = case.run.telemetry.value.phases if isinstance(case.run.telemetry, Known) else ()
    return sorted({name for phase in phases for name in phase.host})


def _known(value: Any, at: str) -> Iterator[str]:
    """The paths of all known facts, also those of GPUs and other things in lists."""
    if isinstance(value, Known):
        yield at
        value = value.value
    if isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from _known(getattr(value, name), f"{at}.{name}" if at else name)
    for place, item in enumerate(value if _holds_facts(value) else ()):
        yield from _known(item, f"{at}.{place}")


def _holds_facts(value: Any) -> bool:
    """Whether it is a list of things that have facts of their own, such as GPUs."""
    first = value[0] if isinstance(value, list | tuple) and value else None
    fields = getattr(first, "__struct_fields__", ())
    return any(isinstance(getattr(first, name), Known | Unknown) for name in fields)


def _spied(value: Any, at: str, seen: set[str]) -> Any:
    """The same value, of classes that write down which of their fields are read."""
    if isinstance(value, Known):
        return msgspec.structs.replace(value, value=_spied(value.value, at, seen))
    if _holds_facts(value):
        return type(value)(_spied(item, f"{at}.{place}", seen) for place, item in enumerate(value))
    if not isinstance(value, msgspec.Struct) or isinstance(value, Unknown):
        return value
    paths = {name: f"{at}.{name}" if at else name for name in value.__struct_fields__}
    fields = {name: _spied(getattr(value, name), path, seen) for name, path in paths.items()}
    return _spy(type(value), paths, seen)(**fields)


def _spy(kind: Any, paths: dict[str, str], seen: set[str]) -> Any:
    def read(self: Any, name: str) -> Any:
        if name in paths:
            seen.add(paths[name])
        return object.__getattribute__(self, name)

    return type(kind)(kind.__name__, (kind,), {"__getattribute__": read}, frozen=True)
