"""The report as one page to open in a browser; `unslow report` writes it with every picture."""

from unslow.show._html.document import document
from unslow.think.report import Report, SubjectReport
from unslow.think.view.report import SpeedRow, SubjectView, View

_METRICS = ("decode_tokens_per_s", "prefill_tokens_per_s", "time_to_first_token_s")


def render(report: Report, *, width: int, color: bool, everything: bool) -> str:  # noqa: ARG001 (one signature for all)
    """The page of the report alone: what it does not hold is not drawn."""
    subjects = tuple(
        SubjectView(number=number, speeds=tuple(_rows(subject))) for number, subject in enumerate(report.subjects)
    )
    view = View(
        unslow_version=report.unslow_version, machine=report.machine, report=report, subjects=subjects, masked=False
    )
    return document(view)


def _rows(subject: SubjectReport) -> list[SpeedRow]:
    expected = subject.expected
    rows = [
        SpeedRow(
            metric=metric,
            measured=subject.measured.get(metric),
            as_configured=expected.as_configured.get(metric),
            achievable=expected.achievable.get(metric),
            ceiling=expected.ceiling_tokens_per_s if metric == _METRICS[0] else None,
        )
        for metric in _METRICS
    ]
    return [row for row in rows if row.measured is not None or row.achievable]
