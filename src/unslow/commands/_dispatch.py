"""Finds the command, parses its words, and turns a UserError into a line and a hint.

Only the module of the command that runs is imported: `unslow --help` reads the first line of each file or package.
"""

import difflib
import functools
import importlib
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from unslow.facts.errors import UserError

if TYPE_CHECKING:
    from unslow.commands._parser import CommandParser

COULD_NOT_RUN, INTERRUPTED = 2, 130
_GROUPS = {
    "find out": "diagnose triage watch serve report bench explain collect models",
    "fix": "plan apply undo verify tune",
    "before buying": "fit predict check devices choose cost tiers calibrate",
    "fleet": "fleet exporter",
    "for programs": "mcp",
}
"""The commands in the order of `unslow --help`; one that is missing here is listed last."""
_HELP = """usage: unslow [COMMAND] [OPTION ...]

Says why LLM inference on your own hardware is slow, proves it, then plans, applies and verifies the
fix. Without a command it diagnoses what runs on this machine.

{groups}  (and --json for most commands; `import unslow` for Python)

options:
  -h, --help     show this help; `unslow COMMAND --help` shows a command's options
  -V, --version  show the version

examples:
  unslow http://127.0.0.1:8080                    diagnose one server
  unslow fit llama-3.3-70b --device "RTX 4090"    check whether a model fits

exit status: 0 fine, 1 something was found, 2 could not run, 3 cannot tell, 130 stopped by Ctrl-C
"""


@functools.cache
def commands() -> dict[str, str]:
    """The file of every command by its name, found by presence."""
    folder = os.path.dirname(__file__)  # noqa: PTH120 (pathlib takes a tenth of the time of --help)
    found = {}
    for entry in os.listdir(folder):
        name = entry.removesuffix(".py")
        if not name.startswith("_"):
            found[name] = f"{folder}/{entry}" if name != entry else f"{folder}/{entry}/__init__.py"
    return dict(sorted(found.items()))


def first_line(name: str) -> str:
    """What a command is for: the first line of its docstring, which is the first line of its file."""
    with open(commands()[name], encoding="utf-8") as file:
        return file.readline().strip().removeprefix('"""')


def top_help() -> str:
    """What `unslow --help` prints: the commands in groups."""
    grouped = " ".join(_GROUPS.values()).split()
    groups = {**_GROUPS, "other": " ".join(name for name in commands() if name not in grouped)}
    blocks = [
        f"{title}:\n" + "".join(f"  {name:10} {first_line(name).rstrip('.')}\n" for name in names.split())
        for title, names in groups.items()
        if names
    ]
    return _HELP.format(groups="\n".join(blocks))


def command_parser(name: str) -> "CommandParser":
    """The parser of one command."""
    from unslow.commands._parser import parser_of  # only for the command that runs

    module = importlib.import_module(f"unslow.commands.{name}")
    return parser_of(name, module.__doc__ or "", module.run.__annotations__["request"])


def dispatch(words: list[str]) -> int:
    """Run the command that the words name."""
    try:
        if words[:1] in (["-h"], ["--help"]):
            sys.stdout.write(top_help())
            return 0
        run, request = parse_words(words)
        return run(request)
    except UserError as error:
        from unslow.show.console import safe_text  # only where there is something to say

        hint = f"  hint: {safe_text(error.hint)}\n" if error.hint else ""
        _complain(f"unslow: {safe_text(error.message)}\n{hint}")
        return COULD_NOT_RUN
    except KeyboardInterrupt:
        _complain("\nunslow: stopped\n")
        return INTERRUPTED
    except BrokenPipeError:  # the reader of a pipe has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception:  # noqa: BLE001 (a bug must not look like a diagnosis, whose status can be 1)
        import traceback

        from unslow.show.console import without_controls  # it may quote a file or a server

        _complain(without_controls(traceback.format_exc()))
        return COULD_NOT_RUN


def parse_words(words: list[str]) -> tuple[Callable[[Any], int], Any]:
    """What runs the command that the words name, and the request that they mean.

    `unslow` alone, flags alone or a target mean `diagnose`.
    """
    name, *rest = words or ["diagnose"]
    if name not in commands():
        host, _, port = name.rpartition(":")
        is_address = bool(host) and port.isdecimal()
        is_path = "/" in name or os.path.exists(name)  # noqa: PTH110
        if not (name.startswith("-") or is_address or name.isdecimal() or is_path):
            near = difflib.get_close_matches(name, list(commands()), 1)
            hint = f"did you mean `unslow {near[0]}`?" if near else "`unslow --help` lists the commands"
            raise UserError(f"{name!r} is not a command, file, folder, process id or URL", hint)
        name, rest = "diagnose", words
    flags = vars(command_parser(name).parse_args(rest))
    run = importlib.import_module(f"unslow.commands.{name}").run
    return run, run.__annotations__["request"].from_flags(flags)


def _complain(text: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(text)
