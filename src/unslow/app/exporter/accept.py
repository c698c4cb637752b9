"""Which of the two dialects whoever asks wants most, by the header `Accept`."""

from unslow.show._metric_text import Dialect

_LONGEST = 4096
_VERSIONS = ("", "1.0.0", "0.0.1")
"""Of OpenMetrics, that a reader may name: the drafts before 1.0 read the same for gauges and counters."""


def dialect_for(accept: str) -> Dialect:
    """OpenMetrics where it is wanted at least as much as the older text, which is for everybody else."""
    wanted = {"openmetrics": 0.0, "text": 0.0}
    for item in accept[:_LONGEST].split(","):
        kind, *rest = [word.strip() for word in item.split(";")]
        told = dict(word.partition("=")[::2] for word in rest)
        if kind == "application/openmetrics-text" and told.get("version", "") in _VERSIONS:
            wanted["openmetrics"] = max(wanted["openmetrics"], _weight(told))
        elif kind in ("text/plain", "text/*"):
            wanted["text"] = max(wanted["text"], _weight(told))
    return "openmetrics" if wanted["openmetrics"] and wanted["openmetrics"] >= wanted["text"] else "text"


def _weight(told: dict[str, str]) -> float:
    try:
        weight = float(told.get("q", "1"))
    except ValueError:
        return 0.0
    return weight if 0 <= weight <= 1 else 0.0
