"""The dialects there are: every module of `look.logs` that offers one."""

import importlib
import pkgutil
from functools import cache, partial
from types import ModuleType

from unslow.look import logs
from unslow.look.flags import all_commands
from unslow.look.logs.commands import parse_commands
from unslow.look.logs.dialect import LineDialect, TextDialect

COMMAND = "command"
"""How the names of dialects end that read command lines: what they tell was asked for, and need not have come true."""


@cache
def line_dialects() -> dict[str, LineDialect]:
    """Every way to read a log line by line, by the name of its module."""
    return {name: module.DIALECT for name, module in _modules().items() if hasattr(module, "DIALECT")}


@cache
def text_dialects() -> dict[str, TextDialect]:
    """Every way to read a block of text, by the name of its module; command lines have one for each runtime."""
    blocks = {name: module.parse_text for name, module in _modules().items() if hasattr(module, "parse_text")}
    return blocks | {f"{name} {COMMAND}": partial(parse_commands, each) for name, each in all_commands().items()}


@cache
def _modules() -> dict[str, ModuleType]:
    names = [info.name for info in pkgutil.iter_modules(logs.__path__)]
    return {name: importlib.import_module(f"{logs.__name__}.{name}") for name in names}
