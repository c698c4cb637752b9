"""A log of any size, read once in blocks: one automaton finds the lines that matter to any dialect.

Only those lines are cut out, decoded and read. Where a long log repeats a needle without end, its first and last lines
in each block are read and the others counted, so that the speed does not depend on how chatty a log is.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import islice, takewhile

from ahocorasick_rs import BytesAhoCorasick, Implementation

from unslow.look.logs.cleaning import clean_line
from unslow.look.logs.dialect import LONGEST_LINE, LineDialect, LineReader, Text
from unslow.look.logs.wrapping import decoded, unwrapped

BLOCK_BYTES = 1 << 20
EXACT_BYTES = 8 << 20
"""A log up to this size is read in full, however often it repeats itself."""
HEAD_BYTES = 2 << 20
"""How much of its start is kept as text; of its end, the last two blocks."""
MOST_LINES_KEPT = 50_000
_FIRST_KEPT, _LAST_KEPT = 16, 64
_FIRST_OF_CHATTY, _LAST_OF_CHATTY = 2, 8
_BEFORE_NEEDLE = 2048


def blocks(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in blocks of about a megabyte that end with a line; a line longer than that is torn."""
    waiting = bytearray()
    for chunk in chunks:
        for at in range(0, len(chunk), BLOCK_BYTES):
            waiting += chunk[at : at + BLOCK_BYTES]
            if len(waiting) >= BLOCK_BYTES:
                end = waiting.rfind(b"\n") + 1 or len(waiting)
                yield bytes(memoryview(waiting)[:end])
                del waiting[:end]
    if waiting:
        yield bytes(waiting)


@dataclass
class _Block:
    """A piece of the log that is kept, the number of its first line, and which lines some dialect recognised."""

    data: bytes
    first: int
    recognised: set[int] = field(default_factory=set)

    def forward(self) -> Iterator[tuple[int, str]]:
        """The lines that nobody recognised, with their numbers, each made when asked for: there may be millions."""
        start, number, end = 0, self.first, len(self.data)
        while start < end:
            stop = self.data.find(b"\n", start)
            stop = end if stop < 0 else stop
            if number not in self.recognised:
                yield number, _readable(self.data[start : min(stop, start + LONGEST_LINE)])
            start, number = stop + 1, number + 1

    def backward(self) -> Iterator[tuple[int, str]]:
        """The same from the last one."""
        stop = len(self.data) - self.data.endswith(b"\n")
        number = self.first + self.data.count(b"\n", 0, stop)
        while number >= self.first:
            start = self.data.rfind(b"\n", 0, stop) + 1
            if number not in self.recognised:
                yield number, _readable(self.data[start : min(stop, start + LONGEST_LINE)])
            stop, number = start - 1, number - 1


def _readable(line: bytes) -> str:
    return unwrapped(clean_line(line))


@cache
def _automaton(needles: tuple[str, ...]) -> BytesAhoCorasick:
    """One table for all needles: twice as fast as the smaller kinds that the library offers."""
    return BytesAhoCorasick([needle.encode() for needle in needles], implementation=Implementation.DFA)


