from answers import ask
from cases import cpu_case, with_facts
from engines import vllm
from seen_live import watched
from told import pasted, says

from unslow.facts.account import Topic
from unslow.facts.values import GIB, MIB, not_found
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "swapping"
PRESSED = {"machine.memory.swap_used_bytes": 9 * GIB, "machine.load.memory_pressure": 0.4}


def fires():
    return with_facts(cpu_case(), PRESSED | {"run.decode_tokens_per_s": 0.3})


def test_nine_gib_swapped_and_programs_that_wait_for_it(wording):
    finding = next(f for f in judge(fires()).findings if f.cause == NAME)
    wording(finding.because, tells=("9.0 GiB", "40%"))


def test_near_miss_old_pages_that_nobody_waits_for():
    calm = with_facts(fires(), {"machine.load.memory_pressure": 0.0, "machine.memory.available_bytes": 12 * GIB})
    assert isinstance(ask(NAME, calm), Absent)
    boxed = {"runtime.memory_limit_bytes": 2 * GIB}
    assert isinstance(ask(NAME, with_facts(calm, boxed)), CannotTell), "the machine's room is not its own"
    assert isinstance(ask(NAME, with_facts(fires(), {"machine.memory.swap_used_bytes": 0})), Absent)


def test_the_pressure_of_another_moment_rules_nothing_out():
    """Nobody knows whether tokens were generated then, nor whether there was room for what came back."""
    calm = with_facts(fires(), {"machine.load.memory_pressure": 0.08})
    assert isinstance(ask(NAME, calm), CannotTell)
    assert isinstance(ask(NAME, with_facts(calm, {"machine.load.busy_cpus": 2.0})), Absent)
    assert isinstance(ask(NAME, with_facts(fires(), {"run.decode_tokens_per_s": 3.3})), Absent), "at full speed"


def test_without_the_pressure_little_memory_left_is_a_suspicion():
    short = with_facts(cpu_case(), {"machine.memory.swap_used_bytes": 9 * GIB, "machine.memory.available_bytes": GIB})
    answer = ask(NAME, short)
    assert isinstance(answer, CannotTell)
    assert answer.suspected
    assert "vmstat" in answer.how_to_get


def test_words_decide_with_an_amount_only():
    seen, vague = says(Topic.SWAPPING, "8 GB swap used while generating"), says(Topic.SWAPPING, "it swaps a lot")
    assert isinstance(ask(NAME, pasted(seen, system="Linux")), Found)
    assert isinstance(ask(NAME, pasted(vague, system="Linux")), CannotTell)
    assert isinstance(ask(NAME, pasted(seen, gpus=["Apple M2 Max"])), Absent)


def test_pages_that_came_back_while_tokens_were_generated():
    case = watched(with_facts(cpu_case(), {"run.decode_tokens_per_s": 0.3}), host={"swap_in_bytes_per_s": 90 * MIB})
    finding = judge(case).findings[0]
    assert finding.cause == NAME
    assert "90.0 MiB a second" in finding.because
    assert finding.cost.seconds > 2


def test_near_miss_swap_that_is_full_and_at_rest():
    assert isinstance(ask(NAME, watched(fires(), host={"swap_in_bytes_per_s": 0.0})), Absent)


def test_weights_that_were_copied_are_mapped_again():
    case = with_facts(fires(), {"runtime.load_mode": "none"})
    assert "load_mode" in [fix.knob for fix in judge(case).findings[0].fixes]
    assert "load_mode" not in [fix.knob for fix in judge(fires()).findings[0].fixes]


def test_an_engine_that_computes_on_gpus_is_not_slow_for_the_hosts_memory_alone():
    pressed = {"machine.memory.swap_used_bytes": 9 * GIB, "machine.load.memory_pressure": 0.4}
    unknown_speed = vllm(**pressed, **{"run.decode_tokens_per_s": not_found("nobody measured")})
    assert isinstance(ask(NAME, unknown_speed), CannotTell)
    assert isinstance(ask(NAME, vllm(**pressed, **{"run.decode_tokens_per_s": 8.0})), Found)
