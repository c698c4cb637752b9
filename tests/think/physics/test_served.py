"""An engine that serves many has terms of its own, learned from a real vLLM on an H200."""

import pytest
from lab.speed.served import load_ratios, served_rows, swept_rows

from unslow.catalog.learned_speed import learned_speed
from unslow.think.physics.served import served_step_terms
from unslow.think.physics.terms import total_of_terms
from unslow.think.speed.question import prompt_terms, step_seconds, step_terms

FACTORS = learned_speed().factors
ROWS = {row.name: row for row in swept_rows()}
PLAIN = ROWS["llama-8b BF16"].question._replace(depth=0.0, tokens=1.0)


def step_s(question):
    return float(total_of_terms(step_terms(question), FACTORS))


def test_steps_and_prompts_are_as_measured():
    """In sample; `python -m lab.fit_speed --served` prints them with a third left out."""
    off = sorted(abs(float(total_of_terms(row.terms, FACTORS)) / row.seconds - 1) for row in served_rows())
    assert off[len(off) // 2] < 0.06
    assert off[len(off) * 9 // 10] < 0.2


def test_throughput_at_a_load_is_as_measured():
    off = sorted(abs(ratio - 1) for _, ratio in load_ratios(FACTORS))
    assert off[len(off) // 2] < 0.08
    assert off[-1] < 0.25


def test_more_conversations_never_make_a_step_shorter():
    steps = [step_s(PLAIN._replace(tokens=float(n))) for n in (1, 2, 8, 64, 256, 512)]
    assert steps == sorted(steps)
    assert steps[3] < 2 * steps[0]  # weights are read once for all of them


def test_the_server_binds_a_small_model_with_many_users():
    """Each token is decoded and sent by one process, however little the GPU has to do."""
    small = ROWS["llama-1b BF16"].question._replace(depth=0.0)
    few, many = (step_s(small._replace(tokens=float(n))) for n in (256, 512))
    assert many / few == pytest.approx(2, rel=0.25)


def test_what_llama_cpp_costs_is_not_charged():
    names = {f.name for t in served_step_terms(PLAIN.totals.step(0.0), PLAIN.chip, PLAIN.setting) for f in t.factors}
    assert names
    assert all(name.startswith("served ") for name in names)


def test_eager_mode_is_as_slow_as_measured():
    eager = step_seconds(PLAIN._replace(setting=PLAIN.setting._replace(graphs=False)))
    assert 0.0142 < eager < 0.025  # 14.2 ms on a quiet host, 16 to 25 beside three idle servers


def test_prompts_of_several_users_share_a_batch():
    alone, beside = (float(total_of_terms(prompt_terms(PLAIN, 128.0, 8192.0, n), FACTORS)) for n in (1.0, 64.0))
    assert beside < alone / 2


@pytest.mark.parametrize(("family", "is_quick"), [("hopper", True), ("ampere", False)])
def test_fp8_is_multiplied_where_the_chip_can(family, is_quick):
    setting = PLAIN.setting._replace(family=family, device="")
    plain, packed = (
        float(total_of_terms(prompt_terms(PLAIN._replace(setting=setting._replace(types=t)), 4096.0, 8192.0), FACTORS))
        for t in (PLAIN.setting.types, "q8")
    )
    assert (packed < plain * 0.9) is is_quick
