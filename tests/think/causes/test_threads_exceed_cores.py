from answers import ask
from cases import cpu_case, gpu_case, with_facts
from firing import crowded

from unslow.think.causes._cause import Absent, Found
from unslow.think.judge import judge

NAME = "threads_exceed_cores"
fires = crowded


def test_sixteen_threads_on_two_cores_are_about_five_times_slower():
    report = judge(crowded())
    assert report.findings[0].cause == NAME
    assert 4 < report.findings[0].speedup < 7
    assert report.findings[0].fixes[0].value == 2


def test_smt_at_par_is_no_crowd():
    case = with_facts(
        cpu_case(), {"machine.cpu.threads_per_core": 2, "machine.cpu.logical_cpus": 4, "runtime.threads": 4}
    )
    assert isinstance(ask(NAME, case), Absent)
    assert isinstance(ask(NAME, with_facts(case, {"runtime.threads": 8})), Found)


def test_a_quota_is_not_doubled_by_smt():
    facts = {"physical_cores": 16, "logical_cpus": 32, "threads_per_core": 2, "quota_cpus": 4.0}
    case = with_facts(cpu_case(), {f"machine.cpu.{k}": v for k, v in facts.items()} | {"runtime.threads": 8})
    assert isinstance(ask(NAME, case), Found)


def test_a_cpuset_counts_as_cores():
    case = with_facts(
        cpu_case(), {"machine.cpu.physical_cores": 16, "machine.cpu.allowed_cpus": 2, "runtime.threads": 16}
    )
    assert isinstance(ask(NAME, case), Found)


def test_idle_threads_beside_a_gpu_do_no_harm():
    assert isinstance(ask(NAME, with_facts(gpu_case(), {"runtime.threads": 64})), Absent)
