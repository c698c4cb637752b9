"""Decode time on a CPU: properties that hold for any numbers."""

import pytest

from unslow.catalog.learned_speed import learned_speed
from unslow.think.physics.chip import SpeedSetting
from unslow.think.physics.decode import HOST_ATTENTION, HOST_COMPUTE, HOST_READS, Amounts, host_decode_terms
from unslow.think.physics.terms import Term, by_part, least_seconds, total_of_terms
from unslow.think.speed.question import host_chip


def one_b(**more) -> Amounts:
    """A model of a billion weights in 4 bits."""
    kinds = {"q4_k": 8.3e8, "q6_k": 4.05e8}
    return Amounts(dense_bytes=8e8, dense_weights=1.235e9, kinds=kinds, layers=16.0, width=2048.0, **more)


def terms(amounts: Amounts, bytes_per_s: float = 25e9, threads: float = 2.0, **more) -> tuple[Term, ...]:
    return tuple(host_decode_terms(amounts, host_chip(bytes_per_s, threads), SpeedSetting("cpu", **more)))


def seconds(*given, **more) -> float:
    return float(total_of_terms(terms(*given, **more), learned_speed().factors))


def parts(*given, **more) -> dict[str, float]:
    return {name: float(s) for name, s in by_part(terms(*given, **more), learned_speed().factors).items()}


def alone(*given, **more) -> dict[str, float]:
    """The seconds of each part as if nothing were done beside it."""
    found: dict[str, float] = {}
    for term in terms(*given, **more):
        alone = total_of_terms([term._replace(side="")], learned_speed().factors)
        found[term.part] = found.get(term.part, 0.0) + float(alone)
    return found


def test_decode_is_never_faster_than_reading_the_weights() -> None:
    assert float(least_seconds(terms(one_b()))) == pytest.approx(8e8 / 25e9)
    assert seconds(one_b()) > 8e8 / 25e9


def test_wide_vectors_save_compute_only() -> None:
    wide, plain = alone(one_b(), wide_vectors=True), alone(one_b())
    assert 1.2 < plain.pop(HOST_COMPUTE) / wide.pop(HOST_COMPUTE) < 2  # twice as many at once, unpacked no faster
    assert wide == plain


def test_reading_and_computing_overlap() -> None:
    apart, together = alone(one_b()), parts(one_b())
    longest = max(apart[HOST_READS], apart[HOST_COMPUTE])
    both = together[HOST_READS] + together[HOST_COMPUTE]
    assert longest < both < 0.85 * (apart[HOST_READS] + apart[HOST_COMPUTE])
    assert sum(together.values()) == pytest.approx(seconds(one_b()))


def test_more_cores_gain_little_at_the_bandwidth_limit() -> None:
    """Eight cores nearly saturate two memory channels."""
    few, many = (seconds(one_b(), 75e9, n, wide_vectors=True) for n in (8.0, 16.0))
    assert many > 0.8 * few
    assert few < 1.5 * 8e8 / 75e9


def test_zen_3_cores_match_measured_decode_speed() -> None:
    """Measured for 1B weights: 23 to 25 tok/s at 32 GB/s with two cores, 13 tok/s at 20.5 GB/s with one."""
    assert 1 / seconds(one_b(), 32e9, 2.0) == pytest.approx(24, rel=0.25)
    assert 1 / seconds(one_b(), 20.5e9, 1.0) == pytest.approx(13, rel=0.3)


def test_ice_lake_cores_match_measured_decode_speed() -> None:
    """Measured for 1B weights on an Ice Lake at 25 GB/s: 20 and 21 tok/s."""
    assert 1 / seconds(one_b(), wide_vectors=True) == pytest.approx(20, rel=0.15)


def test_row_overhead_is_shared_among_threads() -> None:
    def of_rows(threads: float) -> float:
        narrow, usual = (alone(one_b()._replace(width=w), threads=threads) for w in (512.0, 2048.0))
        assert narrow[HOST_READS] == usual[HOST_READS]
        return narrow[HOST_COMPUTE] - usual[HOST_COMPUTE]

    assert of_rows(2.0) == pytest.approx(2 * of_rows(4.0))
    assert of_rows(4.0) > 0


def test_attention_time_grows_with_products() -> None:
    near, far = (alone(one_b(attention_products=n)) for n in (1e6, 1e7))
    assert far[HOST_ATTENTION] == pytest.approx(10 * near[HOST_ATTENTION])
    assert parts(one_b())[HOST_ATTENTION] == 0
