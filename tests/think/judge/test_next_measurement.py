"""Which measurement comes next, on which machine, and when there is nothing more to measure."""

import pytest
from cases import cpu_case, gpu_case, with_facts

from unslow.catalog.bug_reports import cause_frequency
from unslow.facts.run import Completion, LongPrompt, TrialInTurns, Turn
from unslow.facts.values import NOT_LOOKED, Unknown
from unslow.look.bench.trials import trials
from unslow.think.case.view import CaseView
from unslow.think.causes import all_causes
from unslow.think.judge.judge import judge
from unslow.think.judge.next_measurement import MEASUREMENTS, MOST_S, next_measurement, worthwhile

URL = "http://127.0.0.1:8080"
AN_HOUR = 3600.0


def server(case, **facts):
    """A measured llama-server with a large context and four slots."""
    done = (Completion(prompt_tokens=40, generated_tokens=100, prefill_s=0.1, decode_s=1.0, client_total_s=1.1),)
    usual = {
        "runtime.process.url": URL,
        "runtime.context.per_slot": 16384,
        "runtime.scheduling.slots": 4,
        "run.completions": done,
    }
    return with_facts(case, usual | facts)


def unmeasured(case):
    return with_facts(
        case, {"runtime.process.url": URL, "run.decode_tokens_per_s": NOT_LOOKED, "run.completions": NOT_LOOKED}
    )


def chosen(case, done=(), seconds_left=AN_HOUR, *, may_send=True, patience=1.0):
    choice = next_measurement(
        CaseView(case), judge(CaseView(case)), done, seconds_left, may_send=may_send, patience=patience
    )
    return choice.measurement.name if choice else None


def order(case, **how) -> list[str]:
    """All that is measured, one after the other, where nothing that it tells changes the judgement."""
    done: list[str] = []
    while name := chosen(case, done, **how):
        done.append(name)
    return done


def test_measurements_and_trials_match_one_to_one():
    assert set(MEASUREMENTS) == set(trials())
    assert all(measurement.name == name for name, measurement in MEASUREMENTS.items())


def test_measurements_fill_existing_facts_and_causes():
    for measurement in MEASUREMENTS.values():
        assert all(CaseView(cpu_case()).fact(path) is not None for path in measurement.fills)
        assert set(measurement.about) <= set(all_causes())


@pytest.mark.parametrize("case", [cpu_case(), gpu_case(), gpu_case(layers_on_gpu=20)])
def test_decode_speed_is_measured_first(case):
    assert chosen(unmeasured(case)) == "speed"


def test_busy_server_is_only_observed():
    busy = with_facts(unmeasured(gpu_case()), {"runtime.scheduling.busy_slots": 2})
    assert order(busy, may_send=False) == ["traffic", "host"]


def test_remote_idle_server_is_not_observed():
    far = with_facts(
        unmeasured(gpu_case()), {"runtime.process.url": "http://gpu.example:8080", "runtime.scheduling.busy_slots": 0}
    )
    assert chosen(far, may_send=False) is None


def test_healthy_server_needs_few_measurements():
    healthy = server(gpu_case(), **{"run.prefill_tokens_per_s": 5000.0, "runtime.sampling.top_k": 40})
    choices = worthwhile(CaseView(healthy), judge(CaseView(healthy)), ["speed"], may_send=True)
    assert sum(c.seconds for c in choices) < 20
    assert "plain_sampling" not in [c.measurement.name for c in choices], "its samplers cost nothing that can be seen"


def test_slow_decode_makes_decode_trials_worthwhile():
    slow = server(gpu_case(), **{"run.decode_tokens_per_s": 30.0, "runtime.sampling.top_k": Unknown("not told")})
    healthy = server(gpu_case(), **{"runtime.sampling.top_k": Unknown("not told")})
    worth = []
    for case in (CaseView(slow), CaseView(healthy)):
        choices = worthwhile(case, judge(case), ["speed"], may_send=True, patience=1e9)
        worth += [c.worth_per_s for c in choices if c.measurement.name == "plain_sampling"]
    assert worth[0] > 3 * worth[1]


def test_known_facts_are_not_measured_again():
    case = server(
        gpu_case(),
        **{
            "run.long_prompt": LongPrompt(tokens=2048, seconds=0.4),
            "run.turns": (Turn(prompt_tokens=100, new_tokens=100, computed_tokens=100),),
            "run.plain_sampling": TrialInTurns(changed="x", as_set_tokens_per_s=100.0, changed_tokens_per_s=100.0),
        },
    )
    assert not {"long_prompt", "turns", "plain_sampling"} & set(order(case))


def test_only_measurements_within_the_time_limit_are_chosen():
    slow = server(cpu_case(), **{"run.prefill_tokens_per_s": 20.0})
    report = judge(CaseView(slow))
    needed = [c.seconds for c in worthwhile(CaseView(slow), report, ["speed"], may_send=True)]
    assert max(needed) == MOST_S
    assert chosen(slow, ["speed"], seconds_left=0.1) is None
    last = next_measurement(CaseView(slow), report, ["speed"], 1.0, may_send=True)
    assert last is None or last.seconds <= 2.0


def test_small_context_and_single_slot_exclude_trials():
    small = server(gpu_case(), **{"runtime.context.per_slot": 512, "runtime.scheduling.slots": 1})
    assert not {"long_prompt", "depth", "turns", "at_once"} & set(order(small, patience=1e9))


def test_more_patience_measures_more():
    case = server(gpu_case())
    assert set(order(case)) <= set(order(case, patience=2.5))
    assert len(order(case, patience=1e6)) > len(order(case))


def test_same_case_gives_the_same_choice():
    case = server(gpu_case(layers_on_gpu=20))
    assert order(case) == order(case)


def test_frequent_causes_weigh_more_and_every_cause_weighs_something():
    assert cause_frequency("gpu_backend_not_loaded") > cause_frequency("vram_fragmented") > 0
    assert cause_frequency("a_cause_that_nobody_counted") > 0
    assert sum(cause_frequency(name) for name in all_causes()) < 1.1


def test_suspected_causes_are_measured_before_open_ones():
    small = server(cpu_case(), **{"runtime.compute.ubatch": 8, "runtime.sampling.top_k": Unknown("not told")})
    first = next_measurement(CaseView(small), judge(CaseView(small)), ["speed"], AN_HOUR, may_send=True)
    assert first.measurement.name == "long_prompt"
    assert first.decides_suspicion


def test_concurrent_requests_are_not_tried_where_cache_copies_are_slow():
    pieces = server(gpu_case(), **{"runtime.compute.flash_attention": False, "runtime.cache.unified": True})
    several = MEASUREMENTS["at_once"]
    assert not several.possible(pieces)
    assert several.possible(with_facts(pieces, {"runtime.compute.flash_attention": True}))
    assert several.possible(with_facts(pieces, {"runtime.cache.unified": False}))
    assert several.possible(with_facts(pieces, {"runtime.cache.ram_bytes": 0}))


def test_server_with_logged_traffic_is_observed():
    used = with_facts(unmeasured(gpu_case()), {"runtime.scheduling.busy_slots": 0, "run.logged_prompts": (500, 520)})
    assert chosen(used, may_send=False) == "traffic"
