"""Words as a shell reads them: the same line is another one in PowerShell than in a shell of Unix."""

import re
import shlex
from collections.abc import Sequence

WINDOWS = "Windows"
_PLAIN = re.compile(r"[\w+=:./\\-][\w@+=:./\\-]*", re.ASCII)
"""What neither PowerShell nor cmd.exe reads as anything but itself."""
_TAME = re.compile(r'[^"$`%!\x00-\x1f]*')
"""What both read as itself in double quotes: in those PowerShell runs what stands in `$(...)`."""


def quoted(word: str, system: str = "") -> str:
    """A word that a shell of the system reads as one: in double quotes where all shells of Windows shall."""
    if system != WINDOWS:
        return shlex.quote(word)
    return word if _PLAIN.fullmatch(word) else f'"{word}"' if _TAME.fullmatch(word) else in_powershell(word)


def is_plain(word: str) -> bool:
    """Whether every shell of Windows takes a word as it is, without quotes."""
    return bool(_PLAIN.fullmatch(word))


def in_powershell(word: str) -> str:
    """A word that PowerShell takes as it is; a quote in it is written twice."""
    return word if _PLAIN.fullmatch(word) else as_text(word)


def as_text(word: str) -> str:
    """A word in the quotes in which PowerShell reads nothing but text."""
    return "'" + word.replace("'", "''") + "'"


def joined(words: Sequence[str], system: str = "") -> str:
    """A command line of these words; a program that has to be quoted is called by PowerShell's `&`."""
    line = " ".join(quoted(word, system) for word in words)
    return f"& {line}" if system == WINDOWS and line.startswith(('"', "'")) else line
