import pytest

from unslow.think.claims.amounts import SAME_LENGTH, amounts


@pytest.mark.parametrize(
    ("text", "kind", "low", "high"),
    [
        ("72 tok/s", "speed", 72, 72),
        ("~1,110 tokens per second", "speed", 1110, 1110),
        ("35–40 t/s", "speed", 35, 40),
        ("35 to 40 tps", "speed", 35, 40),
        ("300+ tok/s", "speed", 300, 300),
        ("thousands of tok/s", "speed", 1000, 10_000),
        ("57k tokens/sec", "speed", 57_000, 57_000),
        ("2-3k tok/s", "speed", 2000, 3000),
        ("20 ms per token", "speed", 50, 50),
        ("10-20 ms/token", "speed", 50, 100),
        ("850 µs per token", "speed", 1 / 850e-6, 1 / 850e-6),
        ("512 tokens in 4 seconds", "speed", 128, 128),
        ("1.8 TB/s", "bandwidth", 1.8e12, 1.8e12),
        ("21 PB/s", "bandwidth", 2.1e16, 2.1e16),
        ("89 GB per second", "bandwidth", 89e9, 89e9),
        ("24 GB", "size", 24e9, 24e9),
        ("24GiB", "size", 24 * 2**30, 24 * 2**30),
        ("300–600 MB", "size", 300e6, 600e6),
        ("60%", "percent", 0.6, 0.6),
    ],
)
def test_numbers_with_units_are_parsed(text: str, kind: str, low: float, high: float) -> None:
    (found,) = amounts(f"about {text}, they say".translate(SAME_LENGTH))
    assert (found.kind, found.low, found.high) == (kind, pytest.approx(low), pytest.approx(high))


def test_amount_after_under_is_a_limit() -> None:
    assert [a.is_limit for a in amounts("under 5 tok/s, but 6 tok/s now")] == [True, False]


def test_from_to_is_not_a_range() -> None:
    assert [a.low for a in amounts("it drops from 2.8 gb to 1.4 gb")] == [2.8e9, 1.4e9]


@pytest.mark.parametrize("text", ["0 ms per token", "in 0 seconds", "rtx 4090", "3.3", "", "9" * 400 + " tok/s"])
def test_invalid_amounts_are_ignored(text: str) -> None:
    assert [a for a in amounts(text) if a.low > 1e16] == []
