"""How many series `unslow exporter` has, counted over every recorded machine, and what a store keeps of a fleet."""

from functools import cache
from pathlib import Path
from statistics import median
from typing import NamedTuple

from unslow.commands.diagnose.target import read_stored
from unslow.fleet.openmetrics import (
    MOST_SUBJECTS,
    PHASES,
    VERDICTS,
    LookState,
    OwnCost,
    exposition,
    families_of,
    subjects_by_key,
)
from unslow.think.causes import all_causes
from unslow.think.judge.pricing import NAMES
from unslow.think.judge.judge import diagnose
from unslow.think.report import Report

MACHINES = Path(__file__).parents[2] / "tests" / "machines"
SIZES = (10, 100, 1_000, 10_000)
SCRAPE_S = 60
BYTES_PER_SAMPLE = 2
"""Prometheus keeps one to two: https://prometheus.io/docs/prometheus/latest/storage/#operational-aspects"""
DAYS = 15
"""How long Prometheus keeps a sample where nobody says otherwise, by the same page."""


class Counts(NamedTuple):
    """Series of one machine with one server."""

    usual: int
    most_seen: int
    bound: int


def _samples(report: Report) -> int:
    """Series of one answer, with a look and the exporter's own."""
    key = next(iter(subjects_by_key(report.subjects)))
    state = LookState(success=True, at_s=1.0, duration_s=1.0, seen_s=((key, 1.0),), answers=((key, True),))
    return _lines(report, state)


def _lines(report: Report, state: LookState) -> int:
    text = exposition(report, state, "text", OwnCost(1.0, 1, 1.0))
    return sum(1 for line in text.splitlines() if not line.startswith("#"))


@cache
def counts() -> Counts:
    """By every recorded machine that has one server."""
    reports = [diagnose(read_stored(str(path.parent))) for path in sorted(MACHINES.glob("*/expected.toml"))]
    found = [_samples(report) for report in reports if len(report.subjects) == 1]
    return Counts(round(median(found)), max(found), bound())


def bound() -> int:
    """The most of a machine with one server, whatever that calls itself and whatever is wrong with it."""
    causes, parts = len(all_causes()), len(NAMES) + 1
    speeds = 3 + 3 + 3 + 1
    budget = 2 * (parts + causes) + (len(PHASES) - 2) * 4  # the phases that compute; the others have a few parts
    about = 1 + 1 + len(VERDICTS) + 2
    return about + 3 * causes + speeds + budget + of_the_machine()


def of_the_machine() -> int:
    """Series that tell of no server."""
    nothing = Report(unslow_version="1", machine={}, subjects=())
    return _lines(nothing, LookState(success=True, at_s=1.0, duration_s=1.0))


def series_table() -> str:
    """Series of a machine by the number of its servers."""
    known = counts()
    own = of_the_machine()
    rows = [(n, Counts(*(own + n * (each - own) for each in known))) for n in (1, 4, MOST_SUBJECTS)]
    lines = [f"| {n} | {of.usual:,} | {of.most_seen:,} | {of.bound:,} |" for n, of in rows]
    return "\n".join([
        "| servers on the machine | series, usual | the most of any recorded machine | can't be more |",
        "|---|---|---|---|", *lines,
    ])  # fmt: skip


def sizes_table() -> str:
    """What a store keeps of the exporters of a fleet, one server on each machine."""
    usual = counts().usual
    lines = []
    for size in SIZES:
        per_s = size * usual / SCRAPE_S
        kept = per_s * 86400 * DAYS * BYTES_PER_SAMPLE
        lines.append(f"| {size:,} | {size * usual:,} | {per_s:,.0f} | {kept / 1e9:,.2g} GB |")
    head = f"| instances | series | samples a second | kept for {DAYS} days |"
    return "\n".join([head, "|---|---|---|---|", *lines])


def metrics_table() -> str:
    """Every metric by its name, and what it means."""
    report = Report(unslow_version="", machine={}, subjects=())
    families = families_of(report, LookState(), OwnCost(0.0, 0, 0.0), "")
    endings = {"info": "_info", "counter": "_total", "gauge": ""}
    lines = [f"| `{one.name}{endings[one.kind]}` | {one.help} |" for one in families]
    return "\n".join(["| metric | means |", "|---|---|", *lines])


def blocks() -> dict[str, str]:
    """The generated parts of the pages on the exporter and on deployment."""
    return {"metrics": metrics_table(), "series": series_table(), "sizes": sizes_table()}
