"""Loads of one model that a log tells of, of which one found less of the GPU's memory free than another."""

from typing import NamedTuple

from unslow.facts.runtime import PastLoad
from unslow.facts.snapshot import Case
from unslow.facts.units import GIB
from unslow.facts.values import Known

LEAST_SHARE = 0.1
"""Of what was free: less comes and goes with any desktop."""


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
