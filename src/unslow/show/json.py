"""The report as JSON: the schema is a promise, `docs/reference/report.schema.json`."""

import msgspec

from unslow.show._clean import safe_json
from unslow.think.report import Report


def render(report: Report, *, width: int, color: bool, everything: bool) -> str:  # noqa: ARG001 (one signature for all)
    """The whole report, indented."""
    return safe_json(msgspec.json.format(msgspec.json.encode(report), indent=2).decode())
