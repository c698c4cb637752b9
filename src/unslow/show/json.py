"""The report as JSON: the schema is a promise, `docs/reference/report.schema.json`."""

from unslow.show._clean import as_json
from unslow.think.report import Report


def render(report: Report, *, width: int, color: bool, everything: bool) -> str:  # noqa: ARG001 (one signature for all)
    """The whole report, indented."""
    return as_json(report)
