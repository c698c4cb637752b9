"""Calibration rounds: the real engine on tiny models, measured alternately."""

import pytest

from unslow.catalog.architectures import made_up_shapes
from unslow.catalog.quants import file_type_of_mix
from unslow.facts.errors import UserError
from unslow.look.bench.calibration import (
    Limits,
    ModelTimes,
    ModelToMeasure,
    Sample,
    measure_in_rounds,
    parse_sample,
    trials_for,
)
from unslow.look.engine.made_up_models import ModelCache
from unslow.look.system import LookError
from unslow.look.system.live import LiveSystem

SYSTEM = LiveSystem()


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> str:
    return str(ModelCache(tmp_path_factory.mktemp("cache")).model("tiny", "Q8_0"))


def test_calibration_measures_models_alternately_in_rounds(tiny):
    guests = [
        ModelToMeasure("shallow", tiny, prompt_tokens=32),
        ModelToMeasure("deep", tiny, depth_tokens=64, prompt_tokens=64),
    ]
    told: list[float] = []
    limits = Limits(seconds=3.0, enough_rounds=2, fewest_rounds=2)
    rounds = measure_in_rounds(SYSTEM, guests, 1, limits, lambda _text, share: told.append(share))
    shallow, deep = rounds.measured
    assert rounds.missing == ()
    assert shallow.samples + shallow.lost >= 2
    assert len(shallow.steps_s) > shallow.samples
    assert len(shallow.prefill_s) == len(deep.prefill_s) == deep.samples >= 1
    assert all(0 < s < 5 for s in (*shallow.steps_s, *deep.steps_s))
    assert shallow.best_decode_s <= shallow.typical_decode_s
    assert deep.depth_tokens == 64 + deep.tokens // 2
    assert all(0 <= share <= 1 for share in told)
    assert rounds.use is None or rounds.use.busy_cpus >= 0


def test_calibrating_an_invalid_gguf_is_a_user_error(tmp_path):
    (tmp_path / "bad.gguf").write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(UserError, match="ended while it loaded"):
        measure_in_rounds(SYSTEM, [ModelToMeasure("bad", str(tmp_path / "bad.gguf"))], 1, Limits(), lambda _t, _s: None)


def test_best_decode_is_the_fastest_step_and_typical_is_the_median():
    steps = (0.011, 0.010, 0.5, 0.012, 0.010)
    one = ModelTimes(ModelToMeasure("x", "x"), steps, (3.0, 2.0), samples=2, lost=0, tokens=8)
    assert one.best_decode_s == pytest.approx(0.010)
    assert one.typical_decode_s == pytest.approx(0.011)
    assert one.best_prefill_s == 2.0
    alone = ModelTimes(ModelToMeasure("x", "x"), (0.02,), (), samples=1, lost=0, tokens=8)
    assert (alone.best_decode_s, alone.best_prefill_s) == (0.02, 0.0)


def event(n: int, ms: float) -> str:
    return f'data: {{"timings": {{"prompt_n": 9, "prompt_ms": 50, "predicted_n": {n}, "predicted_ms": {ms}}}}}'


def test_stream_timings_give_seconds_per_token_without_the_first():
    lines = ["", "data: {}", event(1, 0.1), event(2, 10.1), event(4, 30.1), event(4, 30.2), "data: {}"]
    assert parse_sample(lines) == Sample(pytest.approx((0.010, 0.010)), 9, 0.05)


@pytest.mark.parametrize(
    "line", ["", "data: x", "data: {}", 'data: {"error": "busy"}', 'data: {"timings": {"prompt_n": -1}}', "data: [[["]
)
def test_a_stream_without_timings_is_a_look_error(line):
    with pytest.raises(LookError):
        parse_sample([line])


@pytest.mark.parametrize("cache_bytes", [0, 10**8])
def test_every_calibration_trial_has_a_shape_and_quant_that_can_be_generated(cache_bytes):
    trials = trials_for(cache_bytes)
    assert len({trial.name for trial in trials}) == len(trials)
    for trial in trials:
        assert made_up_shapes()[trial.shape].context_trained >= trial.depth_tokens + trial.prompt_tokens
        assert file_type_of_mix(trial.quant)[0].output
    large = [t for t in trials if t.shape == "calibrate_types_large"]
    assert bool(large) == bool(cache_bytes)
