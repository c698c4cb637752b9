from answers import ask
from cases import cpu_case, with_facts
from engines import vllm
from seen_live import watched
from told import pasted, says

from unslow.facts.account import Topic
from unslow.facts.values import GIB, MIB, not_found
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "swapping"
PRESSED = {"machine.memory.swap_used_bytes": 9 * GIB, "machine.load.memory_pressure": 0.4}


def fires():
    return with_facts(cpu_case(), PRESSED | {"run.decode_tokens_per_s": 0.3})


def test_swap_in_use_under_memory_pressure_is_found(wording):
    finding = next(f for f in judge(CaseView(fires())).findings if f.cause == NAME)
    wording(finding.because, tells=("9.0 GiB", "40%"))


def test_idle_swap_with_free_memory_is_ruled_out_unless_a_memory_limit_applies():
    calm = with_facts(fires(), {"machine.load.memory_pressure": 0.0, "machine.memory.available_bytes": 12 * GIB})
    assert isinstance(ask(NAME, calm), Absent)
    boxed = {"runtime.process.memory_limit_bytes": 2 * GIB}
    assert isinstance(ask(NAME, with_facts(calm, boxed)), CannotTell), "free memory of the machine is outside its limit"
    assert isinstance(ask(NAME, with_facts(fires(), {"machine.memory.swap_used_bytes": 0})), Absent)


def test_low_pressure_rules_out_only_at_work_or_at_full_speed():
    """Else it is not known whether tokens were generated then, nor whether there was room for what was read back."""
    calm = with_facts(fires(), {"machine.load.memory_pressure": 0.08})
    assert isinstance(ask(NAME, calm), CannotTell)
    assert isinstance(ask(NAME, with_facts(calm, {"machine.load.busy_cpus": 2.0})), Absent)
    assert isinstance(ask(NAME, with_facts(fires(), {"run.decode_tokens_per_s": 3.3})), Absent), "at full speed"


def test_little_available_memory_without_pressure_is_a_suspicion():
    short = with_facts(cpu_case(), {"machine.memory.swap_used_bytes": 9 * GIB, "machine.memory.available_bytes": GIB})
    answer = ask(NAME, short)
    assert isinstance(answer, CannotTell)
    assert answer.suspected
    assert "vmstat" in answer.how_to_get


def test_a_remark_about_swap_decides_only_with_an_amount():
    seen, vague = says(Topic.SWAPPING, "8 GB swap used while generating"), says(Topic.SWAPPING, "it swaps a lot")
    assert isinstance(ask(NAME, pasted(seen, system="Linux")), Found)
    assert isinstance(ask(NAME, pasted(vague, system="Linux")), CannotTell)
    assert isinstance(ask(NAME, pasted(seen, gpus=["Apple M2 Max"])), Absent)


def test_swap_ins_while_generating_are_found_with_a_cost():
    case = watched(with_facts(cpu_case(), {"run.decode_tokens_per_s": 0.3}), host={"swap_in_bytes_per_s": 90 * MIB})
    finding = judge(CaseView(case)).findings[0]
    assert finding.cause == NAME
    assert "90.0 MiB" in finding.because
    assert finding.cost.seconds > 2


def test_full_swap_without_swap_ins_is_ruled_out():
    assert isinstance(ask(NAME, watched(fires(), host={"swap_in_bytes_per_s": 0.0})), Absent)


def test_mmap_is_a_fix_where_the_weights_were_copied():
    case = with_facts(fires(), {"runtime.placement.load_mode": "none"})
    assert "load_mode" in [fix.knob for fix in judge(CaseView(case)).findings[0].fixes]
    assert "load_mode" not in [fix.knob for fix in judge(CaseView(fires())).findings[0].fixes]


def test_a_gpu_only_engine_swaps_only_where_it_is_known_to_be_slow():
    pressed = {"machine.memory.swap_used_bytes": 9 * GIB, "machine.load.memory_pressure": 0.4}
    unknown_speed = vllm(**pressed, **{"run.decode_tokens_per_s": not_found("not measured")})
    assert isinstance(ask(NAME, unknown_speed), CannotTell)
    assert isinstance(ask(NAME, vllm(**pressed, **{"run.decode_tokens_per_s": 8.0})), Found)
