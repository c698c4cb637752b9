"""A request that shares its steps with others is held against what such a request gets."""

import pytest
from cases import gpu_case, with_facts, with_tensors

from unslow.facts.run import Traffic
from unslow.facts.snapshot import Case
from unslow.think.among_others import OTHERS, longer_s, predict_among_others
from unslow.think.judge import judge
from unslow.think.predict import Prediction, predict


def among(running: float, tokens_per_s: float = 130.0) -> Case:
    traffic = Traffic(seconds=5.0, looks=9, running=running, waiting=0.0)
    return with_facts(with_tensors(gpu_case()), {"run.traffic": traffic, "run.decode_tokens_per_s": tokens_per_s})


def test_the_more_at_once_the_longer_each_token():
    assert longer_s(among(1.0)) == 0
    assert 0 < longer_s(among(8.0)) < longer_s(among(64.0))
    assert longer_s(gpu_case()) == 0


def test_what_the_others_take_is_a_part():
    alone, shared = predict(among(32.0)), predict_among_others(among(32.0))
    assert isinstance(alone, Prediction)
    assert isinstance(shared, Prediction)
    assert shared.seconds.mid == pytest.approx(alone.seconds.mid + longer_s(among(32.0)))
    assert [p.name for p in shared.parts[len(alone.parts) :]] == [OTHERS]


def test_a_busy_server_is_not_slow():
    shared = predict_among_others(among(32.0))
    assert isinstance(shared, Prediction)
    rate = 1 / shared.seconds.mid
    assert judge(among(32.0, rate)).verdict == "normal"
    assert judge(among(1.0, rate / 2)).verdict == "slow"
