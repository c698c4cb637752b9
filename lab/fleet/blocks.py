"""Series of the past for a Prometheus: written as OpenMetrics with times, then made into blocks by promtool."""

import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, TextIO

from lab.fleet.instance import Target
from lab.fleet.lines import Line, placed

OFFSETS = 16
"""Moments within a scrape interval at which targets are scraped: not all of them at once."""


class Span(NamedTuple):
    """When there are samples, in seconds of the clock."""

    start_s: float
    end_s: float
    step_s: float = 30.0
    nought_s: float | None = None
    """The moment nought of all lines; the end without it."""

    def parts(self, number: int) -> list["Span"]:
        """One after the other, of whole steps, with the same moment nought."""
        steps = -(-int((self.end_s - self.start_s) / self.step_s) // number) * self.step_s
        starts = [self.start_s + n * steps for n in range(number)]
        ends = [*(start - 0.001 for start in starts[1:]), self.end_s]
        nought = self.end_s if self.nought_s is None else self.nought_s
        return [Span(start, end, self.step_s, nought) for start, end in zip(starts, ends, strict=True)]

    def times(self, offset: float) -> list[float]:
        """The moments of a target whose scrapes come so late in each step, as a share of it."""
        first = self.start_s + offset * self.step_s
        return [first + n * self.step_s for n in range(max(0, int((self.end_s - first) / self.step_s) + 1))]


def write_text(out: TextIO, targets: Iterable[Target], span: Span) -> int:
    """The series of these targets over the span, and whether each was up; how many series."""
    written, nought = 0, span.end_s if span.nought_s is None else span.nought_s
    times = [span.times(n / OFFSETS) for n in range(OFFSETS)]
    for place, target in enumerate(targets):
        up = Line("up", dict(sorted(target.labels.items())), 0.0 if target.down else 1.0)
        lines = [] if target.down else placed(target.lines, target.labels, honor=target.honor_labels)
        for line in (up, *lines):
            _write(out, line, times[place % OFFSETS], nought)
        written += 1 + len(lines)
    return written


def _write(out: TextIO, line: Line, times: Sequence[float], nought_s: float) -> None:
    identity = line.identity
    if line.swing:
        out.writelines([f"{identity} {line.at(time - nought_s):.7g} {time:.3f}\n" for time in times])
    elif line.per_s:  # most of them, so without a call for each sample
        level, per_s = line.level - nought_s * line.per_s, line.per_s
        out.writelines([f"{identity} {level + per_s * time:.12g} {time:.3f}\n" for time in times])
    else:
        before = f"{identity} {line.level:.10g}"
        out.writelines([f"{before} {time:.3f}\n" for time in times])


def make_blocks(promtool: Path, text: Path, folder: Path) -> None:
    """The blocks of that text, in the folder; RuntimeError with what promtool says where it refuses."""
    command = [str(promtool), "tsdb", "create-blocks-from", "openmetrics", "--quiet", str(text), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"promtool: {done.stderr[-2000:]}")


def backfill(promtool: Path, folder: Path, targets: Iterable[Target], span: Span) -> int:
    """Blocks of a span; how many series were written."""
    folder.mkdir(parents=True, exist_ok=True)
    text = folder / "series.om"
    try:
        with text.open("w", encoding="utf-8") as out:
            written = write_text(out, targets, span)
            out.write("# EOF\n")
        make_blocks(promtool, text, folder)
    finally:
        text.unlink(missing_ok=True)
    return written
