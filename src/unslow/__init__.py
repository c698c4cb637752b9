"""Why local inference is slow, what the hardware should give, and the proof."""

import importlib
from typing import Any

__version__ = "0.1.0"
__all__ = ["__version__", "watch"]


def __dir__() -> list[str]:
    """What there is, also what is imported only when it is used."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


def __getattr__(name: str) -> Any:
    """`unslow.watch`, imported when it is used: the command line does without it."""
    if name == "watch":
        return importlib.import_module("unslow.app.watch").watch
    raise AttributeError(f"module 'unslow' has no attribute {name!r}")