class LogStream:
    """Feeds the lines of one log to the readers of all dialects."""

    def __init__(self, dialects: Mapping[str, LineDialect], source: str, exact_bytes: int = EXACT_BYTES) -> None:
        self.source = source
        self.exact_bytes = exact_bytes
        self.bytes = 0
        self.newlines = 0
        self.sampled = False
        self.recognised = dict.fromkeys(dialects, 0)
        self.readers: dict[str, LineReader] = {name: dialect.start() for name, dialect in dialects.items()}
        self._needles = sorted({needle for dialect in dialects.values() for needle in dialect.needles})
        self._owners = [[name for name, d in dialects.items() if needle in d.needles] for needle in self._needles]
        self._chatty = [any(needle in d.chatty for d in dialects.values()) for needle in self._needles]
        self._automaton = _automaton(tuple(self._needles))
        self._head: list[_Block] = []
        self._tail: deque[_Block] = deque(maxlen=2)
        self._open_line = False

    @property
    def lines(self) -> int:
        """How many lines the log has so far; one without an end counts too."""
        return self.newlines + self._open_line

    def feed(self, data: bytes) -> None:
        """Read one block."""
        block = _Block(data, self.newlines + 1)
        if self.bytes < HEAD_BYTES:
            self._head.append(block)
        else:
            self._tail.append(block)
        self._read(block)
        self.bytes += len(data)
        self.newlines += data.count(b"\n")
        self._open_line = not data.endswith(b"\n")

    def unread(self) -> list[Text]:
        """The lines that no reader recognised, with their numbers: of a long log, those of its start and of its end."""
        return [text for part in self._parts() for text in _unrecognised(part, self.source)]

    def _parts(self) -> list[list[_Block]]:
        """Runs of blocks without a gap."""
        head, tail = self._head, list(self._tail)
        if not tail:
            return [head] if head else []
        ends_at = head[-1].first + head[-1].data.count(b"\n")
        return [head + tail] if tail[0].first == ends_at else [head, tail]

    def _read(self, block: _Block) -> None:
        found = self._automaton.find_matches_as_indexes(block.data, overlapping=True)
        long = self.bytes + len(block.data) > self.exact_bytes
        wanted = sorted(self._sample(found) if long else ((at, needle) for needle, at, _ in found))
        for line, number, needles in _cut(block, wanted):
            self._show(line, f"{self.source}:{number}", needles, block, number)

    def _show(self, line: str, where: str, needles: set[int], block: _Block, number: int) -> None:
        for name in dict.fromkeys(name for needle in sorted(needles) for name in self._owners[needle]):
            if self.readers[name].take(line, where):
                self.recognised[name] += 1
                block.recognised.add(number)

    def _sample(self, found: list[tuple[int, int, int]]) -> list[tuple[int, int]]:
        """The first and last places of each needle; the readers are told how many lie between."""
        places: defaultdict[int, list[int]] = defaultdict(list)
        for needle, at, _ in found:
            places[needle].append(at)
        kept: list[tuple[int, int]] = []
        for needle, spots in places.items():
            chatty = self._chatty[needle]
            first, last = (_FIRST_OF_CHATTY, _LAST_OF_CHATTY) if chatty else (_FIRST_KEPT, _LAST_KEPT)
            left_out = len(spots) - first - last
            if left_out > 0:
                self.sampled = True
                del spots[first:-last]
                for name in self._owners[needle]:
                    self.readers[name].skip(self._needles[needle], left_out)
            kept.extend((at, needle) for at in spots)
        return kept


def _cut(block: _Block, wanted: list[tuple[int, int]]) -> Iterator[tuple[str, int, set[int]]]:
    """The line around each place, once, with its number and the needles that it holds."""
    data, number, counted, end = block.data, block.first, 0, -1
    start, needles = 0, set[int]()
    for at, needle in wanted:
        if at < end:
            needles.add(needle)
            continue
        if end >= 0:
            yield decoded(clean_line(data[start:end])), number, needles
        start, end = _line_around(data, at)
        number += data.count(b"\n", counted, start)
        counted, needles = start, {needle}
    if end >= 0:
        yield decoded(clean_line(data[start:end])), number, needles


def _line_around(data: bytes, at: int) -> tuple[int, int]:
    """Where the line at a place begins and ends; progress bars write many into one with carriage returns."""
    earliest, latest = max(0, at - _BEFORE_NEEDLE), min(len(data), at + LONGEST_LINE - _BEFORE_NEEDLE)
    start = max(data.rfind(b"\n", earliest, at), data.rfind(b"\r", earliest, at)) + 1 or earliest
    ends = [end for mark in (b"\n", b"\r") if (end := data.find(mark, at, latest)) >= 0]
    return start, min(ends, default=latest)


def _unrecognised(part: list[_Block], source: str) -> list[Text]:
    """The lines of a run of blocks; of very many short ones, those of its start and those of its end."""
    if sum(block.data.count(b"\n") + 1 for block in part) <= MOST_LINES_KEPT:
        return [_text([line for block in part for line in block.forward()], source)]
    half = MOST_LINES_KEPT // 2
    start = list(islice((line for block in part for line in block.forward()), half))
    after = start[-1][0] if start else 0
    from_end = (line for block in reversed(part) for line in block.backward())
    end = list(islice(takewhile(lambda line: line[0] > after, from_end), half))
    return [_text(start, source), _text(end[::-1], source)]


def _text(numbered: list[tuple[int, str]], source: str) -> Text:
    return Text([line for _, line in numbered], source, numbers=[number for number, _ in numbered])
