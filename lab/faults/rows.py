"""The rows that the lab writes, and the table of them."""

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from lab.faults.diagnosing import Diagnosis
from lab.faults.fault import Fault, Metric

REPORTED: dict[Metric, str] = {
    "decode": "decode_tokens_per_s",
    "prefill": "prefill_tokens_per_s",
    "first_token": "time_to_first_token_s",
    "load": "load_s",
    "together": "together_tokens_per_s",
}
"""What a report calls the metric."""


class Row(msgspec.Struct, kw_only=True):
    """One fault: what was injected, what was diagnosed, what was predicted and what the cure gave."""

    name: str
    where: str
    what: str
    cause: str
    diagnosed: list[str] = []
    verdict: str = ""
    right: bool = False
    strays: list[str] = []
    """Findings that are neither the cause nor what may stand beside it."""
    phase: str = ""
    metric: str = ""
    measured_before: float | None = None
    reported_before: float | None = None
    """The same as the report has it."""
    predicted_after: float | None = None
    measured_after: float | None = None
    error: float | None = None
    """Predicted over measured, less one."""
    unexplained: float | None = None
    """The share of the measured time of a token that the budget can't explain."""
    diagnosis_s: float = 0.0
    cannot_tell: list[str] = []
    asked: tuple[int, int] | None = None
    """Of a first token: how many tokens of the question were there before, and how many were new."""
    others_cpus: float = 0.0
    """How many CPUs strangers kept busy just before."""
    skipped: str = ""
    trouble: str = ""


def row_of(fault: Fault, where: str, diagnosis: Diagnosis) -> Row:
    """What the report says of the fault; the measurements come to it later."""
    subject = diagnosis.subject
    found = [finding["cause"] for finding in subject.get("findings", ())]
    verdict = subject.get("verdict", "")
    return Row(
        name=fault.name,
        where=where,
        what=fault.what,
        cause=fault.cause,
        diagnosed=found,
        verdict=verdict,
        right=_is_right(fault, found) and verdict == fault.verdict,
        strays=[cause for cause in found if cause not in (fault.cause, *fault.also, *_consequences(subject))],
        phase=subject.get("phase", ""),
        metric=fault.metric,
        reported_before=subject.get("measured", {}).get(REPORTED[fault.metric]),
        predicted_after=predicted(subject, fault.metric),
        unexplained=unexplained(subject),
        diagnosis_s=round(diagnosis.seconds, 1),
        cannot_tell=[untold["cause"] for untold in subject.get("cannot_tell", ())],
        trouble="" if subject else diagnosis.trouble,
    )


def _is_right(fault: Fault, found: list[str]) -> bool:
    """The cause first; of several that cost about as much, any of them first and all of them named."""
    first, all_of_them = found[0] if found else "", {fault.cause, *fault.also}
    return first in all_of_them and all_of_them <= set(found) if fault.either else first == fault.cause


def _consequences(subject: dict[str, Any]) -> list[str]:
    """What the first finding explains: one chain is one answer."""
    return [cause for finding in subject.get("findings", ())[:1] for cause in finding.get("explains", ())]


def predicted(subject: dict[str, Any], metric: Metric) -> float | None:
    """The metric once everything found is cured; else what the first fix promises."""
    name = REPORTED[metric]
    achievable = subject.get("expected", {}).get("achievable", {})
    if name in achievable:
        return float(achievable[name]["mid"])
    fixes = (fix for finding in subject.get("findings", ()) for fix in finding["fixes"])
    return next((float(fix["predicted"][name]) for fix in fixes if name in fix["predicted"]), None)


def unexplained(subject: dict[str, Any]) -> float | None:
    """The unexplained share of the time of a token; None where that was not measured."""
    parts = [part for part in subject.get("budget", ()) if part["phase"] == "decode"]
    seconds = sum(part["seconds"] for part in parts)
    left = sum(part["seconds"] for part in parts if part["part"] == "unexplained")
    return float(left / seconds) if seconds else None


def append(row: Row, path: Path) -> None:
    """Add a line to the file of rows."""
    with path.open("ab") as file:
        file.write(msgspec.json.encode(row) + b"\n")


def read_rows(path: Path) -> list[Row]:
    """The rows of a file; of a fault that was run again, the last."""
    rows = [msgspec.convert(json.loads(line), Row) for line in path.read_text().splitlines() if line.strip()]
    return list({(row.where, row.name): row for row in rows}.values())


def table(rows: Sequence[Row]) -> str:
    """All rows and what they come to."""
    head = (
        f"{'fault':34} {'':2} {'diagnosed':34} {'before':>8} {'predicted':>9} {'after':>8} {'error':>6} {'unexpl.':>7}"
    )
    return "\n".join([head, *(_line(row) for row in rows), "", *totals(rows)])


def _line(row: Row) -> str:
    if row.skipped:
        return f"{row.name:34} -- skipped, because {row.skipped}"
    said = ", ".join(row.diagnosed) or row.verdict or row.trouble
    amounts = [row.measured_before, row.predicted_after, row.measured_after]
    before, promised, after = ("-" if a is None else f"{a:.3g}" for a in amounts)
    shares = ("-" if s is None else f"{s:.0%}" for s in (row.error, row.unexplained))
    error, left = shares
    sign = "ok" if row.right and not row.strays else "+?" if row.right else "NO"
    return f"{row.name:34} {sign:2} {said:34} {before:>8} {promised:>9} {after:>8} {error:>6} {left:>7}"


def totals(rows: Sequence[Row]) -> list[str]:
    """How often it was right, and how far off the predictions were."""
    played = [row for row in rows if not row.skipped]
    faults, healthy = [r for r in played if r.cause], [r for r in played if not r.cause]
    errors = [abs(row.error) for row in faults if row.error is not None]
    left = [abs(row.unexplained) for row in played if row.unexplained is not None]
    return [
        f"right cause first: {sum(r.right for r in faults)} of {len(faults)}",
        f"healthy, without findings: {sum(r.right and not r.diagnosed for r in healthy)} of {len(healthy)}",
        f"predicted speed after the cure, median error: {_median(errors)} of {len(errors)}",
        f"unexplained, median: {_median(left)} of {len(left)}",
        f"skipped: {sum(bool(row.skipped) for row in rows)}",
    ]


def _median(values: list[float]) -> str:
    return f"{statistics.median(values):.0%}" if values else "none"
