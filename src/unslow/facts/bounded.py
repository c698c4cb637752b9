"""Facts of an untrusted text, held to the bounds that their types declare."""

from functools import cache
from typing import Any, TypeVar, get_type_hints

import msgspec

from unslow.facts.machine import Facts
from unslow.facts.values import Fact, Known, failed

F = TypeVar("F", bound=Facts)


def bounded(facts: F) -> F:
    """The facts; one outside its bounds becomes a failed look instead of a false number."""
    try:
        return msgspec.convert(msgspec.to_builtins(facts), type(facts))
    except (msgspec.ValidationError, OverflowError):
        return _each_by_itself(facts)


def _each_by_itself(facts: F) -> F:
    """The same where some do not fit: only one by one it shows which."""
    kinds = _kinds(type(facts))
    changes: dict[str, Any] = {}
    for name in facts.__struct_fields__:
        value = getattr(facts, name)
        if isinstance(value, Known):
            changes[name] = fitting(value, kinds[name])
        elif isinstance(value, Facts):
            changes[name] = bounded(value)
    return msgspec.structs.replace(facts, **changes)


def fitting(fact: Fact[Any], kind: Any) -> Fact[Any]:
    """The fact as its type declares it, or a failed look where it does not fit."""
    if not isinstance(fact, Known):
        return fact
    try:
        checked: Fact[Any] = msgspec.convert(msgspec.to_builtins(fact), kind)
    except (msgspec.ValidationError, OverflowError) as error:
        return failed(f"{fact.source} answered {str(fact.value)[:40]}: {error}")
    return checked


@cache
def _kinds(kind: type[Facts]) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)
