"""Every instance that a Prometheus knows, judged."""

import time

import msgspec

from unslow.app.fleet.reading import Fleet, read_fleet
from unslow.app.fleet.request import FleetRequest
from unslow.app.progress import Progress
from unslow.app.spell import spelled_subject
from unslow.fleet.judging import judged
from unslow.think.fleet.report import FleetReport
from unslow.think.fleet.whole import fleet_of


def fleet_report(request: FleetRequest, progress: Progress) -> FleetReport:
    """Ask, join, judge each, and hold them against one another."""
    started_s = time.monotonic()
    fleet = read_fleet(request, progress)
    return report_on(fleet, request, progress, started_s)


def report_on(fleet: Fleet, request: FleetRequest, progress: Progress, started_s: float) -> FleetReport:
    """The same of a fleet that was read."""
    found = judged(fleet.members, request.workers, progress, spelled_subject)
    progress.step(f"comparing {len(found)} instances", 1.0)
    report = fleet_of(found, fleet.head(request.options.window_s, started_s))
    return msgspec.structs.replace(report, seconds=time.monotonic() - started_s)
