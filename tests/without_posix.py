"""Runs `unslow` as on Windows, as far as that can be had elsewhere: what Python lacks there is missing for it.

    python tests/without_posix.py WORD ... [--- WORD ...]     one or more command lines, in one process

Only modules of unslow see it: the libraries below them need the system that is really there. Which names Windows
lacks is read from the type stubs of the standard library, so that none has to be listed.
"""

import ast
import builtins
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import mypy

STUBS = Path(mypy.__file__).parent / "typeshed" / "stdlib"
_import = builtins.__import__


def _names(nodes: Iterable[ast.stmt], platform: str) -> Iterator[str]:
    there = {"sys": SimpleNamespace(platform=platform, version_info=sys.version_info)}
    for node in nodes:
        match node:
            case ast.If():
                holds = eval(compile(ast.Expression(node.test), "stub", "eval"), there)
                yield from _names(node.body if holds else node.orelse, platform)
            case ast.FunctionDef() | ast.ClassDef() | ast.AsyncFunctionDef():
                yield node.name
            case ast.AnnAssign(target=ast.Name() as target):
                yield target.id
            case ast.Assign():
                yield from (target.id for target in node.targets if isinstance(target, ast.Name))
            case ast.ImportFrom(module=str(source)) if source[0] == "_" and source != "_typeshed":  # its half in C
                yield from (alias.asname or alias.name for alias in node.names)


@cache
def stub_names(module: str, platform: str) -> frozenset[str]:
    """The names of a module of the standard library; none of one that is not there, or not in the stubs."""
    path = next((p for p in (STUBS / f"{module}.pyi", STUBS / module / "__init__.pyi") if p.exists()), None)
    body = ast.parse(path.read_text(encoding="utf-8")).body if path else ()
    return frozenset(name for name in _names(body, platform) if not name.startswith("__"))


class WindowsModule(ModuleType):
    """A module of the standard library without what it lacks on Windows."""

    def __init__(self, real: ModuleType) -> None:
        super().__init__(real.__name__)
        lacking = stub_names(real.__name__, sys.platform) - stub_names(real.__name__, "win32")
        self.__dict__.update(_real=real, _lacking=lacking, _instead=_INSTEAD.get(real.__name__, {}))

    def __getattr__(self, name: str) -> Any:
        if name in self._instead:
            return self._instead[name]
        if name in self._lacking:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return getattr(self._real, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._real, name, value)


def _kill(*_: object) -> None:
    raise AssertionError("os.kill ends the process on Windows, whatever the signal")


def _select(*lists: Any) -> Any:
    import select

    for item in lists[0]:
        if not isinstance(item, socket.socket):
            raise OSError(10038, "An operation was attempted on something that is not a socket")
    return select.select(*lists)


class _Popen(subprocess.Popen[Any]):
    def __init__(self, *words: Any, **options: Any) -> None:
        if options.get("preexec_fn") or options.get("pass_fds"):
            raise ValueError("preexec_fn is not supported on Windows platforms")
        super().__init__(*words, **options)


_INSTEAD: dict[str, dict[str, Any]] = {
    "os": {"name": "nt", "O_BINARY": 0, "kill": _kill},
    "sys": {"platform": "win32"},
    "platform": {"system": lambda: "Windows"},
    "select": {"select": _select},
    "subprocess": {"Popen": _Popen},
}
_as_on_windows = cache(WindowsModule)


def _importing(
    name: str,
    globals: Any = None,  # noqa: A002 (by these names it is called)
    locals: Any = None,  # noqa: A002
    fromlist: Any = (),
    level: int = 0,
) -> Any:
    module = _import(name, globals, locals, fromlist, level)
    importer = str((globals or {}).get("__name__", ""))
    if level or importer.partition(".")[0] != "unslow" or name.partition(".")[0] not in sys.stdlib_module_names:
        return module
    if stub_names(name, sys.platform) and not stub_names(name, "win32"):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    same = stub_names(module.__name__, sys.platform) == stub_names(module.__name__, "win32")
    return module if same and module.__name__ not in _INSTEAD else _as_on_windows(module)


def take_away() -> None:
    """From now on, whatever of unslow is imported sees Windows."""
    builtins.__import__ = _importing


def main(words: list[str]) -> int:
    """Run the command lines one after the other; what each ends with is the last line of its error output."""
    take_away()
    from unslow.__main__ import main as unslow

    while words:
        end = words.index("---") if "---" in words else len(words)
        line, words = words[:end], words[end + 1 :]
        try:
            status: object = unslow(line)
        except SystemExit as left:
            status = left.code or 0
        sys.stderr.write(f"\nstatus {status}: unslow {' '.join(line)}\n")
        sys.stderr.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
