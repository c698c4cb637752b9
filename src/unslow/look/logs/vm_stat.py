"""What macOS says of its memory: `vm_stat` and `memory_pressure`."""

import re

from unslow.facts.bounded import bounded
from unslow.facts.machine import Machine, Memory
from unslow.facts.values import NOT_LOOKED, Bytes, Fact, estimated, reported
from unslow.look.logs.dialect import Seen, Text
from unslow.look.logs.found_blocks import form, seen_machine
from unslow.look.logs.numbered import numbered_lines

SOURCE = "vm_stat"

_FORMS = (form(r"Mach Virtual Memory Statistics|The system has \d+ \(\d+ pages", r":\s+\d|:\s*$"),)
_PAGE = re.compile(r"page size of (\d{3,6})(?: bytes)?\)")
_ROW = re.compile(r"(Pages [a-z -]{3,30}|Swapins|Swapouts|Pageins):\s+(\d{1,15})\b")
_TOTAL = re.compile(r"The system has (\d{6,16}) \(\d+ pages")
_COMPRESSOR = ("Pages occupied by compressor", "Pages used by compressor")
_AVAILABLE = ("Pages free", "Pages inactive", "Pages speculative")


def parse_memory(text: str, source: str = SOURCE, first_line: int = 1) -> Memory:
    """Wired, compressed, available and swapped memory; facts stay unlooked-for where the text is something else."""
    page_bytes = 0
    rows: dict[str, tuple[int, str]] = {}
    total: Fact[Bytes] = NOT_LOOKED
    for line in numbered_lines(text, source, first_line):
        if page := _PAGE.search(line.text):
            page_bytes = int(page[1])
        if whole := _TOTAL.search(line.text):
            total = reported(int(whole[1]), line.source)
        if row := _ROW.search(line.text):
            rows[row[1]] = (int(row[2]), line.source)
    pages = _Pages(page_bytes, rows if page_bytes else {})
    memory = Memory(
        total_bytes=total,
        available_bytes=pages.available(),
        wired_bytes=pages.fact("Pages wired down"),
        compressed_bytes=pages.fact(*_COMPRESSOR),
        swapped_in_bytes=pages.fact("Swapins"),
        swapped_out_bytes=pages.fact("Swapouts"),
    )
    return bounded(memory)


class _Pages:
    """Counts of pages as bytes."""

    def __init__(self, page_bytes: int, rows: dict[str, tuple[int, str]]) -> None:
        self.page_bytes = page_bytes
        self.rows = rows

    def fact(self, *names: str) -> Fact[Bytes]:
        """The first of these rows that is there."""
        row = next((self.rows[name] for name in names if name in self.rows), None)
        return reported(row[0] * self.page_bytes, row[1]) if row else NOT_LOOKED

    def available(self) -> Fact[Bytes]:
        """What can be had without swapping: free pages, and those that only cache something."""
        rows = [self.rows[name] for name in _AVAILABLE if name in self.rows]
        if len(rows) < len(_AVAILABLE):
            return NOT_LOOKED
        size = sum(count for count, _ in rows) * self.page_bytes
        return estimated(size, f"{rows[0][1]}: pages free + inactive + speculative")


def parse_text(text: Text) -> Seen:
    """The memory of a Mac, as vm_stat or memory_pressure show it in a text."""
    return seen_machine(text, _FORMS, lambda lines, source, first: Machine(memory=parse_memory(lines, source, first)))
