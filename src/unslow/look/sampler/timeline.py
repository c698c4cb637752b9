"""The samples over time, thinned to what a picture can show: small enough to lie in every snapshot."""

from collections.abc import Iterator, Sequence
from math import inf
from typing import NamedTuple, get_args

from unslow.facts.telemetry import Phase, Span, Timeline, TrackSeen
from unslow.look.sampler.block import Block, known
from unslow.look.sampler.book import Book
from unslow.look.sampler.reasons import reasons_seen

MOST_COLUMNS, FEWEST_COLUMNS = 400, 60
"""A picture is some hundred pixels wide; fewer than these show no course."""
MOST_VALUES = 6000
"""Of all tracks together, about 60 kB as JSON: a server with eight GPUs gets a coarser picture, not a larger one."""
MOST_SPANS = 240
_DIGITS = 4  # of a value: a pixel shows no more
OF_A_GPU = (
    "clock_hz", "memory_clock_hz", "power_w", "temperature_c", "vram_used_bytes", "busy", "memory_busy",
    "pcie_receive_bytes_per_s", "pcie_transmit_bytes_per_s",
)  # fmt: skip
OF_THE_HOST = ("busy_cpus", "own_cpus", "others_cpus", "memory_available_bytes", "disk_read_bytes_per_s")


class _Slice(NamedTuple):
    """Rows of one block that fall into one column of the picture."""

    column: int
    block: Block
    first: int
    last: int


def timeline_of(book: Book) -> Timeline | None:
    """What was sampled so far; None where that is less than two rows."""
    if book.samples <= 1 or not book.first_s < book.last_s:
        return None
    wanted = list(_wanted(book))
    columns = _columns(book.samples, len(wanted))
    width_s = (book.last_s - book.first_s) / columns
    slices = _slices(book, columns, width_s)
    tracks = [TrackSeen(name=n, device=d, values=_means(slices, at, columns)) for n, d, at in wanted]
    return Timeline(
        times_s=tuple(round((number + 0.5) * width_s, 3) for number in range(columns)),
        tracks=tuple(track for track in tracks if any(value is not None for value in track.values)),
        spans=_spans(book, width_s),
        reasons=reasons_seen(book, width_s),
    )


def _wanted(book: Book) -> Iterator[tuple[str, int | None, int]]:
    """Name, device and place of every column that is drawn."""
    places = {name: at for at, name in enumerate(book.columns)}
    for device in book.devices:
        for name in OF_A_GPU:
            if (at := places.get(device.prefix + name)) is not None:
                yield name, device.number, at
    for name in OF_THE_HOST:
        if (at := places.get(name)) is not None:
            yield name, None, at


def _columns(samples: int, tracks: int) -> int:
    return min(samples, MOST_COLUMNS, max(FEWEST_COLUMNS, MOST_VALUES // max(1, tracks)))


def _slices(book: Book, columns: int, width_s: float) -> list[_Slice]:
    found = []
    for block, rows in book.held():
        first = 0
        while first < rows:
            column = min(columns - 1, int((block.seconds[first] - book.first_s) / width_s))
            end_s = book.first_s + (column + 1) * width_s if column < columns - 1 else inf
            last = max(first + 1, min(rows, block.between(block.seconds[first], end_s)[1]))
            found.append(_Slice(column, block, first, last))
            first = last
    return found


def _means(slices: Sequence[_Slice], at: int, columns: int) -> tuple[float | None, ...]:
    """The mean of each column of the picture."""
    totals, counts = [0.0] * columns, [0] * columns
    for column, block, first, last in slices:
        values = block.columns[at]
        total, count = (values[first], 1) if last - first == 1 else (sum(values[first:last]), last - first)
        if total != total:  # noqa: PLR0124 (one of them is NaN)
            there = known(values[first:last])
            total, count = sum(there), len(there)
        totals[column] += total
        counts[column] += count
    return tuple(_short(total / count) if count else None for total, count in zip(totals, counts, strict=True))


def _short(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def _spans(book: Book, width_s: float) -> tuple[Span, ...]:
    """Where each phase was; what lies closer together than a picture tells is one stretch."""
    close_s = width_s / 2
    while len(found := [span for phase in get_args(Phase) for span in _joined(book, phase, close_s)]) > MOST_SPANS:
        close_s *= 2
    return tuple(sorted(found, key=lambda span: span.start_s))


def _joined(book: Book, phase: Phase, close_s: float) -> list[Span]:
    found: list[tuple[float, float]] = []
    for start, end in book.pieces(phase):
        if found and start - found[-1][1] < close_s:
            found[-1] = found[-1][0], end
        else:
            found.append((start, end))
    return [_span(book, phase, start, end) for start, end in found if end > book.first_s and start < book.last_s]


def _span(book: Book, phase: Phase, start_s: float, end_s: float) -> Span:
    start, end = max(start_s, book.first_s), min(end_s, book.last_s)
    return Span(phase=phase, start_s=round(start - book.first_s, 3), end_s=round(end - book.first_s, 3))
