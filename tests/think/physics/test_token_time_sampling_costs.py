"""Sampling time beside compute time, against measured speeds with and without it."""

import pytest

from unslow.think.physics.token_time import LOGITS_S_PER_ENTRY, LOGPROBS_SPREAD, logprobs_s, sorting_s

MEASURED = [
    # tokens per second without and with 1,000 logprobs, entries of the vocabulary
    (116.0, 78.0, 49_152),  # two cores of a server, 135M
    (236.0, 149.0, 128_256),  # a host of an H200, 8B
]


@pytest.mark.parametrize(("without", "with_", "entries"), MEASURED)
def test_logprobs_time_matches_measurements(without: float, with_: float, entries: int):
    seconds = 1 / with_ - 1 / without
    assert seconds / LOGPROBS_SPREAD < logprobs_s(1000, entries) < seconds * LOGPROBS_SPREAD


def test_more_logprobs_cost_more_and_none_cost_nothing():
    assert logprobs_s(0, 128_256) == 0
    assert logprobs_s(1, 128_256) < logprobs_s(50, 128_256) < logprobs_s(1000, 128_256)
    assert sorting_s(49_152) > 49_152 * LOGITS_S_PER_ENTRY
