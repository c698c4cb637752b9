from pathlib import Path

import msgspec
from answers import ask
from cases import cpu_case, gpu_case, r, with_facts
from told import pasted, says

from unslow.commands.diagnose.target import read_stored
from unslow.facts.account import Topic
from unslow.facts.machine import BusyProcess
from unslow.facts.run import LongPrompt, Run
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "generic_cpu_build"
MACHINES = Path(__file__).parents[2] / "machines"
MODERN = {"machine.cpu.instruction_sets": ["sse4_2", "avx", "avx2", "fma", "f16c", "avx512f"]}


def fires():
    facts = MODERN | {"runtime.build.features": ["SSE3"], "run.decode_tokens_per_s": 0.9}
    return with_facts(cpu_case(), facts)


def test_build_without_avx_on_a_modern_cpu_is_found():
    finding = next(f for f in judge(CaseView(fires())).findings if f.cause == NAME)
    assert "AVX, AVX2, F16C, FMA" in finding.because


def test_build_that_lacks_only_avx512_is_ruled_out():
    case = with_facts(cpu_case(), MODERN | {"runtime.build.features": ["AVX", "AVX2", "FMA", "F16C"]})
    assert isinstance(ask(NAME, case), Absent)


def test_debug_build_is_found():
    assert isinstance(ask(NAME, with_facts(cpu_case(), {"runtime.build.type": "Debug"})), Found)


def test_all_layers_on_the_gpu_is_ruled_out():
    assert isinstance(ask(NAME, with_facts(gpu_case(), MODERN | {"runtime.build.features": []})), Absent)


def test_person_who_names_missing_instructions_is_believed():
    said = says(Topic.MISSING_INSTRUCTIONS, "wheel built without AVX/FMA/F16C on an AVX2 CPU")
    assert judge(CaseView(pasted(said))).findings[0].cause == NAME
    assert isinstance(ask(NAME, pasted(says(Topic.CPU_BUSY, "CPU at 100%"))), CannotTell)


def test_person_whose_cpu_lacks_instructions_gives_cannot_tell():
    old = says(Topic.MISSING_INSTRUCTIONS, "my old Xeon has no AVX2")
    assert isinstance(ask(NAME, pasted(old)), CannotTell)


def test_instructions_are_known_from_the_cpu_model():
    case = with_facts(pasted(), {"runtime.build.features": ["SSE3"], "machine.cpu.model": "Ryzen 9 7950X"})
    assert isinstance(ask(NAME, case), Found)
    assert isinstance(ask(NAME, with_facts(case, {"machine.cpu.model": "Core i7-3770"})), CannotTell)


def reading(tokens_per_s: float):
    """A server that hides what its build uses, and a prompt that it read."""
    prompt = LongPrompt(tokens=1024, seconds=1024 / tokens_per_s)
    return with_facts(cpu_case(), {"run.long_prompt": prompt})


def test_prefill_speed_rules_out_or_suspects_an_unknown_build():
    expected = CaseView(reading(10.0)).speed.predict_prefill().tokens_per_s
    assert isinstance(ask(NAME, reading(expected.mid)), Absent)
    slow = ask(NAME, reading(expected.mid / 8))
    assert isinstance(slow, CannotTell)
    assert slow.suspected


def test_slow_prefill_beside_busy_processes_is_not_suspected():
    case = with_facts(reading(0.5), {"run.others_cpus": 1.5})
    assert not ask(NAME, case).suspected


def test_generic_build_and_cpu_contention_each_get_a_speedup():
    # 167 ms for a token, of which two threads waited 200 together: six times what such a build takes alone
    (generic,) = read_stored(str(MACHINES / "lab_cpu_generic_build")).cases()
    busy = {"run.others_cpus": 1.3, "run.busiest_others": r([BusyProcess(pid=99, name="cc1plus", cpus=1.3)])}
    slow = {"run.decode_tokens_per_s": 6.0, "run.waiting_for_cpu_s_per_token": 0.2}
    findings = {f.cause: f for f in judge(CaseView(with_facts(generic, busy | slow))).findings}
    assert set(findings) == {NAME, "cpu_contended"}
    assert 2 < findings[NAME].speedup < 5
    assert 4 < findings["cpu_contended"].speedup < 8
    assert all(finding.cost.seconds > 0.01 for finding in findings.values())


def test_generic_build_without_measured_speed_is_slow():
    (generic,) = read_stored(str(MACHINES / "lab_cpu_generic_build")).cases()
    unmeasured = msgspec.structs.replace(generic, run=Run())
    report = judge(CaseView(unmeasured))
    assert report.verdict == "slow"
    assert report.findings[0].cause == NAME
    assert report.findings[0].speedup == 2


ARM = {"machine.cpu.instruction_sets": ["dotprod", "fp16", "neon"], "run.decode_tokens_per_s": 0.9}


def test_arm_build_without_dotprod_is_found():
    plain = with_facts(cpu_case(), ARM | {"runtime.build.features": ["NEON", "ARM_FMA"]})
    finding = judge(CaseView(plain)).findings[0]
    assert finding.cause == NAME
    assert "DOTPROD" in finding.because


def test_fp16_va_in_old_logs_implies_dotprod():
    for features in (["NEON", "ARM_FMA", "FP16_VA"], ["NEON", "ARM_FMA", "FP16_VA", "DOTPROD"]):
        assert isinstance(ask(NAME, with_facts(cpu_case(), ARM | {"runtime.build.features": features})), Absent)


def in_a_virtual_machine(model: str, **more):
    facts = {
        "machine.cpu.instruction_sets": ["sse4_1", "sse4_2", "ssse3"],
        "machine.cpu.model": model,
        "machine.system.hypervisor": "KVM",
        "runtime.build.features": ["SSE3", "SSSE3"],
        "run.decode_tokens_per_s": 0.3,
    }
    return with_facts(cpu_case(), facts | more)


def test_virtual_cpu_without_avx_is_found(wording):
    finding = judge(CaseView(in_a_virtual_machine("QEMU Virtual CPU version 2.5+"))).findings[0]
    assert finding.cause == NAME
    wording(finding.because, tells=("AVX", "AVX2"))
    assert finding.fixes[0].knob == "virtual_cpu"


def test_real_old_cpu_or_expected_speed_is_ruled_out():
    assert isinstance(ask(NAME, in_a_virtual_machine("Intel(R) Xeon(R) CPU X5650")), Absent)
    fast = in_a_virtual_machine("Common KVM processor", **{"run.decode_tokens_per_s": 3.0})
    assert isinstance(ask(NAME, fast), Absent)
