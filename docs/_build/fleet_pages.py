"""What the pages on fleets show: a report that was really made, and what was measured of a fleet."""

import json
from pathlib import Path
from typing import Any

import msgspec
from lab.fleet.capacity_truth import compare

from unslow.fleet.report import FleetReport
from unslow.fleet.show import render_fleet

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "examples" / "fleet.json"
"""What `unslow fleet --json` wrote over the bed of `lab/fleet/bed.py`."""
BENCHMARK = ROOT / "lab" / "data" / "fleet_benchmark.json"
TRUTHS = {
    "135 million weights on one thread of a CPU": ROOT / "lab" / "data" / "fleet_capacity_truth.json",
    "8 billion weights on an H200": ROOT / "lab" / "data" / "fleet_capacity_h200.json",
}
_WIDTH = 100


def example() -> str:
    """The report as a terminal shows it."""
    report = msgspec.json.decode(EXAMPLE.read_bytes(), type=FleetReport)
    return render_fleet(report, "terminal", width=_WIDTH, color=False)


def benchmark_table() -> str:
    """What a generated fleet took, by its size."""
    results: list[dict[str, Any]] = json.loads(BENCHMARK.read_bytes())
    head = (
        "| instances | series | seconds | CPU seconds, ours and Prometheus' | memory | queries | faults named | "
        "healthy called slow |"
    )
    rows = [
        f"| {one['instances']:,} | {one['series']:,} | {one['seconds']:.0f} | {one['cpu_s']:.0f} and "
        f"{one['server_cpu_s']:.0f} | {one['bytes'] / 1e9:.2f} GB | {one['queries']} | {one['named_share']:.0%} | "
        f"{one['false_share']:.1%} |"
        for one in results
    ]
    return "\n".join([head, "|--:|--:|--:|--:|--:|--:|--:|--:|", *rows])


def capacity_table() -> str:
    """What each of several users got against what was predicted from fewer."""
    head = "| llama-server with | users | predicted from fewer, tok/s each | measured | error |\n|---|--:|--:|--:|--:|"
    rows = []
    for words, file in TRUTHS.items():
        taken = json.loads(file.read_bytes())
        for place in (2, 3):
            one = compare(taken, place)
            low, mid, high = one.predicted_tokens_per_s
            rows.append(
                f"| {words} | {one.users:.0f} | {mid:.1f} ({low:.1f} to {high:.1f}) | "
                f"{one.measured_tokens_per_s:.1f} | {one.error:+.0%} |"
            )
    return "\n".join([head, *rows])
