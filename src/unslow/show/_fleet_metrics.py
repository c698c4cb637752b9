"""The sums of a fleet as OpenMetrics, for a job that pushes them: by verdict and by cause, so bounded in number."""

from unslow.show._metric_text import Family, Sample, label_value, text_of
from unslow.think.fleet.report import FleetReport

_HOUR_S = 3600.0
"""Prometheus counts time in seconds alone."""


def metrics_of(report: FleetReport) -> str:
    """No series of a single instance: those are in the Prometheus that was asked already.

    All are gauges, so that readers of the older text format, such as the textfile collector, take it as well.
    """
    return text_of([*_whole(report), *_by_cause(report)], "openmetrics").rstrip("\n")


def _whole(report: FleetReport) -> list[Family]:
    version = (Sample(1, {"version": label_value(report.unslow_version)}),)
    verdicts = tuple(Sample(count, {"verdict": name}) for name, count in report.verdicts.items())
    lost, odd = report.lost, sum(len(group.odd) for group in report.peers)
    return [
        Family("unslow_fleet_build_info", "Who judged.", version),
        Family("unslow_fleet_instances", "Instances by verdict.", verdicts),
        _one("unslow_fleet_complete", "Whether every answer was whole.", float(report.complete)),
        _one("unslow_fleet_window_seconds", "The time that was judged.", report.window_s, "seconds"),
        _one("unslow_fleet_queries", "Queries that it took.", report.queries),
        _one("unslow_fleet_duration_seconds", "How long asking and judging took.", report.seconds, "seconds"),
        _one("unslow_fleet_gpus", "GPUs of all instances.", report.gpus),
        _one("unslow_fleet_tokens_per_second", "Tokens of all answers.", report.tokens_per_s),
        _one("unslow_fleet_lost_tokens_per_second", "What more they would give.", lost.tokens_per_s),
        _one("unslow_fleet_lost_gpu_seconds", "GPU time that is lost.", _seconds(lost.gpu_hours), "seconds"),
        _one("unslow_fleet_idle_gpu_seconds", "GPU time without a request.", _seconds(lost.idle_gpu_hours), "seconds"),
        _one("unslow_fleet_odd_instances", "Instances that are slower than their peers.", odd),
    ]


def _one(name: str, words: str, value: float | None, unit: str = "") -> Family:
    return Family(name, words, () if value is None else (Sample(value),), unit=unit)


def _seconds(hours: float | None) -> float | None:
    return None if hours is None else hours * _HOUR_S


def _by_cause(report: FleetReport) -> list[Family]:
    causes = [({"cause": label_value(one.cause)}, one) for one in report.causes]
    return [
        Family(
            "unslow_fleet_cause_instances", "Instances with a cause.",
            tuple(Sample(one.instances, labels) for labels, one in causes),
        ),
        Family(
            "unslow_fleet_cause_lost_tokens_per_second", "What a cause takes.",
            tuple(Sample(one.tokens_per_s, labels) for labels, one in causes if one.tokens_per_s is not None),
        ),
        Family(
            "unslow_fleet_cause_lost_gpu_seconds", "GPU time of the window that a cause takes.",
            tuple(Sample(one.gpu_hours * _HOUR_S, labels) for labels, one in causes if one.gpu_hours is not None),
            unit="seconds",
        ),
    ]  # fmt: skip
