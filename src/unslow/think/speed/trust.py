"""How sure a prediction is: its interval was learned on devices like this one, or has to be wider."""

import math
from typing import NamedTuple

from unslow.catalog.device import Device
from unslow.catalog.learned_speed import learned_speed
from unslow.think.physics.chip import Setting
from unslow.think.physics.interval import Interval

WIDER = 1.5
"""How much wider an interval gets, in logarithms, for each thing that nobody measured."""


class Trust(NamedTuple):
    """How much wider the learned interval has to be, and why."""

    wider: float = 1.0
    reasons: tuple[str, ...] = ()


def trust_in(device: Device, setting: Setting) -> Trust:
    """What is known of such a device under such software."""
    reasons = tuple(_reasons(device, setting))
    return Trust(WIDER ** len(reasons), reasons)


def _reasons(device: Device, setting: Setting) -> list[str]:
    found = []
    if setting.backend != "cpu" and device.family not in learned_speed().chips.get(setting.backend, []):
        family = f"the {device.family} family" if device.family else f"devices like the {device.name}"
        found.append(f"no measurement of {family} under {setting.backend} was learned from")
    if setting.runtime and not _is_learned(setting.runtime):
        found.append(f"{setting.runtime} was measured on one machine at most")
    if not device.verified:
        found.append(f"the numbers of the {device.name} were not checked against a second source")
    return found


def _is_learned(runtime: str) -> bool:
    return any(f"{kind}/runtime/{runtime}" in learned_speed().factors for kind in ("launch", "waste"))


def widened(rate: Interval, wider: float, ceiling: float = math.inf) -> Interval:
    """The interval with both distances from its middle as many times larger, in logarithms; never above the ceiling."""
    low, mid, high = rate
    if wider == 1.0 or mid <= 0:
        return rate
    top = max(mid, min(mid * (high / mid) ** wider, ceiling))
    return Interval(mid * (low / mid) ** wider, mid, top)
