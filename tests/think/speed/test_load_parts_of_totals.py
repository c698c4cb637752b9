"""A model in two memories: no byte is lost, and experts move separately."""

import pytest
from cases import plan_8b
from hypothesis import given
from hypothesis import strategies as st

from unslow.think.speed.load import Totals, model_load, totals

WHOLE = totals(model_load(plan_8b()))
MIXTURE = Totals(
    dense_bytes=1e9, dense_weights=2e9, expert_bytes=9e9, expert_weights=18e9, kinds={"q4_k": 2e9},
    expert_kinds={"q4_k": 18e9}, experts=128.0, experts_used=8.0, layers=48.0, expert_layers=48.0,
)  # fmt: skip


@given(st.floats(0, 1))
def test_share_and_rest_sum_to_the_whole(part):
    left = WHOLE.without(WHOLE.share(part))
    assert left.dense_bytes == pytest.approx(WHOLE.dense_bytes * (1 - part), abs=1e-3 * WHOLE.dense_bytes)
    assert left.layers == pytest.approx(WHOLE.layers * (1 - part), abs=1e-6)
    assert sum(left.kinds.values()) == pytest.approx(sum(WHOLE.kinds.values()) * (1 - part), abs=1)


@given(st.floats(0, 1))
def test_experts_move_and_everything_else_stays(part):
    here = MIXTURE.with_experts(part)
    there = MIXTURE.without(here)
    assert here.dense_bytes == MIXTURE.dense_bytes
    assert there.dense_bytes == there.layers == 0
    assert here.expert_bytes + there.expert_bytes == pytest.approx(MIXTURE.expert_bytes)
    assert there.step(0).expert_bytes == pytest.approx(there.expert_bytes * 8 / 128)
