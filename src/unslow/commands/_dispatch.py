"""Finds the command, parses its words, and turns a UserError into a line and a hint.

Only the module of the command that runs is imported: `unslow --help` reads the first line of each file or package.
"""

import argparse
import difflib
import functools
import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

from unslow.facts.errors import UserError

COULD_NOT_RUN, INTERRUPTED = 2, 130
_EPILOG = """examples:
  unslow                         diagnose what runs here; with nothing running, measure the embedded engine
  unslow http://127.0.0.1:8080   diagnose one server
  unslow triage report.txt       diagnose any pasted text: a log, a bug report; - for standard input
  unslow report -o page.html     the same as one file with every picture, masked, to attach to an issue
  unslow serve                   the same as a live page in the browser, with sliders; measures when you say so
  unslow collect -o seen.json    look only, and write what was seen
  unslow diagnose seen.json      diagnose what was seen, here or elsewhere
  unslow explain                 every cause that it knows
  unslow fit llama-3.3-70b       does a model fit this machine, or `--device "RTX 4090"`
  unslow models                  the models on this machine
  unslow predict qwen3-8b        how fast a model should be here, or `--device "RTX 4090"`; `--explain` says why
  unslow check "70B Q4 at 72 tok/s on an RTX 4090"   is a claim possible
  unslow bench                   measure as people can compare it; sweeps, history, a gate for CI
  unslow watch                   a live screen: speed against the ceiling, what binds now, the current suspicion
  unslow calibrate               measure this machine's own rates, for sharper predictions
  unslow plan                    the best settings for what runs here, or for a model: `unslow plan model.gguf`
  unslow apply plan.json         make the change that a plan recommends; `unslow undo` takes it back
  unslow verify --plan plan.json prove it: before and after in turns, with the answers compared
  unslow tune model.gguf         measure and search around the plan, for the last percents
  unslow devices "RTX 3090" "M4 Max 64GB" --model qwen3-32b   side by side: fits, speed, price, watts
  unslow choose --model qwen3-32b --budget 1500 --goal "20 tok/s"   what to buy, and why
  unslow cost --model qwen3-32b --device "RTX 3090" --tokens-per-day 200k   own, rent or an API
  unslow tiers                   what 8, 12, 16, 24, 48 GB can run
  unslow mcp                     the same verbs as tools for coding agents
  unslow fleet --prometheus URL  the same diagnosis for every instance that a Prometheus knows
  unslow exporter                this machine's diagnosis as metrics for Prometheus

options of the diagnosis: unslow diagnose --help
exit status: 0 fine, 1 something was found, 2 could not run, 3 cannot tell"""


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


def top_parser() -> argparse.ArgumentParser:
    """The parser that lists the commands; each has a parser of its own."""
    top = argparse.ArgumentParser(
        prog="unslow",
        allow_abbrev=False,
        description="Says why local LLM inference is slow, proves it, and says what this hardware should give.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("-V", "--version", action="store_true", help="show program's version number and exit")
    choices = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in commands():
        choices.add_parser(name, help=first_line(name))
    return top


def command_parser(name: str) -> argparse.ArgumentParser:
    """The parser of one command."""
    from unslow.commands._parser import parser_of  # only for the command that runs

    module = importlib.import_module(f"unslow.commands.{name}")
    return parser_of(name, module.__doc__ or "", module.run.__annotations__["request"])


def with_command(words: list[str]) -> list[str]:
    """The words with the command spelled out: `unslow` alone, flags alone or a target mean `diagnose`."""
    known = list(commands())
    if words and words[0] in known:
        return words
    first = next((w for w in words if not w.startswith("-")), None)
    if words and words[0] == first and not _is_target(first):
        near = difflib.get_close_matches(first, known, 1)
        hint = f"did you mean `unslow {near[0]}`?" if near else "`unslow --help` lists the commands"
        raise UserError(f"{first!r} is no command, file, folder, process id or URL", hint)
    return ["diagnose", *words]


def _is_target(word: str) -> bool:
    host, _, port = word.rpartition(":")
    is_address = bool(host) and port.isdecimal()
    return is_address or word.isdecimal() or "/" in word or os.path.exists(word)  # noqa: PTH110


def dispatch(words: list[str]) -> int:
    """Run the command that the words name."""
    try:
        if words[:1] in (["-h"], ["--help"]):
            top_parser().parse_args(["--help"])
        run, request = parse_words(words)
        return run(request)
    except UserError as error:
        from unslow.show.clean import safe  # only where there is something to say

        _complain(f"unslow: {safe(error.message)}\n" + (f"  hint: {safe(error.hint)}\n" if error.hint else ""))
        return COULD_NOT_RUN
    except KeyboardInterrupt:
        _complain("\nunslow: stopped\n")
        return INTERRUPTED
    except BrokenPipeError:  # the reader of a pipe has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception:  # noqa: BLE001 (a bug must not look like a diagnosis, whose status can be 1)
        import traceback

        from unslow.show.clean import without_controls  # it may quote a file or a server

        _complain(without_controls(traceback.format_exc()))
        return COULD_NOT_RUN


def parse_words(words: list[str]) -> tuple[Callable[[Any], int], Any]:
    """What runs the command that the words name, and the request that they mean."""
    name, *rest = with_command(words)
    flags = vars(command_parser(name).parse_args(rest))
    run = importlib.import_module(f"unslow.commands.{name}").run
    return run, run.__annotations__["request"].from_flags(flags)


def _complain(text: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(text)
