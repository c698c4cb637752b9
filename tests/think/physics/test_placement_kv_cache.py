import pytest

from unslow.think.physics.placement import kv_bytes_per_token


def test_kv_bytes_of_llama_3_are_exact():
    assert kv_bytes_per_token(32, 8, 128, 128) == 131_072
    assert kv_bytes_per_token(80, 8, 128, 128) == 327_680


def test_q8_0_cache_takes_just_over_half():
    share = kv_bytes_per_token(32, 8, 128, 128, ("q8_0", "q8_0")) / kv_bytes_per_token(32, 8, 128, 128)
    assert share == pytest.approx(0.53125)
