"""One file for each cause. The file name is its id and reads well after "slow because"; the docstring is its page."""

import importlib
import pkgutil
from collections.abc import Iterator
from functools import cache

from unslow.think.causes._cause import Cause


def cause_ids() -> Iterator[str]:
    """The id of every cause, in alphabetical order."""
    return (info.name for info in pkgutil.iter_modules(__path__) if not info.name.startswith("_"))


@cache
def all_causes() -> dict[str, Cause]:
    """Every cause by its id, found by presence."""
    return {name: importlib.import_module(f"{__name__}.{name}").CAUSE for name in cause_ids()}
