"""A log of any size, read once in blocks: clean lines, shown to the dialects whose needle they hold.

One automaton finds the lines that matter to any dialect; only those are cut out, decoded and read. Where a long log
repeats a needle without end, its first and last lines in each block are read and the others counted, so that the speed
does not depend on how chatty a log is.
"""

import codecs
import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, islice, takewhile

import msgspec
from ahocorasick_rs import BytesAhoCorasick, Implementation

from unslow.look.logs.dialect import LONGEST_LINE, LineDialect, LineReader, Text

BLOCK_BYTES = 1 << 20
EXACT_BYTES = 8 << 20  # A log up to this size is read in full, however often it repeats itself
HEAD_BYTES = 2 << 20  # How much of its start is kept as text; of its end, the last two blocks
MOST_LINES_KEPT = 50_000
_FIRST_KEPT, _LAST_KEPT = 16, 64
_FIRST_OF_CHATTY, _LAST_OF_CHATTY = 2, 8
_BEFORE_NEEDLE = 2048

# what is text, and in which encoding
TEXT_LOOKED_AT = 65_536
_LOOKED_AT = 1024
_NEVER_IN_TEXT = bytes(code for code in range(1, 32) if code not in b"\a\b\t\n\v\f\r\x1b") + b"\x7f"
_MOST_OF_THEM = 0.04  # of random bytes a tenth, of programs, pictures and model files more; of logs next to none
_SIXTEEN_BITS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}

# what a line loses
# CSI sequences, strings that end at a bell or a backslash escape (titles, links), and two-byte escapes
_ESCAPE = re.compile(
    r"\x1b(?:\[[0-9;:?<=>!\"' ]{0,64}[@-~]|[\]PX^_][^\x07\x1b]{0,2048}(?:\x07|\x1b\\)?|[ -/]{0,4}[0-~])"
)
# what is left of control characters, and the marks that turn the direction of text around
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
_BLANKS = re.compile(r"[ \t]{201,}")
"""More of them in a row than any table has; patterns that begin or end with blanks would try each of them."""
_LONG_BLANK = " " * 200

# what others put before a line
_STAMP = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
_MONTHS = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_WRAPPINGS = tuple(
    re.compile(pattern)
    for pattern in (
        # journalctl, and syslog: `Nov 15 11:36:55 host ollama[812]: `
        rf"(?:(?:{_MONTHS}) [ \d]\d \d\d:\d\d:\d\d|{_STAMP}) \S{{1,64}} [\w./@-]{{1,64}}(?:\[\d{{1,9}}\])?: ",
        # kubectl and containerd: `2026-08-22T10:00:00.1Z stderr F `
        rf"{_STAMP} std(?:out|err) [FP] ",
        # docker compose: `ollama-1  | `; more bars make it a table
        r"[\w.-]{1,64}\s{1,40}\| (?=[^\s|])(?![^|]{0,400}\|)",
        # mails and issue threads
        r"(?:> ?){1,4}(?=\S)",
        # docker logs -t
        rf"{_STAMP} (?=\S)",
    )
)
_JSON_START = '{"log":"'
_OPENS = frozenset(">{JFMASOND0123456789")
_MOST_LAYERS = 3


class _DockerLine(msgspec.Struct):
    """A line of docker's own log files."""

    log: str


@dataclass
class _Block:
    """A piece of the log that is kept, the number of its first line, and which lines some dialect recognised."""

    data: bytes
    first: int
    recognised: set[int] = field(default_factory=set)

    def forward(self) -> Iterator[tuple[int, str]]:
        """The lines that no dialect recognised, with their numbers, each made when asked for: there may be millions."""
        start, number, end = 0, self.first, len(self.data)
        while start < end:
            stop = self.data.find(b"\n", start)
            stop = end if stop < 0 else stop
            if number not in self.recognised:
                yield number, unwrapped_line(clean_line(self.data[start : min(stop, start + LONGEST_LINE)]))
            start, number = stop + 1, number + 1

    def backward(self) -> Iterator[tuple[int, str]]:
        stop = len(self.data) - self.data.endswith(b"\n")
        number = self.first + self.data.count(b"\n", 0, stop)
        while number >= self.first:
            start = self.data.rfind(b"\n", 0, stop) + 1
            if number not in self.recognised:
                yield number, unwrapped_line(clean_line(self.data[start : min(stop, start + LONGEST_LINE)]))
            stop, number = start - 1, number - 1


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
        block = _Block(data, self.newlines + 1)
        if self.bytes < HEAD_BYTES:
            self._head.append(block)
        else:
            self._tail.append(block)
        found = self._automaton.find_matches_as_indexes(block.data, overlapping=True)
        long = self.bytes + len(block.data) > self.exact_bytes
        wanted = sorted(self._sample(found) if long else ((at, needle) for needle, at, _ in found))
        for line, number, needles in _cut(block, wanted):
            where = f"{self.source}:{number}"
            for name in dict.fromkeys(name for needle in sorted(needles) for name in self._owners[needle]):
                if self.readers[name].take(line, where):
                    self.recognised[name] += 1
                    block.recognised.add(number)
        self.bytes += len(data)
        self.newlines += data.count(b"\n")
        self._open_line = not data.endswith(b"\n")

    def unread(self) -> list[Text]:
        """The lines that no reader recognised, with their numbers: of a long log, those of its start and of its end."""
        head, tail = self._head, list(self._tail)
        if tail and tail[0].first == head[-1].first + head[-1].data.count(b"\n"):  # no gap between them
            head, tail = head + tail, []
        return [text for part in (head, tail) if part for text in _unrecognised_lines(part, self.source)]

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
            yield decoded_line(clean_line(data[start:end])), number, needles
        # Progress bars write many lines into one with carriage returns
        earliest, latest = max(0, at - _BEFORE_NEEDLE), min(len(data), at + LONGEST_LINE - _BEFORE_NEEDLE)
        start = max(data.rfind(b"\n", earliest, at), data.rfind(b"\r", earliest, at)) + 1 or earliest
        stops = [stop for mark in (b"\n", b"\r") if (stop := data.find(mark, at, latest)) >= 0]
        end = min(stops, default=latest)
        number += data.count(b"\n", counted, start)
        counted, needles = start, {needle}
    if end >= 0:
        yield decoded_line(clean_line(data[start:end])), number, needles


