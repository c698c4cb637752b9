import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unslow.page.html.curves import place_words
from unslow.page.html.figure import Quantity, quantity, round_ticks, short_number, si_number
from unslow.page.html.svg import MOST, Linear, Log, clamp, powers, round_top, ticks

finite = st.floats(allow_nan=True, allow_infinity=True)


@settings(max_examples=50)
@given(finite, finite, finite)
def test_scale_position_stays_between_its_ends(low, high, value):
    low, high = sorted((clamp(low), clamp(high)))
    assert 10 <= Linear(low, high, 10, 90).at(value) <= 90
    assert 10 <= Linear(low, high, 90, 10).at(value) <= 90
    positive = max(low, 1e-6)
    assert 10 <= Log(positive, max(high, positive), 10, 90).at(value) <= 90


def test_log_scale_maps_equal_factors_to_equal_lengths():
    scale = Log(1, 16, 0, 400)
    assert [round(scale.at(value)) for value in (1, 2, 4, 8, 16)] == [0, 100, 200, 300, 400]
    assert scale.at(0) == scale.at(-3) == 0


@pytest.mark.parametrize(
    ("low", "high", "most", "expected"),
    [(0, 10, 5, (0, 2, 4, 6, 8, 10)), (0, 1500, 5, (0, 500, 1000, 1500)), (3, 9, 4, (4, 6, 8)), (5, 5, 4, (5,))],
)
def test_ticks_are_round_numbers(low, high, most, expected):
    assert ticks(low, high, most) == pytest.approx(expected)


@settings(max_examples=50)
@given(st.floats(1e-6, 1e15), st.integers(1, 12))
def test_ticks_never_exceed_the_requested_number(high, most):
    assert 1 <= len(ticks(0, high, most)) <= most + 1
    assert round_top(high, most) >= high * (1 - 1e-9)


def test_time_ticks_use_clock_steps():
    assert ticks(0, 60, 6, of_a_clock=True) == (0, 10, 20, 30, 40, 50, 60)
    assert ticks(0, 90, 6, of_a_clock=True) == (0, 15, 30, 45, 60, 75, 90)
    assert ticks(0, 3600, 6, of_a_clock=True) == (0, 600, 1200, 1800, 2400, 3000, 3600)
    assert ticks(0, 0.5, 5, of_a_clock=True) == pytest.approx((0, 0.1, 0.2, 0.3, 0.4, 0.5))
    assert len(ticks(0, 1e9, 6, of_a_clock=True)) <= 7


def test_doublings_and_decades_are_powers_of_2_and_10():
    assert powers(2, 512, 4096, 8) == (512, 1024, 2048, 4096)
    assert powers(2, 512, 131072, 5) == (512, 2048, 8192, 32768, 131072)
    assert powers(10, 0.5, 2000, 9) == (1, 10, 100, 1000)
    assert powers(10, 1, 1e6, 3) == (1, 1000, 1e6)


def test_clamp_gives_the_nearest_drawable_value():
    assert clamp(float("inf")) == MOST
    assert clamp(float("-inf")) == -MOST
    assert clamp(10**400) == MOST
    assert clamp(float("nan")) == 0
    assert clamp(1e-300) == 0


def test_unit_follows_the_name_and_the_magnitude():
    assert quantity("clock_hz").with_unit(1.98e9) == "1,980 MHz"
    assert quantity("vram_used_bytes", 9.6e9).with_unit(9.6e9) == "8.94 GiB"
    assert quantity("vram_used_bytes", 5e8).unit == "MiB"
    assert quantity("pcie_receive_bytes_per_s", 2.5e7).with_unit(2.5e7) == "25 MB/s"
    assert quantity("busy").with_unit(0.875) == "87.5 %"
    assert quantity("time_to_first_token_s", 0.02).with_unit(0.02) == "20 ms"
    assert quantity("decode_tokens_per_s").unit == "tok/s"
    assert quantity("own_cpus") == Quantity(1, "")
    assert quantity("temperature_c").with_unit(87) == "87 °C"


def test_ticks_are_round_in_the_shown_unit():
    unit = quantity("vram_used_bytes", 140 * 1024**3)
    assert [unit.number(tick) for tick in round_ticks(0, 140 * 1024**3, 3, unit)] == ["0", "50", "100"]


def test_numbers_are_shortened_for_reading():
    assert [place_words("depth", value) for value in (0, 500, 512, 1024, 4101, 131072)] == [
        "0",
        "500",
        "512",
        "1k",
        "4,101",
        "128k",
    ]
    assert [short_number(value) for value in (0.25, 12.5, 1234.6, 5e9)] == ["0.25", "12.5", "1,235", "5 G"]
    assert si_number(989e12) == "989 T"
