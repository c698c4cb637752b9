"""One value in a file of its own, as under /sys and /proc."""

import re

from unslow.look.system import LookError, System
from unslow.look.system.door import read_text

_WHOLE = re.compile(r"-?[0-9]{1,19}")
_KEY_AND_NUMBER = re.compile(r"([\w()./-]+):?[ \t]+(\d{1,18})\b")


def read_word(system: System, path: str) -> str:
    """The file's text without the blanks around it; LookError where it is empty."""
    word = read_text(system, path).strip().strip("\0")
    if not word:
        raise LookError(f"{path}: empty")
    return word


def read_number(system: System, path: str) -> int:
    """The file's whole number; LookError where it holds something else."""
    word = read_word(system, path)
    number = parse_whole(word)
    if number is None:
        raise LookError(f"{path}: {word[:40]!r} is not a whole number")
    return number


def parse_whole(word: str) -> int | None:
    """A whole number of as many digits as 64 bits can hold; None for anything else."""
    return int(word) if _WHOLE.fullmatch(word) else None


def is_there(system: System, path: str) -> bool:
    """Whether a small file is there and can be read."""
    try:
        system.read_bytes(path)
    except LookError:
        return False
    return True


def parse_numbers(text: str) -> dict[str, int]:
    """Lines of a key and a whole number, with or without a colon, such as /proc/meminfo and cpu.stat."""
    numbers = {}
    for line in text.splitlines():
        match = _KEY_AND_NUMBER.match(line)
        if match:
            numbers[match[1]] = int(match[2])
    return numbers
