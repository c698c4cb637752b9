"""Lays what one look has seen over what others have."""

from typing import Any, TypeVar

import msgspec

from unslow.facts.machine import Facts
from unslow.facts.values import NOT_LOOKED, Known, Unknown

F = TypeVar("F", bound=Facts)


def overlaid(base: F, over: F) -> F:
    """`base` with every fact that `over` has looked for; a known value is never replaced by a missing one."""
    changes: dict[str, Any] = {}
    for name in base.__struct_fields__:
        old, new = getattr(base, name), getattr(over, name)
        if isinstance(old, Facts) and isinstance(new, Facts):
            changes[name] = overlaid(old, new)
        elif isinstance(new, tuple):
            changes[name] = old + new
        elif isinstance(old, Known) and isinstance(new, Known) and isinstance(old.value, tuple):
            # known lists of things, such as the GPUs of two vendors
            changes[name] = Known(old.value + new.value, new.origin, f"{old.source}, {new.source}")
        elif new != NOT_LOOKED and not (isinstance(old, Known) and isinstance(new, Unknown)):
            changes[name] = new
    return msgspec.structs.replace(base, **changes)