def _unrecognised_lines(part: list[_Block], source: str) -> list[Text]:
    """The lines of a run of blocks; of very many short ones, those of its start and those of its end."""
    forward = (line for block in part for line in block.forward())
    if sum(block.data.count(b"\n") + 1 for block in part) <= MOST_LINES_KEPT:
        runs = [list(forward)]
    else:
        half = MOST_LINES_KEPT // 2
        start = list(islice(forward, half))
        after = start[-1][0] if start else 0
        from_end = (line for block in reversed(part) for line in block.backward())
        end = list(islice(takewhile(lambda line: line[0] > after, from_end), half))
        runs = [start, end[::-1]]
    return [Text([line for _, line in run], source, numbers=[number for number, _ in run]) for run in runs]


@cache
def _automaton(needles: tuple[str, ...]) -> BytesAhoCorasick:
    """One table for all needles: twice as fast as the smaller kinds that the library offers."""
    return BytesAhoCorasick([needle.encode() for needle in needles], implementation=Implementation.DFA)


def whole_line_blocks(chunks: Iterable[bytes]) -> Iterator[bytes]:
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


def in_utf8(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same text in UTF-8: Windows redirects output in UTF-16."""
    waiting = iter(chunks)
    first = b""
    for chunk in waiting:
        first += chunk
        if len(first) >= _LOOKED_AT:
            break
    whole: Iterable[bytes] = chain([first], waiting)
    if encoding := _encoding(first):
        whole = (text.encode("utf-8", "replace") for text in codecs.iterdecode(whole, encoding, "replace"))
    yield from whole


def is_text(start: bytes) -> bool:
    """Whether bytes are text in any encoding; holes of noughts, as rotation leaves them in logs, do not count."""
    start = start[:TEXT_LOOKED_AT]
    if encoding := _encoding(start):
        start = start.decode(encoding, "replace").encode("utf-8", "replace")
    written = len(start) - start.count(0)
    strange = len(start) - len(start.translate(None, _NEVER_IN_TEXT))
    return strange <= _MOST_OF_THEM * written or strange == 1


def _encoding(start: bytes) -> str:
    """The 16-bit encoding of a text by its mark, or by every second byte being zero; empty for any other."""
    if mark := _SIXTEEN_BITS.get(start[:2]):
        return mark
    low, high = start[1:_LOOKED_AT:2], start[0:_LOOKED_AT:2]
    if len(start) < 16:  # noqa: PLR2004 (too short to tell)
        return ""
    if low.count(0) > len(low) // 2 and not high.count(0):
        return "utf-16-le"
    return "utf-16-be" if high.count(0) > len(high) // 2 and not low.count(0) else ""


def clean_line(data: bytes) -> str:
    """A line without colours and control characters; what is not UTF-8 becomes a replacement mark."""
    line = data.decode("utf-8", "replace").rstrip()
    if _LONG_BLANK in line:
        line = _BLANKS.sub(_LONG_BLANK, line)
    if line.isascii() and line.isprintable():
        return line
    return _CONTROL.sub("", _ESCAPE.sub("", line))


def unwrapped_line(line: str) -> str:
    """The line as its program wrote it, without the time and name that others put before it, as far as known."""
    line = decoded_line(line)
    for _ in range(_MOST_LAYERS):
        if not line or (line[0] not in _OPENS and " | " not in line):
            break
        found = next((found for wrapping in _WRAPPINGS if (found := wrapping.match(line))), None)
        if found is None:
            break
        line = line[found.end() :]
    return line


def decoded_line(line: str) -> str:
    """The line out of docker's own log files, which keep each as JSON; any other as it is."""
    if not line.startswith(_JSON_START):
        return line
    try:
        return msgspec.json.decode(line, type=_DockerLine).log.rstrip()
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return line
