from pathlib import Path

import msgspec
from answers import ask
from cases import cpu_case, gpu_case, r, with_facts
from told import pasted, says

from unslow.commands.diagnose.target import read_stored
from unslow.facts.account import Topic
from unslow.facts.machine import BusyProcess
from unslow.facts.run import LongPrompt, Run
from unslow.think.case.prediction import predict_prefill
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "generic_cpu_build"
MACHINES = Path(__file__).parents[2] / "machines"
MODERN = {"machine.cpu.instruction_sets": ["sse4_2", "avx", "avx2", "fma", "f16c", "avx512f"]}


def fires():
    facts = MODERN | {"runtime.build_features": ["SSE3"], "run.decode_tokens_per_s": 0.9}
    return with_facts(cpu_case(), facts)


def test_a_build_for_the_oldest_cpus():
    finding = next(f for f in judge(fires()).findings if f.cause == NAME)
    assert "AVX, AVX2, F16C, FMA" in finding.because


def test_a_build_that_leaves_only_the_newest_unused():
    case = with_facts(cpu_case(), MODERN | {"runtime.build_features": ["AVX", "AVX2", "FMA", "F16C"]})
    assert isinstance(ask(NAME, case), Absent)


def test_a_debug_build():
    assert isinstance(ask(NAME, with_facts(cpu_case(), {"runtime.build_type": "Debug"})), Found)


def test_near_miss_all_layers_are_on_the_gpu():
    assert isinstance(ask(NAME, with_facts(gpu_case(), MODERN | {"runtime.build_features": []})), Absent)


def test_who_names_the_instructions_has_looked():
    said = says(Topic.MISSING_INSTRUCTIONS, "wheel built without AVX/FMA/F16C on an AVX2 CPU")
    assert judge(pasted(said)).findings[0].cause == NAME
    assert isinstance(ask(NAME, pasted(says(Topic.CPU_BUSY, "CPU at 100%"))), CannotTell)


def test_a_cpu_that_lacks_instructions_is_no_fault_of_the_build():
    old = says(Topic.MISSING_INSTRUCTIONS, "my old Xeon has no AVX2")
    assert isinstance(ask(NAME, pasted(old)), CannotTell)


def test_the_name_of_a_cpu_tells_what_it_has():
    case = with_facts(pasted(), {"runtime.build_features": ["SSE3"], "machine.cpu.model": "Ryzen 9 7950X"})
    assert isinstance(ask(NAME, case), Found)
    assert isinstance(ask(NAME, with_facts(case, {"machine.cpu.model": "Core i7-3770"})), CannotTell)


def reading(tokens_per_s: float):
    """A server that hides what its build uses, and a prompt that it read."""
    prompt = LongPrompt(tokens=1024, seconds=1024 / tokens_per_s)
    return with_facts(cpu_case(), {"run.long_prompt": prompt})


def test_a_prompt_tells_where_the_log_hides_the_build():
    expected = predict_prefill(reading(10.0)).tokens_per_s
    assert isinstance(ask(NAME, reading(expected.mid)), Absent)
    slow = ask(NAME, reading(expected.mid / 8))
    assert isinstance(slow, CannotTell)
    assert slow.suspected


def test_a_slow_prompt_beside_others_at_work_proves_nothing():
    case = with_facts(reading(0.5), {"run.others_cpus": 1.5})
    assert not ask(NAME, case).suspected


def test_beside_others_on_the_cpu_both_are_priced():
    # 167 ms for a token, of which two threads waited 200 together: six times what such a build takes alone
    (generic,) = read_stored(str(MACHINES / "lab_cpu_generic_build")).cases()
    busy = {"run.others_cpus": 1.3, "run.busiest_others": r([BusyProcess(pid=99, name="cc1plus", cpus=1.3)])}
    slow = {"run.decode_tokens_per_s": 6.0, "run.waiting_for_cpu_s_per_token": 0.2}
    findings = {f.cause: f for f in judge(with_facts(generic, busy | slow)).findings}
    assert set(findings) == {NAME, "cpu_contended"}
    assert 2 < findings[NAME].speedup < 5
    assert 4 < findings["cpu_contended"].speedup < 8
    assert all(finding.cost.seconds > 0.01 for finding in findings.values())


def test_a_server_too_slow_to_be_timed_is_slow():
    (generic,) = read_stored(str(MACHINES / "lab_cpu_generic_build")).cases()
    unmeasured = msgspec.structs.replace(generic, run=Run())
    report = judge(unmeasured)
    assert report.verdict == "slow"
    assert report.findings[0].cause == NAME
    assert report.findings[0].speedup == 2


ARM = {"machine.cpu.instruction_sets": ["dotprod", "fp16", "neon"], "run.decode_tokens_per_s": 0.9}


def test_a_build_for_any_arm_leaves_products_of_8_bit_numbers_unused():
    plain = with_facts(cpu_case(), ARM | {"runtime.build_features": ["NEON", "ARM_FMA"]})
    finding = judge(plain).findings[0]
    assert finding.cause == NAME
    assert "DOTPROD" in finding.because


def test_logs_from_before_2025_do_not_name_those_products():
    for features in (["NEON", "ARM_FMA", "FP16_VA"], ["NEON", "ARM_FMA", "FP16_VA", "DOTPROD"]):
        assert isinstance(ask(NAME, with_facts(cpu_case(), ARM | {"runtime.build_features": features})), Absent)


def in_a_virtual_machine(model: str, **more):
    facts = {
        "machine.cpu.instruction_sets": ["sse4_1", "sse4_2", "ssse3"],
        "machine.cpu.model": model,
        "machine.system.hypervisor": "KVM",
        "runtime.build_features": ["SSE3", "SSSE3"],
        "run.decode_tokens_per_s": 0.3,
    }
    return with_facts(cpu_case(), facts | more)


def test_a_virtual_machine_that_hides_what_its_host_has(wording):
    finding = judge(in_a_virtual_machine("QEMU Virtual CPU version 2.5+")).findings[0]
    assert finding.cause == NAME
    wording(finding.because, tells=("AVX", "AVX2"))
    assert finding.fixes[0].knob == "virtual_cpu"


def test_near_miss_an_old_processor_by_its_own_name_or_a_speed_that_is_right():
    assert isinstance(ask(NAME, in_a_virtual_machine("Intel(R) Xeon(R) CPU X5650")), Absent)
    fast = in_a_virtual_machine("Common KVM processor", **{"run.decode_tokens_per_s": 3.0})
    assert isinstance(ask(NAME, fast), Absent)
