"""The samples over time as a snapshot keeps them: thinned curves, the reasons for low clocks, the GPUs under load."""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from math import inf
from typing import Any, NamedTuple, get_args

from unslow.facts.merge import bound_facts
from unslow.facts.run import GpuUnderLoad, Phase, PhaseTelemetry, ReasonSeen, Span, Stat, Telemetry, Timeline, TrackSeen
from unslow.facts.values import Fact, Fraction, measured_fact, not_found, reported_fact
from unslow.look.sampler.readings import REASON_BITS, Device
from unslow.look.sampler.rows import Block, SampledRows, known_values

UNDER_LOAD = "sampled while generating"
MEANT_SHARE = 0.2
"""Of the samples in which a reason must be set to count as one. A GPU that works touches its power limit now and then
without losing anything: clocks that were halved in fewer samples than these cost less than a tenth of the speed, which
is not slowness. Heat and power that do hold a GPU back are set nearly all the time, or at least every other sample."""

_FACTS: dict[str, tuple[str, Callable[[Stat], float]]] = {
    "busy": ("busy", lambda stat: stat.mean),
    "memory_busy": ("memory_busy", lambda stat: stat.mean),
    "clock_hz": ("clock_hz", lambda stat: stat.mean),
    "temperature_max_c": ("temperature_c", lambda stat: stat.high),
    "power_max_w": ("power_w", lambda stat: stat.high),
    "vram_used_max_bytes": ("vram_used_bytes", lambda stat: round(stat.high)),
    "pcie_generation_max_seen": ("pcie_generation", lambda stat: round(stat.high)),
    "pcie_width_max_seen": ("pcie_width", lambda stat: round(stat.high)),
    "others_busy": ("others_busy", lambda stat: stat.mean),
}

MOST_REASONS = 120
FLICKER_S = 0.5  # A reason that is set again within this was set all the while, if it was set in enough of the samples
SHORTEST_S = 0.15  # Shorter than two samples, ten times a second: a limit that is touched once costs nothing

MOST_COLUMNS, FEWEST_COLUMNS = 400, 60  # A picture is some hundred pixels wide; fewer than these show no course
MOST_VALUES = 6000
"""Of all tracks together, about 60 kB as JSON: a server with eight GPUs gets a coarser picture, not a larger one."""
MOST_SPANS = 240
_DIGITS = 4  # of a value: a pixel shows no more
OF_A_GPU = (
    "clock_hz", "memory_clock_hz", "power_w", "temperature_c", "vram_used_bytes", "busy", "memory_busy",
    "pcie_receive_bytes_per_s", "pcie_transmit_bytes_per_s",
)  # fmt: skip
OF_THE_HOST = ("busy_cpus", "own_cpus", "others_cpus", "memory_available_bytes", "disk_read_bytes_per_s")

_Slice = tuple[int, Block, int, int]  # A column of the picture, and the rows of a block that are in it


class _Stretch(NamedTuple):
    """From a moment to another, and for how much of that a reason was set, or a phase went on."""

    start_s: float
    end_s: float
    set_s: float


