"""Which measurement comes next, on which machine, and when there is nothing more to measure."""

import pytest
from cases import cpu_case, gpu_case, with_facts

from unslow.catalog.bug_reports import cause_frequency
from unslow.facts.run import Completion, LongPrompt, Tried, Turn
from unslow.facts.values import NOT_LOOKED, Unknown
from unslow.look.bench.trials import trials
from unslow.think.causes import all_causes
from unslow.think.causes._cause import fact_at
from unslow.think.judge.judge import judge
from unslow.think.judge.measurements import MEASUREMENTS
from unslow.think.judge.next_measurement import MOST_S, next_measurement, worthwhile

URL = "http://127.0.0.1:8080"
AN_HOUR = 3600.0


def server(case, **facts):
    """A measured llama-server with a large context and four slots."""
    done = (Completion(prompt_tokens=40, generated_tokens=100, prefill_s=0.1, decode_s=1.0, client_total_s=1.1),)
    usual = {"runtime.url": URL, "runtime.context_per_slot": 16384, "runtime.slots": 4, "run.completions": done}
    return with_facts(case, usual | facts)


def unmeasured(case):
    return with_facts(case, {"runtime.url": URL, "run.decode_tokens_per_s": NOT_LOOKED, "run.completions": NOT_LOOKED})


def chosen(case, done=(), seconds_left=AN_HOUR, *, may_send=True, patience=1.0):
    choice = next_measurement(case, judge(case), done, seconds_left, may_send=may_send, patience=patience)
    return choice.measurement.name if choice else None


def order(case, **how) -> list[str]:
    """All that is measured, one after the other, where nothing that it tells changes the judgement."""
    done: list[str] = []
    while name := chosen(case, done, **how):
        done.append(name)
    return done


def test_every_measurement_has_its_trial_and_every_trial_its_measurement():
    assert set(MEASUREMENTS) == set(trials())
    assert all(measurement.name == name for name, measurement in MEASUREMENTS.items())


def test_what_a_measurement_fills_and_is_about_exists():
    for measurement in MEASUREMENTS.values():
        assert all(fact_at(cpu_case(), path) is not None for path in measurement.fills)
        assert set(measurement.about) <= set(all_causes())


@pytest.mark.parametrize("case", [cpu_case(), gpu_case(), gpu_case(layers_on_gpu=20)])
def test_the_usual_speed_comes_first(case):
    assert chosen(unmeasured(case)) == "speed"


def test_a_busy_server_is_only_watched():
    busy = with_facts(unmeasured(gpu_case()), {"runtime.busy_slots": 2})
    assert order(busy, may_send=False) == ["traffic", "host"]


def test_without_anything_to_see_nothing_is_watched():
    far = with_facts(unmeasured(gpu_case()), {"runtime.url": "http://gpu.example:8080", "runtime.busy_slots": 0})
    assert chosen(far, may_send=False) is None


def test_a_healthy_server_is_soon_done():
    healthy = server(gpu_case(), **{"run.prefill_tokens_per_s": 5000.0, "runtime.top_k": 40})
    choices = worthwhile(healthy, judge(healthy), ["speed"], may_send=True)
    assert sum(c.seconds for c in choices) < 20
    assert "plain_sampling" not in [c.measurement.name for c in choices], "its samplers cost nothing that can be seen"


def test_a_slow_answer_makes_the_causes_of_slow_answers_worth_a_trial():
    slow = server(gpu_case(), **{"run.decode_tokens_per_s": 30.0, "runtime.top_k": Unknown("not told")})
    healthy = server(gpu_case(), **{"runtime.top_k": Unknown("not told")})
    worth = [
        next(c.worth_per_s for c in worthwhile(case, judge(case), ["speed"], may_send=True, patience=1e9)
             if c.measurement.name == "plain_sampling")
        for case in (slow, healthy)
    ]  # fmt: skip
    assert worth[0] > 3 * worth[1]


def test_what_is_known_is_not_measured_again():
    case = server(
        gpu_case(),
        **{
            "run.long_prompt": LongPrompt(tokens=2048, seconds=0.4),
            "run.turns": (Turn(prompt_tokens=100, new_tokens=100, computed_tokens=100),),
            "run.plain_sampling": Tried(changed="x", as_set_tokens_per_s=100.0, changed_tokens_per_s=100.0),
        },
    )
    assert not {"long_prompt", "turns", "plain_sampling"} & set(order(case))


def test_only_what_fits_into_the_time_is_chosen():
    slow = server(cpu_case(), **{"run.prefill_tokens_per_s": 20.0})
    report = judge(slow)
    needed = [c.seconds for c in worthwhile(slow, report, ["speed"], may_send=True)]
    assert max(needed) == MOST_S
    assert chosen(slow, ["speed"], seconds_left=0.1) is None
    last = next_measurement(slow, report, ["speed"], 1.0, may_send=True)
    assert last is None or last.seconds <= 2.0


def test_a_small_context_and_a_single_slot_leave_less_to_try():
    small = server(gpu_case(), **{"runtime.context_per_slot": 512, "runtime.slots": 1})
    assert not {"long_prompt", "depth", "turns", "at_once"} & set(order(small, patience=1e9))


def test_more_patience_measures_more():
    case = server(gpu_case())
    assert set(order(case)) <= set(order(case, patience=2.5))
    assert len(order(case, patience=1e6)) > len(order(case))


def test_the_same_case_gives_the_same_choice():
    case = server(gpu_case(layers_on_gpu=20))
    assert order(case) == order(case)


def test_frequent_causes_weigh_more_and_none_weighs_nothing():
    assert cause_frequency("gpu_backend_not_loaded") > cause_frequency("vram_fragmented") > 0
    assert cause_frequency("a_cause_that_nobody_counted") > 0
    assert sum(cause_frequency(name) for name in all_causes()) < 1.1


def test_what_is_suspected_is_tried_before_what_is_merely_open():
    small = server(cpu_case(), **{"runtime.ubatch": 8, "runtime.top_k": Unknown("not told")})
    first = next_measurement(small, judge(small), ["speed"], AN_HOUR, may_send=True)
    assert first.measurement.name == "long_prompt"
    assert first.decides_suspicion


def test_several_at_once_are_not_asked_where_what_they_leave_is_copied_number_by_number():
    pieces = server(gpu_case(), **{"runtime.flash_attention": False, "runtime.kv_unified": True})
    several = MEASUREMENTS["at_once"]
    assert not several.possible(pieces)
    assert several.possible(with_facts(pieces, {"runtime.flash_attention": True}))
    assert several.possible(with_facts(pieces, {"runtime.kv_unified": False}))
    assert several.possible(with_facts(pieces, {"runtime.cache_ram_bytes": 0}))


def test_a_server_that_answers_others_between_two_looks_is_watched():
    used = with_facts(unmeasured(gpu_case()), {"runtime.busy_slots": 0, "run.logged_prompts": (500, 520)})
    assert chosen(used, may_send=False) == "traffic"
