from typing import Any

import pytest

from unslow.facts.bench import BenchRow
from unslow.think.stats.parts import step_at

SHALLOW = BenchRow(n_gen=128, n_depth=0, avg_ts=261.0)
DEEP = BenchRow(n_gen=128, n_depth=4096, avg_ts=240.0)


def generated(milliseconds: list[float], **settings: Any) -> BenchRow:
    return BenchRow(n_gen=128, avg_ts=1.0, samples_ns=tuple(int(ms * 128e6) for ms in milliseconds), **settings)


def test_step_is_taken_at_the_nearest_depth():
    near, deep = step_at([SHALLOW, DEEP], 100), step_at([SHALLOW, DEEP], 4200)
    assert near
    assert deep
    assert near.seconds == pytest.approx(1 / 261)
    assert deep.seconds == pytest.approx(1 / 240)
    assert deep.source == "llama-bench, tg128 @ d4096"


def test_llama_bench_row_at_another_depth_is_not_used():
    assert step_at([DEEP], 100) is None
    assert step_at([], 100) is None


def test_tests_with_a_prompt_are_not_a_step():
    assert step_at([BenchRow(n_prompt=512, avg_ts=9000.0), BenchRow(n_prompt=512, n_gen=128, avg_ts=900.0)], 64) is None


def test_repeats_give_the_interval():
    step = step_at([generated([3.80, 3.83, 3.90, 3.82, 3.81, 3.84, 3.85])], 64)
    assert step
    assert step.seconds == pytest.approx(3.83e-3, rel=1e-3)
    assert step.low_s == pytest.approx(3.80e-3, rel=1e-3)
    assert step.high_s == pytest.approx(3.90e-3, rel=1e-3)


def test_mean_alone_has_no_interval():
    step = step_at([SHALLOW], 64)
    assert step
    assert step.low_s == step.high_s == step.seconds
