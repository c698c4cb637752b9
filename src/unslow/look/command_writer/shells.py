"""The lines that a user copies, for the shells of Windows: PowerShell, and cmd where it takes them too."""

import re
import shlex
from collections.abc import Callable, Sequence

from unslow.facts.commands import (
    WINDOWS,
    Place,
    by_hand,
    is_plain_word,
    labelled_line,
    parse_line,
    powershell_text,
    powershell_word,
    shell_joined,
)

_NAME = r"[A-Za-z_][A-Za-z0-9_]{0,80}"
_VALUE = r"(?:[^\s']|'[^']*')++"  # A word as `shlex.quote` writes it
_GIVEN = re.compile(rf"((?:{_NAME}={_VALUE} )++)(\S.*)")


def lines_for_system(lines: Sequence[str], system: str) -> list[str]:
    """The lines for the shells of a system; as they are where it is none of Windows."""
    if system != WINDOWS:
        return list(lines)
    said = []
    for line in lines:
        # older PowerShells know no `&&`, so that each command gets a line of its own
        shell = parse_line(line).place is Place.SHELL
        said += [written for part in line.split(" && ") for written in _command(part)] if shell else [line]
    return said


def _command(text: str) -> list[str]:
    for pattern, said in _FORMS:
        if found := pattern.fullmatch(text):
            return said(found)
    return [_again(text)] if "'" in text else [text]


def _export(found: re.Match[str]) -> list[str]:
    value = _plain(found[2])
    in_cmd = [labelled_line(Place.CMD, f"set {found[1]}={value}")] if is_plain_word(value) else []
    return [_powershell(_set(found[1], found[2])), *in_cmd]


def _with_variables(command: str) -> str:
    found = _GIVEN.fullmatch(command)
    if not found:
        return _again(command)
    pairs = re.findall(rf"({_NAME})=({_VALUE}) ", found[1])
    return "; ".join([*(_set(name, value) for name, value in pairs), _again(found[2])])


_FORMS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], list[str]]], ...] = (
    (
        re.compile(rf"unset ({_NAME})"),
        lambda found: [_powershell(_removed([found[1]])), labelled_line(Place.CMD, f"set {found[1]}=")],
    ),
    (re.compile(rf"export ({_NAME})=(\S.*)"), _export),
    (
        re.compile(rf"env((?: -u {_NAME})+) (\S.*)"),
        lambda found: [_powershell(f"{_removed(re.findall(rf'-u ({_NAME})', found[1]))}; {_with_variables(found[2])}")],
    ),
    (
        # `curl` is another program in older PowerShells, and quotes inside an argument get lost on the way to it
        re.compile(r"curl (\S+) -H 'Content-Type: application/json' -d ('.*')"),
        lambda found: [
            _powershell(
                f"Invoke-RestMethod {found[1]} -Method Post -ContentType application/json "
                f"-Body {powershell_word(_plain(found[2]))}"
            )
        ],
    ),
    (_GIVEN, lambda found: [_powershell(_with_variables(found[0]))]),
    (re.compile(r"sudo (\S.*)"), lambda found: [by_hand(f"in a prompt of the administrator: {found[1]}")]),
)


def _powershell(text: str) -> str:
    return labelled_line(Place.POWERSHELL, text)


def _removed(names: Sequence[str]) -> str:
    return f"Remove-Item {', '.join(f'Env:{name}' for name in names)}"


def _set(name: str, value: str) -> str:
    return f"$env:{name} = {powershell_text(_plain(value))}"


def _plain(value: str) -> str:
    words = _words(value)
    return " ".join(words) if words else value


def _again(command: str) -> str:
    """A command line whose words are quoted as Windows reads them."""
    words = _words(command)
    return shell_joined(words, WINDOWS) if words else command


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return []  # a quote that nobody closes
