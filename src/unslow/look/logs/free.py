"""What `free` prints, in any of its units, wherever it stands in a larger text."""

import re

from unslow.facts.machine import Machine, Memory
from unslow.facts.units import GIB, KIB, MIB
from unslow.facts.values import Bytes, Fact, Known, Origin, not_found
from unslow.look.kernel.files import parse_whole
from unslow.look.logs.dialect import Seen, Text

_TABLE = re.compile(
    r"\b(total[ \t]+used[ \t]+free\b[^\n]{0,200})\n"  # the names of the columns
    r"[^\n]{0,200}?\bMem:([^\n]{0,400})"
    r"((?:\n[^\n]{0,400}){0,4})"  # where the line for swap is found
)
_HEADER = re.compile(r"\btotal[ \t]+used[ \t]+free\b")
_LINES_BEFORE, _LINES_OF_TABLE = 3, 3
_SWAP = re.compile(r"\bSwap:([^\n]{0,400})")
_COMMAND = re.compile(r"\bfree[ \t]+(?:-\w+[ \t]+)*(--\w+|-\w*[bkmgh]\w*)")
_SIZE = re.compile(r"(\d{1,18}(?:[.,]\d{1,3})?)([KMGTPB])?(i)?B?", re.IGNORECASE)
_LETTERS = {"B": 1, "K": KIB, "M": MIB, "G": GIB, "T": 1024 * GIB, "P": 1024**2 * GIB}
_OPTIONS = {"b": 1, "k": KIB, "m": MIB, "g": GIB}
_WORDS = {"--bytes": 1, "--kibi": KIB, "--mebi": MIB, "--gibi": GIB, "--tebi": 1024 * GIB}
_LEAST_TOTAL_BYTES = 4 * GIB


def parse_memory(text: str, source: str = "free", unit_bytes: int | None = None) -> Memory:
    """Memory and swap; where caller, suffix and command line are silent, the unit is guessed and the origin says so."""
    table = _TABLE.search(text)
    if not table:
        missing = not_found(f"no table of `free` in {source}")
        return Memory(total_bytes=missing, available_bytes=missing, swap_total_bytes=missing, swap_used_bytes=missing)
    names = table[1].split()
    memory = dict(zip(names, table[2].split(), strict=False))
    swap_line = _SWAP.search(table[3])
    swap = dict(zip(names[:3], swap_line[1].split() if swap_line else [], strict=False))
    scale = _Scale(source, unit_bytes or _unit_of_command(text[: table.start()]), memory.get("total", ""))
    return Memory(
        total_bytes=scale.fact(memory.get("total")),
        available_bytes=_available(scale, memory),
        swap_total_bytes=scale.fact(swap.get("total")),
        swap_used_bytes=scale.fact(swap.get("used")),
    )


def parse_text(text: Text) -> Seen:
    """The last table of `free` in a text."""
    for index in reversed(range(len(text.lines) - 1)):
        if _HEADER.search(text.lines[index]) and "Mem:" in text.lines[index + 1]:
            around = "\n".join(text.lines[max(0, index - _LINES_BEFORE) : index + _LINES_OF_TABLE])
            memory = parse_memory(around, text.where(index))
            return Seen(machine=Machine(memory=memory), lines=3, spans=((index, index + _LINES_OF_TABLE),))
    return Seen()


class _Scale:
    """Turns the table's words into bytes, and says how sure the unit is."""

    def __init__(self, source: str, unit_bytes: int | None, total: str) -> None:
        self.source = source
        self.sure = unit_bytes is not None
        self.unit_bytes = unit_bytes or _likely_unit(total)

    def bytes(self, word: str | None) -> int | None:
        match = _SIZE.fullmatch(word or "")
        if not match:
            return None
        # Bare letters are binary: `free -h` wrote "15G" for GiB until procps 3.3.13; decimal needs the rare --si.
        unit = _LETTERS[match[2].upper()] if match[2] else self.unit_bytes
        return int(float(match[1].replace(",", ".")) * unit)

    def fact(self, word: str | None) -> Fact[Bytes]:
        size = self.bytes(word)
        if size is None:
            return not_found(f"not in the table of {self.source}")
        sure = self.sure or not (word or "").isdigit()
        return Known(size, Origin.REPORTED if sure else Origin.ESTIMATED, self._source(sure=sure))

    def _source(self, *, sure: bool) -> str:
        return self.source if sure else f"{self.source}, taken to be in units of {self.unit_bytes} bytes"


def _available(scale: _Scale, memory: dict[str, str]) -> Fact[Bytes]:
    """Before procps 3.3.10 there was no such column; what is free or cached comes closest."""
    if "available" in memory:
        return scale.fact(memory["available"])
    parts = [scale.bytes(memory.get(name, "0")) for name in ("free", "buffers", "cached")]
    if "free" not in memory or None in parts:
        return not_found(f"not in the table of {scale.source}")
    return Known(sum(part or 0 for part in parts), Origin.ESTIMATED, f"{scale.source}: free + buffers + cached")


def _unit_of_command(text: str) -> int | None:
    """The unit that the last command line above the table asks for."""
    options = _COMMAND.findall(text[-4096:])
    if not options:
        return None
    last = options[-1]
    return _WORDS.get(last) or next((_OPTIONS[c] for c in last.lstrip("-") if c in _OPTIONS), None)


def _likely_unit(total: str) -> int:
    """The unit by which the total lies between 4 GiB and 4 TiB: bytes, KiB, MiB and GiB each cover their own range."""
    number = parse_whole(total) or 0
    return next((unit for unit in (1, KIB, MIB) if number * unit >= _LEAST_TOTAL_BYTES), GIB)
