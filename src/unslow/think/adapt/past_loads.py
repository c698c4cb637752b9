"""Loads that a log tells of: those that followed one another, and those that found less of the GPU's memory free."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from unslow.facts.runtime import PastLoad
from unslow.facts.snapshot import Case
from unslow.facts.units import GIB
from unslow.facts.values import Known

LEAST_SHARE = 0.1
"""Of what was free: less comes and goes with any desktop."""


PAUSE_S = 30 * 60
"""Between two loads: after so long a pause a load is what the first request of a new task costs, not each one."""
_WRITTEN = re.compile(r"(\d{4})[-/](\d\d)[-/](\d\d)[ T](\d\d):(\d\d):(\d\d)")
_MONTHS, _DAYS, _HOURS, _SIXTY = 12, 31, 24, 60


def loads_in_a_row(loads: Sequence[PastLoad]) -> list[PastLoad]:
    """The longest run of loads without a long pause between two of them: where nobody says when, there was none."""
    runs: list[list[PastLoad]] = [[]]
    for load in loads:
        before, now = _moment(runs[-1][-1]) if runs[-1] else None, _moment(load)
        if before and now and not 0 <= now - before <= PAUSE_S:
            runs.append([])
        runs[-1].append(load)
    return max(runs, key=len)


def _moment(load: PastLoad) -> int | None:
    """When it was written, in seconds by the log's own clock; None where it does not say the day.

    Every month counts as the longest: what lies between two loads is at most too much, and that by days.
    """
    found = _WRITTEN.match(load.at)
    if not found:
        return None
    year, month, day, hour, minute, second = map(int, found.groups())
    days = (year * _MONTHS + month) * _DAYS + day
    return ((days * _HOURS + hour) * _SIXTY + minute) * _SIXTY + second


class Robbed(NamedTuple):
    """A load that found far less free and kept fewer layers on the GPU, beside one that found more."""

    poor: PastLoad
    rich: PastLoad

    @property
    def gone(self) -> float:
        """The bytes that something else held at the poor one."""
        return free_of(self.rich) - free_of(self.poor)


def robbed_load(case: Case) -> Robbed | None:
    """The pair that differs most; None where there is none."""
    loads = case.runtime.loads.value_or([])
    pairs = [Robbed(poor, rich) for poor in loads for rich in loads if _was_robbed(poor, rich)]
    return max(pairs, key=lambda pair: pair.gone, default=None)


def free_of(load: PastLoad) -> float:
    """GPU memory that it found free; none where the log does not say."""
    return float(load.free_bytes.value_or(0))


def layers_of(load: PastLoad) -> str:
    """Its layers on the GPU, in words."""
    return f"{load.gpu_layers.value_or(0)} of {load.layers.value_or('its')} layers"


def _was_robbed(poor: PastLoad, rich: PastLoad) -> bool:
    if not isinstance(poor.gpu_layers, Known) or not isinstance(rich.gpu_layers, Known) or not free_of(poor):
        return False
    gone = free_of(rich) - free_of(poor)
    fewer = poor.gpu_layers.value < rich.gpu_layers.value
    return _same_settings(poor, rich) and fewer and gone >= max(GIB, LEAST_SHARE * free_of(rich))


def _same_settings(one: PastLoad, other: PastLoad) -> bool:
    model, context = one.model.value_or(""), one.context_length.value_or(0)
    return model == other.model.value_or("") and context == other.context_length.value_or(0)
