"""Claims of parameters: how many a model has, and how many of them a token uses."""

import re
from collections.abc import Iterator

from unslow.think.claims import wording as w
from unslow.think.claims.readings import Reading, readings
from unslow.think.claims.report import Judged, Subject
from unslow.think.claims.said import Said
from unslow.think.claims.verdicts import Finding, best, judged

_COUNT = re.compile(
    r"(?<![\w.])(\d{1,4}(?:\.\d{1,3})?)\s?([bmt])\s?(?:of\s)?"
    r"(?:(total|active|activated)|(?:parameters|params|weights)(?:\s(?:are\s)?(total|active|in all))?)\b"
)
_UNITS = {"m": 1e6, "b": 1e9, "t": 1e12}
_TOTAL_NEAR, _ACTIVE_NEAR = 0.04, 0.12


def judge_parameters(said: Said) -> Iterator[Judged]:
    """Each number of parameters of a model that is named."""
    for match in _COUNT.finditer(said.rest):
        model = said.model_at(match.start())
        known = {r.model: r for r in (readings(model, None) if model and model.named else []) if r.shaped}
        if known:
            is_active = "activ" in f"{match[3]} {match[4]}"
            claimed = float(match[1]) * _UNITS[match[2]]
            found = [_counted(r, claimed, is_active=is_active) for r in known.values()]
            yield judged(said, match[0], "parameters", best(found))


def _counted(reading: Reading, claimed: float, *, is_active: bool) -> Finding:
    truth = reading.active if is_active else reading.parameters
    which = "used for a token" if is_active else "in all"
    lines = (
        f"{reading.model}: {w.digits(reading.parameters / 1e9)}B parameters",
        f"{w.digits(truth / 1e9)}B {which}",
        f"claimed {w.digits(claimed / 1e9)}B",
    )
    near = abs(claimed / truth - 1) <= (_ACTIVE_NEAR if is_active else _TOTAL_NEAR)
    return Finding(
        "possible" if near else "impossible",
        f"it has {w.digits(truth / 1e9)}B {which}",
        lines,
        Subject(model=reading.model),
    )
