import math

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from unslow.catalog.device_names import find_written
from unslow.think.physics.chip import SpeedSetting
from unslow.think.physics.terms import Interval
from unslow.think.speed.question import WIDER, trust_in, widen_interval

CARD = find_written("RTX 4090")
assert CARD is not None


def test_measured_and_verified_device_keeps_its_interval() -> None:
    device = msgspec.structs.replace(CARD, source="a datasheet")
    assert trust_in(device, SpeedSetting("cuda", "ada")).wider == 1.0


def test_unmeasured_device_widens_the_interval_and_says_so() -> None:
    device = msgspec.structs.replace(CARD, source="unverified", family="rubin")
    trust = trust_in(device, SpeedSetting("cuda", "rubin"))
    assert trust.wider == WIDER**2
    assert "rubin" in trust.reasons[0]
    assert "single source" in trust.reasons[1]


@given(st.floats(0.1, 1), st.floats(0.01, 1e4), st.floats(1, 10), st.floats(1, 3), st.floats(0.5, 5))
def test_widened_interval_contains_the_narrow_one_below_the_ceiling(
    down: float, mid: float, up: float, wider: float, room: float
) -> None:
    rate = Interval(mid * down, mid, mid * up)
    free = widen_interval(rate, wider)
    assert free.low <= rate.low * (1 + 1e-9)
    assert free.high >= rate.high * (1 - 1e-9)
    capped = widen_interval(rate, wider, mid * room)
    assert capped.low <= capped.mid <= capped.high
    assert wider == 1.0 or capped.high <= max(mid, mid * room) or math.isclose(capped.high, mid * room)
