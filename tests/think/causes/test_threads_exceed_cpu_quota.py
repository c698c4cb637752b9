import pytest
from answers import ask
from cases import cpu_case, gpu_case, r, with_facts
from engines import vllm
from under_load import saying, tried

from unslow.facts.account import Topic
from unslow.facts.machine import Cpu, Machine
from unslow.facts.snapshot import Case
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

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


def test_sixteen_threads_on_a_quota_of_two(wording):
    report = judge(fires())
    assert report.findings[0].cause == NAME
    wording(report.findings[0].because, tells="70%")
    assert report.findings[0].fixes[0].value == 2
    assert report.findings[0].speedup > 3


def test_near_miss_a_quota_that_is_never_reached():
    assert isinstance(ask(NAME, fires(throttled=0.01)), Absent)


def test_near_miss_no_more_threads_than_the_quota():
    assert isinstance(ask(NAME, with_facts(fires(), {"runtime.threads": 2})), Absent)


def test_near_miss_idle_threads_beside_a_gpu():
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


def boxed(**limits):
    """Sixteen cores, of which this program may use all, and a runtime whose own process may not."""
    own = {f"runtime.{name}": value for name, value in limits.items()}
    machine = {"machine.cpu.quota_cpus": 16.0, "machine.cpu.allowed_cpus": 16}
    return with_facts(fires(), machine | {"runtime.quota_cpus": 16.0, "runtime.allowed_cpus": 16} | own)


def test_the_quota_of_the_runtime_counts_and_not_that_of_this_program():
    answer = ask(NAME, boxed(quota_cpus=2.0))
    assert isinstance(answer, Found)
    assert "runtime.quota_cpus" in [e.fact for e in answer.evidence]
    assert answer.cure.threads == 2


def test_near_miss_the_quota_of_this_program_alone():
    case = with_facts(boxed(), {"machine.cpu.quota_cpus": 2.0, "run.cpu_throttled_fraction": 0.0})
    assert isinstance(ask(NAME, case), Absent)


def test_a_cpuset_is_never_throttled_and_decides_by_the_count(wording):
    answer = ask(NAME, with_facts(boxed(allowed_cpus=2), {"run.cpu_throttled_fraction": 0.0}))
    assert isinstance(answer, Found)
    wording(answer.because)
    report = judge(with_facts(boxed(allowed_cpus=2), {"run.cpu_throttled_fraction": 0.0}))
    assert report.findings[0].cause == NAME
    assert "threads_exceed_cores" in report.findings[0].explains


def test_near_miss_all_cpus_are_allowed():
    free = with_facts(boxed(), {"run.cpu_throttled_fraction": 0.0, "runtime.threads": 32})
    assert isinstance(ask(NAME, free), Absent)


def test_the_setting_alone_decides_where_the_cpu_computes():
    """Threads that wait for each other spin, so that more of them than the quota has CPUs always use it up."""
    case = with_facts(cpu_case(), {"runtime.threads": 2, "runtime.quota_cpus": 1.0, "runtime.allowed_cpus": 2})
    answer = ask(NAME, case)
    assert isinstance(answer, Found)
    assert answer.cure.threads == 1


def test_near_miss_too_many_threads_on_a_machine_without_limits():
    """A process without a quota may use all CPUs that it may run on, which is no limit of its own."""
    free = {"runtime.threads": 8, "runtime.quota_cpus": 2.0, "runtime.allowed_cpus": 2, "run.decode_tokens_per_s": 0.5}
    assert isinstance(ask(NAME, with_facts(cpu_case(), free)), Absent)
    assert judge(with_facts(cpu_case(), free)).findings[0].cause == "threads_exceed_cores"


def test_of_a_set_of_cpus_no_quota_is_the_way_out():
    case = with_facts(cpu_case(), {"runtime.allowed_cpus": 1, "runtime.threads": 8})
    answer = ask(NAME, case)
    assert isinstance(answer, Found)
    assert answer.remedies[1].change.value is None
    assert "--cpuset-cpus" in answer.remedies[1].change.why


def test_an_engine_on_gpus_that_a_quota_stops_is_slow_for_it_where_it_is_slow(wording):
    stopped = {"run.cpu_throttled_fraction": 0.6}
    found = ask(NAME, vllm(**stopped, **{"run.decode_tokens_per_s": 8.0}))
    assert isinstance(found, Found)
    wording(found.because)
    assert isinstance(ask(NAME, vllm(**stopped)), Absent), "as fast as it should be"
    assert isinstance(ask(NAME, vllm(**{"run.cpu_throttled_fraction": 0.1, "run.decode_tokens_per_s": 8.0})), Absent)
