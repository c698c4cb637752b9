"""The machine on which each cause fires, as the test of that cause names it."""

import importlib
from collections.abc import Callable
from pathlib import Path

from unslow.facts.snapshot import Case
from unslow.think.causes import all_causes

_TESTED = [name for name in all_causes() if (Path(__file__).parent / f"test_{name}.py").is_file()]
FIRING: dict[str, Callable[[], Case]] = {name: importlib.import_module(f"test_{name}").fires for name in _TESTED}
