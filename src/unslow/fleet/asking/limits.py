"""The limits that servers set to queries, by the words in which they refuse.

Wordings of Prometheus (promql/engine.go, web/api/v1), Mimir (its global errors, `err-mimir-…`), Thanos and Cortex store
gateways, and VictoriaMetrics (lib/storage, app/vmselect).
"""

import re
from typing import NamedTuple


class Limit(NamedTuple):
    """What is limited, what to do about it here, and the setting there."""

    what: str
    hint: str
    words: re.Pattern[str]


_NARROWER = "--match reads a part of the fleet at a time"
_SHORTER = "a shorter --window reads less, and --match a part of the fleet"

LIMITS = (
    Limit(
        "samples in one query",
        f"{_SHORTER}; Prometheus sets it with --query.max-samples",
        re.compile(r"too many samples|maxSamplesPer|sample limit", re.IGNORECASE),
    ),
    Limit(
        "series in one query",
        f"{_NARROWER}; Mimir sets it with -querier.max-fetched-series-per-query, VictoriaMetrics with "
        "-search.maxUniqueTimeseries",
        re.compile(r"max-series-per-query|series limit|number of (?:matching )?(?:unique )?(?:time ?)?series|"
                   r"maxUniqueTimeseries|maxSeries|too many (?:time ?)?series", re.IGNORECASE),
    ),
    Limit(
        "the time that one query may span",
        "take a shorter --window, or leave out the comparison with --compare none",
        re.compile(r"query-length|time range exceeds|max-query-lookback|max_query_length", re.IGNORECASE),
    ),
    Limit(
        "points of one curve",
        "take a shorter --window",
        re.compile(r"maximum resolution|too many points|maxPointsPer", re.IGNORECASE),
    ),
    Limit(
        "data read for one query",
        _SHORTER,
        re.compile(r"max-chunks|chunks? (?:bytes )?limit|number of chunks|bytes limit|estimated-memory|"
                   r"maxMemoryPerQuery|ResourceExhausted|not enough memory", re.IGNORECASE),
    ),
    Limit(
        "queries at a time",
        "ask again when it is less busy",
        re.compile(r"outstanding requests|too many (?:concurrent )?(?:requests|queries)|concurrent|rate limit|"
                   r"maxConcurrentRequests|too_many_requests|query queue", re.IGNORECASE),
    ),
)  # fmt: skip


def limit_in(text: str) -> Limit | None:
    """The limit that a refusal speaks of."""
    return next((limit for limit in LIMITS if limit.words.search(text)), None)
