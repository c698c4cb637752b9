"""What a token takes on a CPU: what that must keep to, whatever the numbers."""

import pytest

from unslow.catalog.learned_speed import learned_speed
from unslow.think.physics.chip import SpeedSetting
from unslow.think.physics.decode import HOST_ATTENTION, HOST_COMPUTE, HOST_READS, Amounts, host_decode_terms
from unslow.think.physics.terms import Term, by_part, least_seconds, priced_term, total_of_terms
from unslow.think.speed.chips import host_chip


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
        found[term.part] = found.get(term.part, 0.0) + float(priced_term(term, learned_speed().factors))
    return found


def test_nothing_is_faster_than_reading_all_of_it() -> None:
    assert float(least_seconds(terms(one_b()))) == pytest.approx(8e8 / 25e9)
    assert seconds(one_b()) > 8e8 / 25e9


def test_wide_vectors_save_computing_and_nothing_else() -> None:
    wide, plain = alone(one_b(), wide_vectors=True), alone(one_b())
    assert 1.2 < plain.pop(HOST_COMPUTE) / wide.pop(HOST_COMPUTE) < 2  # twice as many at once, unpacked no faster
    assert wide == plain


def test_reading_and_computing_go_on_at_the_same_time() -> None:
    apart, together = alone(one_b()), parts(one_b())
    longest = max(apart[HOST_READS], apart[HOST_COMPUTE])
    both = together[HOST_READS] + together[HOST_COMPUTE]
    assert longest < both < 0.85 * (apart[HOST_READS] + apart[HOST_COMPUTE])
    assert sum(together.values()) == pytest.approx(seconds(one_b()))


def test_where_cores_wait_for_memory_more_of_them_gain_little() -> None:
    """Eight cores read two channels of memory nearly as fast as it can be read."""
    few, many = (seconds(one_b(), 75e9, n, wide_vectors=True) for n in (8.0, 16.0))
    assert many > 0.8 * few
    assert few < 1.5 * 8e8 / 75e9


def test_two_cores_of_zen_3_generate_twenty_tokens_of_a_billion_weights_a_second() -> None:
    """23 to 25 tok/s were measured where they read 32 GB/s, and 13 where one of them reads 20.5."""
    assert 1 / seconds(one_b(), 32e9, 2.0) == pytest.approx(24, rel=0.25)
    assert 1 / seconds(one_b(), 20.5e9, 1.0) == pytest.approx(13, rel=0.3)


def test_two_cores_with_wide_vectors_generate_twenty_tokens_of_a_billion_weights_a_second() -> None:
    """An Ice Lake that reads 25 GB/s: 20 and 21 tok/s were measured."""
    assert 1 / seconds(one_b(), wide_vectors=True) == pytest.approx(20, rel=0.15)


def test_rows_are_shared_among_threads() -> None:
    def of_rows(threads: float) -> float:
        narrow, usual = (alone(one_b()._replace(width=w), threads=threads) for w in (512.0, 2048.0))
        assert narrow[HOST_READS] == usual[HOST_READS]
        return narrow[HOST_COMPUTE] - usual[HOST_COMPUTE]

    assert of_rows(2.0) == pytest.approx(2 * of_rows(4.0))
    assert of_rows(4.0) > 0


def test_attention_grows_with_what_it_looks_at() -> None:
    near, far = (alone(one_b(attention_products=n)) for n in (1e6, 1e7))
    assert far[HOST_ATTENTION] == pytest.approx(10 * near[HOST_ATTENTION])
    assert parts(one_b())[HOST_ATTENTION] == 0