def timeline_of(book: SampledRows) -> Timeline | None:
    """What was sampled so far; None where that is less than two rows."""
    if book.samples <= 1 or not book.first_s < book.last_s:
        return None
    places = {name: at for at, name in enumerate(book.columns)}
    names: list[tuple[str, str, int | None]] = [("", name, None) for name in OF_THE_HOST]
    names[:0] = [(device.prefix, name, device.number) for device in book.devices for name in OF_A_GPU]
    wanted = [(name, number, places[prefix + name]) for prefix, name, number in names if prefix + name in places]
    columns = min(book.samples, MOST_COLUMNS, max(FEWEST_COLUMNS, MOST_VALUES // max(1, len(wanted))))
    width_s = (book.last_s - book.first_s) / columns
    slices = _slices(book, columns, width_s)
    tracks = [TrackSeen(name=n, device=d, values=_means(slices, at, columns)) for n, d, at in wanted]
    # Where each phase was; what lies closer together than a picture tells is one stretch
    close_s = width_s / 2
    while len(found := [span for phase in get_args(Phase) for span in _spans(book, phase, close_s)]) > MOST_SPANS:
        close_s *= 2
    return Timeline(
        times_s=tuple(round((number + 0.5) * width_s, 3) for number in range(columns)),
        tracks=tuple(track for track in tracks if any(value is not None for value in track.values)),
        spans=tuple(sorted(found, key=lambda span: span.start_s)),
        reasons=reasons_seen(book, width_s),
    )


def _slices(book: SampledRows, columns: int, width_s: float) -> list[_Slice]:
    found = []
    for block, rows in book.blocks_with_rows():
        first = 0
        while first < rows:
            column = min(columns - 1, int((block.seconds[first] - book.first_s) / width_s))
            end_s = book.first_s + (column + 1) * width_s if column < columns - 1 else inf
            last = max(first + 1, min(rows, block.between(block.seconds[first], end_s)[1]))
            found.append((column, block, first, last))
            first = last
    return found


def _means(slices: Sequence[_Slice], at: int, columns: int) -> tuple[float | None, ...]:
    totals, counts = [0.0] * columns, [0] * columns
    for column, block, first, last in slices:
        values = block.columns[at]
        total, count = (values[first], 1) if last - first == 1 else (sum(values[first:last]), last - first)
        if total != total:  # noqa: PLR0124 (one of them is NaN)
            there = known_values(values[first:last])
            total, count = sum(there), len(there)
        totals[column] += total
        counts[column] += count
    return tuple(
        float(f"{total / count:.{_DIGITS}g}") if count else None for total, count in zip(totals, counts, strict=True)
    )


def _spans(book: SampledRows, phase: Phase, close_s: float) -> list[Span]:
    from_s, to_s, found = book.first_s, book.last_s, []
    for start, end, _ in _join_stretches(
        [_Stretch(start, end, end - start) for start, end in book.pieces(phase)], close_s
    ):
        if end > from_s and start < to_s:
            start_s, end_s = max(start, from_s) - from_s, min(end, to_s) - from_s
            found.append(Span(phase=phase, start_s=round(start_s, 3), end_s=round(end_s, 3)))
    return found


def reasons_seen(book: SampledRows, width_s: float) -> tuple[ReasonSeen, ...]:
    """When the driver named a reason for low clocks; what lies closer together than a picture tells is one.

    Seen from sample to sample, however coarse the picture is. A second of heat in an hour is less than a column of a
    picture: it is kept, and drawn as long as it was.
    """
    found = {(d.number, name): stretches for d in book.devices for name, stretches in _of_device(book, d).items()}
    close_s, whole_s = width_s / 2, book.last_s - book.first_s
    while len(every := [(key, one) for key in found for one in _join_stretches(found[key], close_s)]) > MOST_REASONS:
        if close_s > whole_s:  # each is one stretch by now
            break
        close_s *= 2
    shown = []
    for (device, name), one in every[:MOST_REASONS]:
        start_s, end_s = (round(seconds - book.first_s, 3) for seconds in (one.start_s, one.end_s))
        shown.append(ReasonSeen(device=device, reason=name, start_s=start_s, end_s=end_s))
    return tuple(sorted(shown, key=lambda reason: (reason.start_s, reason.device)))


def _of_device(book: SampledRows, device: Device) -> dict[str, list[_Stretch]]:
    if device.prefix + REASON_BITS not in book.columns:
        return {}
    runs = list(_runs(book, book.columns.index(device.prefix + REASON_BITS)))
    named = {bits: device.reason_names(bits) for bits in {bits for _, _, bits in runs}}
    found: dict[str, list[_Stretch]] = {}
    for start_s, end_s, bits in runs:
        for name in named[bits]:
            found.setdefault(name, []).append(_Stretch(start_s, end_s, end_s - start_s))
    # Those that were no mere touch: long enough, or set again and again
    joined = {name: _join_stretches(stretches, FLICKER_S) for name, stretches in found.items()}
    return {
        name: [one for one in every if one.set_s >= max(SHORTEST_S, MEANT_SHARE * (one.end_s - one.start_s))]
        for name, every in joined.items()
    }


def _runs(book: SampledRows, at: int) -> Iterator[tuple[float, float, int]]:
    """Stretches of one value, each up to the sample after it."""
    start_s, bits = book.first_s, 0
    for block, rows in book.blocks_with_rows():
        first = 0
        for value, group in groupby(block.columns[at][:rows]):
            if value == value and int(value) != bits:  # noqa: PLR0124 (what was not read is as before)
                yield start_s, block.seconds[first], bits
                start_s, bits = block.seconds[first], int(value)
            first += sum(1 for _ in group)
    yield start_s, book.last_s, bits


def _join_stretches(stretches: Sequence[_Stretch], close_s: float) -> list[_Stretch]:
    found: list[_Stretch] = []
    for one in stretches:
        if found and one.start_s - found[-1].end_s < close_s:
            last = found.pop()
            one = _Stretch(last.start_s, one.end_s, last.set_s + one.set_s)  # noqa: PLW2901
        found.append(one)
    return found


def under_load(telemetry: Telemetry) -> tuple[GpuUnderLoad, ...]:
    """Every GPU that was watched while tokens were generated; none where none was."""
    decode, found = decode_phase(telemetry), []
    for gpu in decode.gpus if decode else ():
        if decode and gpu.figures:
            facts: dict[str, Any] = {}
            for fact, (name, value) in _FACTS.items():
                stat = gpu.figures.get(name)
                why = f"the driver did not report {name} during decode"
                facts[fact] = reported_fact(value(stat), UNDER_LOAD) if stat else not_found(why)
            told = "clock_hz" in gpu.figures or gpu.reasons
            meant = [name for name, share in gpu.reasons.items() if share >= MEANT_SHARE]
            reasons = reported_fact(meant, UNDER_LOAD) if told else not_found("the driver reports no reasons")
            seen = GpuUnderLoad(index=gpu.index, samples=decode.samples, event_reasons=reasons, **facts)
            found.append(bound_facts(seen))
    return tuple(found)


def throttled_fraction(telemetry: Telemetry) -> Fact[Fraction]:
    """The share of the quota's periods in which it ran out while tokens were generated."""
    decode = decode_phase(telemetry)
    share = decode.host.get("cpu_throttled_share") if decode else None
    if share is None:
        return not_found(telemetry.unread.get("quota", "no CPU quota period ended during the run"))
    return measured_fact(min(1.0, max(0.0, share.mean)), f"cpu.stat, {UNDER_LOAD}")


def decode_phase(telemetry: Telemetry) -> PhaseTelemetry | None:
    """The phase in which tokens were generated; None where it was not sampled."""
    return next((phase for phase in telemetry.phases if phase.phase == "decode" and phase.samples), None)
