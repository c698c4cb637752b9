"""Lines for a shell of Unix as Windows takes them: PowerShell is what its users have open, cmd.exe the other one."""

import re
import shlex
from collections.abc import Sequence

from unslow.facts.placed import Place, labelled, line_of
from unslow.facts.shell_words import WINDOWS, as_text, in_powershell, is_plain, joined

_NAME = r"[A-Za-z_][A-Za-z0-9_]{0,80}"
_VALUE = r"(?:[^\s']|'[^']*')++"
"""A word as `shlex.quote` writes it."""
_GIVEN = re.compile(rf"((?:{_NAME}={_VALUE} )++)(\S.*)")
_ADMINISTRATOR = "in a prompt of the administrator"


def for_system(lines: Sequence[str], system: str) -> list[str]:
    """The lines for the shells of a system; as they are where it is none of Windows."""
    return [said for line in lines for said in _on_windows(line)] if system == WINDOWS else list(lines)


def _on_windows(line: str) -> list[str]:
    """Older PowerShells know no `&&`, so that each command gets a line of its own."""
    if line_of(line).place is not Place.SHELL:
        return [line]
    return [said for part in line.split(" && ") for said in _command(part)]


def _command(text: str) -> list[str]:
    for pattern, said in _FORMS:
        if found := pattern.fullmatch(text):
            return said(found)
    return [_again(text)] if "'" in text else [text]


def _unset(found: re.Match[str]) -> list[str]:
    return [_powershell(_removed([found[1]])), labelled(Place.CMD, f"set {found[1]}=")]


def _export(found: re.Match[str]) -> list[str]:
    value = _plain(found[2])
    in_cmd = [labelled(Place.CMD, f"set {found[1]}={value}")] if is_plain(value) else []
    return [_powershell(_set(found[1], found[2])), *in_cmd]


def _without(found: re.Match[str]) -> list[str]:
    names = re.findall(rf"-u ({_NAME})", found[1])
    given = _GIVEN.fullmatch(found[2])
    rest = _settings(given) if given else _again(found[2])
    return [_powershell(f"{_removed(names)}; {rest}")]


def _with(found: re.Match[str]) -> list[str]:
    return [_powershell(_settings(found))]


def _settings(found: re.Match[str]) -> str:
    """Every variable before a command, and the command."""
    pairs = re.findall(rf"({_NAME})=({_VALUE}) ", found[1])
    return "; ".join([*(_set(name, value) for name, value in pairs), _again(found[2])])


def _post(found: re.Match[str]) -> list[str]:
    """`curl` is another program in older PowerShells, and quotes inside an argument get lost on the way to it."""
    sent = f"-Method Post -ContentType application/json -Body {in_powershell(_plain(found[2]))}"
    return [_powershell(f"Invoke-RestMethod {found[1]} {sent}")]


def _as_root(found: re.Match[str]) -> list[str]:
    return [labelled(Place.HAND, f"{_ADMINISTRATOR}: {found[1]}")]


_FORMS = (
    (re.compile(rf"unset ({_NAME})"), _unset),
    (re.compile(rf"export ({_NAME})=(\S.*)"), _export),
    (re.compile(rf"env((?: -u {_NAME})+) (\S.*)"), _without),
    (re.compile(r"curl (\S+) -H 'Content-Type: application/json' -d ('.*')"), _post),
    (_GIVEN, _with),
    (re.compile(r"sudo (\S.*)"), _as_root),
)


def _powershell(text: str) -> str:
    return labelled(Place.POWERSHELL, text)


def _removed(names: Sequence[str]) -> str:
    return f"Remove-Item {', '.join(f'Env:{name}' for name in names)}"


def _set(name: str, value: str) -> str:
    return f"$env:{name} = {as_text(_plain(value))}"


def _plain(value: str) -> str:
    """A value without the quotes that a shell of Unix takes away."""
    words = _words(value)
    return " ".join(words) if words else value


def _again(command: str) -> str:
    """A command line whose words are quoted as Windows reads them."""
    words = _words(command)
    return joined(words, WINDOWS) if words else command


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return []  # a quote that nobody closes
