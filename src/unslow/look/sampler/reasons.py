"""When the driver named a reason for low clocks: from sample to sample, however coarse the picture is.

A second of heat in an hour is less than a column of a picture: it is kept, and drawn as long as it was.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from unslow.facts.telemetry import ReasonSeen
from unslow.look.sampler.book import Book
from unslow.look.sampler.reading import REASON_BITS, Device
from unslow.look.sampler.under_load import MEANT_SHARE

MOST_REASONS = 120
FLICKER_S = 0.5
"""A reason that is set again within this was set all the while, if it was set in enough of the samples."""
SHORTEST_S = 0.15
"""Shorter than two samples, ten times a second: a limit that is touched once costs nothing."""


class _Stretch(NamedTuple):
    """From a moment to another, and for how much of that the reason was set."""

    start_s: float
    end_s: float
    set_s: float


def reasons_seen(book: Book, width_s: float) -> tuple[ReasonSeen, ...]:
    """The stretches of every reason; what lies closer together than a picture tells is one."""
    found = {(d.number, name): stretches for d in book.devices for name, stretches in _of_device(book, d).items()}
    close_s, whole_s = width_s / 2, book.last_s - book.first_s
    while len(every := [(key, one) for key in found for one in _joined(found[key], close_s)]) > MOST_REASONS:
        if close_s > whole_s:  # each is one stretch by now
            break
        close_s *= 2
    shown = (_shown(book, *key, one) for key, one in every[:MOST_REASONS])
    return tuple(sorted(shown, key=lambda reason: (reason.start_s, reason.device)))


def _of_device(book: Book, device: Device) -> dict[str, list[_Stretch]]:
    if device.prefix + REASON_BITS not in book.columns:
        return {}
    runs = list(_runs(book, book.columns.index(device.prefix + REASON_BITS)))
    named = {bits: device.reason_names(bits) for bits in {bits for _, _, bits in runs}}
    found: dict[str, list[_Stretch]] = {}
    for start_s, end_s, bits in runs:
        for name in named[bits]:
            found.setdefault(name, []).append(_Stretch(start_s, end_s, end_s - start_s))
    return {name: list(_meant(stretches)) for name, stretches in found.items()}


def _runs(book: Book, at: int) -> Iterator[tuple[float, float, int]]:
    """Stretches of one value, each up to the sample after it."""
    start_s, bits = book.first_s, 0
    for block, rows in book.held():
        first = 0
        for value, group in groupby(block.columns[at][:rows]):
            if value == value and int(value) != bits:  # noqa: PLR0124 (what was not read is as before)
                yield start_s, block.seconds[first], bits
                start_s, bits = block.seconds[first], int(value)
            first += sum(1 for _ in group)
    yield start_s, book.last_s, bits


def _meant(stretches: Sequence[_Stretch]) -> Iterator[_Stretch]:
    """Those that were no mere touch: long enough, or set again and again."""
    for one in _joined(stretches, FLICKER_S):
        if one.set_s >= max(SHORTEST_S, MEANT_SHARE * (one.end_s - one.start_s)):
            yield one


def _joined(stretches: Sequence[_Stretch], close_s: float) -> list[_Stretch]:
    found: list[_Stretch] = []
    for one in stretches:
        if found and one.start_s - found[-1].end_s < close_s:
            last = found.pop()
            one = _Stretch(last.start_s, one.end_s, last.set_s + one.set_s)  # noqa: PLW2901
        found.append(one)
    return found


def _shown(book: Book, device: int, name: str, one: _Stretch) -> ReasonSeen:
    start_s, end_s = (round(seconds - book.first_s, 3) for seconds in (one.start_s, one.end_s))
    return ReasonSeen(device=device, reason=name, start_s=start_s, end_s=end_s)
