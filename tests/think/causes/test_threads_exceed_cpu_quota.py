import pytest
from answers import ask
from cases import cpu_case, gpu_case, r, with_facts
from under_load import saying, tried

from unslow.facts.account import Topic
from unslow.facts.machine import Cpu, Machine
from unslow.facts.snapshot import Case
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge import judge

NAME = "threads_exceed_cpu_quota"


def fires(throttled: float = 0.7):
    facts = {
        "machine.cpu.physical_cores": 16,
        "machine.cpu.logical_cpus": 16,
        "machine.cpu.quota_cpus": 2.0,
        "runtime.threads": 16,
        "run.cpu_throttled_fraction": throttled,
        "run.decode_tokens_per_s": 0.5,
    }
    return with_facts(cpu_case(), facts)


def test_sixteen_threads_on_a_quota_of_two():
    report = judge(fires())
    assert report.findings[0].cause == NAME
    assert report.findings[0].explains == ("threads_exceed_cores",)
    assert "stopped in 70% of the periods" in report.findings[0].because
    assert report.findings[0].fixes[0].value == 2
    assert report.findings[0].speedup > 3


def test_a_quota_that_is_never_reached():
    assert isinstance(ask(NAME, fires(throttled=0.01)), Absent)


def test_no_more_threads_than_the_quota():
    assert isinstance(ask(NAME, with_facts(fires(), {"runtime.threads": 2})), Absent)


def test_idle_threads_beside_a_gpu():
    case = with_facts(gpu_case(), {"runtime.threads": 16, "machine.cpu.quota_cpus": 2.0})
    assert isinstance(ask(NAME, case), Absent)


def test_counters_of_the_cgroup_decide_as_well():
    cpu = Cpu(allowed_cpus=r(4), throttled_periods=r(3115), periods=r(4567), logical_cpus=r(4), physical_cores=r(8))
    case = with_facts(Case(machine=Machine(cpu=cpu)), {"runtime.threads": 8})
    answer = ask(NAME, case)
    assert isinstance(answer, Found)
    assert "68%" in answer.because


def test_a_runtime_that_is_stopped_all_the_time_has_a_quota_whatever_it_is():
    case = with_facts(Case(), {"runtime.threads": 64, "run.cpu_throttled_fraction": 0.91})
    assert isinstance(ask(NAME, case), Found)
    assert isinstance(ask(NAME, with_facts(case, {"run.cpu_throttled_fraction": 0.1})), CannotTell)


def docker(**facts):
    cpu = Cpu(quota_cpus=r(2.0), logical_cpus=r(16))
    return with_facts(Case(machine=Machine(cpu=cpu)), facts)


@pytest.mark.parametrize(("slow", "kind"), [("decode", Found), ("load", CannotTell)])
def test_a_quota_that_the_runtime_does_not_see_and_a_complaint_about_its_speed(slow, kind):
    assert isinstance(ask(NAME, saying(slow=slow, case=docker())), kind)


def test_without_a_complaint_it_asks_for_the_counters():
    answer = ask(NAME, docker())
    assert isinstance(answer, CannotTell)
    assert "cpu.stat" in answer.how_to_get


def test_fewer_threads_that_helped():
    answer = ask(NAME, tried(0.27, 12.0, Topic.THREADS, case=docker(**{"runtime.threads": 8})))
    assert isinstance(answer, Found)
    assert answer.speedup == 12.0 / 0.27
