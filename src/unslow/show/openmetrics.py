"""The report as metrics that Prometheus reads: bounded in number, with nothing in them that names a person."""

from typing import NamedTuple

from unslow.show._metric_subjects import keyed, subject_families
from unslow.show._metric_text import Dialect, Family, Sample, label_value, text_of
from unslow.think.report import Report

TYPES: dict[Dialect, str] = {
    "openmetrics": "application/openmetrics-text; version=1.0.0; charset=utf-8",
    "text": "text/plain; version=0.0.4; charset=utf-8",
}


class LookState(NamedTuple):
    """How looking went: of this the metrics tell too, as values without an age are none."""

    success: bool = False
    """Whether the last look told anything; before the first there is none."""
    at_s: float | None = None
    """When the last look that succeeded ended, in seconds since 1970."""
    duration_s: float | None = None
    failures: int = 0
    seen_s: tuple[tuple[str, float], ...] = ()
    """By the key of a subject: when its speed was last seen."""
    answers: tuple[tuple[str, bool], ...] = ()
    """By the key of a subject: whether it answers questions about its work."""
    left_out: int = 0
    """Servers that were found and are not watched, as there are too many."""


class OwnCost(NamedTuple):
    """What the exporter itself has used."""

    cpu_s: float
    resident_bytes: int | None
    started_at_s: float


def render(report: Report, *, width: int, color: bool, everything: bool) -> str:  # noqa: ARG001 (one signature for all)
    """The whole report as OpenMetrics text."""
    return exposition(report, None, "openmetrics").rstrip("\n")


def exposition(
    report: Report | None, state: LookState | None, dialect: Dialect, own: OwnCost | None = None, version: str = ""
) -> str:
    """All families; without a report only how looking goes, without a state only the report."""
    return text_of(families_of(report, state, own, version), dialect)


def families_of(
    report: Report | None, state: LookState | None, own: OwnCost | None = None, version: str = ""
) -> list[Family]:
    """The same before it is text; a family without samples is among them."""
    version = version or (report.unslow_version if report else "")
    subjects = keyed(report.subjects) if report else {}
    families = [Family("unslow_build", "The exporter.", (Sample(1, {"version": label_value(version)}),), "info")]
    families += _looking(state) if state else []
    if report is not None:
        families.append(_one("unslow_subjects", "Servers that were found.", _found(report, state)))
        families += subject_families(subjects)
    if state is not None:
        seen = tuple(Sample(at, {"subject": key}) for key, at in state.seen_s if key in subjects)
        words = "When the speed was last seen: a server without requests shows none."
        families.append(Family("unslow_speed_timestamp_seconds", words, seen, unit="seconds"))
        up = tuple(Sample(well, {"subject": key}) for key, well in state.answers if key in subjects)
        words = "1 where the server answers questions about itself; 0 while it loads, hangs or is gone."
        families.append(Family("unslow_subject_answers", words, up))
    return [*families, *(_own(own) if own else [])]


def _found(report: Report, state: LookState | None) -> int:
    return len(report.subjects) + (state.left_out if state else 0)


def _one(name: str, words: str, value: float | None, unit: str = "") -> Family:
    return Family(name, words, () if value is None else (Sample(value),), unit=unit)


def _looking(state: LookState) -> list[Family]:
    failed = (Sample(state.failures),)
    return [
        _one("unslow_look_success", "1 where the last look went well; 0 before the first.", state.success),
        _one("unslow_look_timestamp_seconds", "When the last good look ended.", state.at_s, "seconds"),
        _one("unslow_look_duration_seconds", "How long the last look took.", state.duration_s, "seconds"),
        Family("unslow_look_failures", "Looks that failed since the start.", failed, "counter"),
        _one("unslow_subjects_left_out", "Servers that were found and are not watched.", state.left_out),
    ]


def _own(own: OwnCost) -> list[Family]:
    used = (Sample(own.cpu_s),)
    return [
        Family("process_cpu_seconds", "Processor time that the exporter has used.", used, "counter", "seconds"),
        _one("process_resident_memory_bytes", "Memory that the exporter uses.", own.resident_bytes, "bytes"),
        _one("process_start_time_seconds", "When the exporter was started.", own.started_at_s, "seconds"),
    ]
