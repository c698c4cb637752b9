import pytest
from answers import ask
from cases import cpu_case, gpu_case, r, with_facts
from engines import vllm
from under_load import saying, tried

from unslow.facts.account import Topic
from unslow.facts.machine import Cpu, Machine
from unslow.facts.runtime import FACT_PATHS
from unslow.facts.snapshot import Case
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "threads_exceed_cpu_quota"


def fires(throttled: float = 0.7):
    facts = {
        "machine.cpu.physical_cores": 16,
        "machine.cpu.logical_cpus": 16,
        "machine.cpu.quota_cpus": 2.0,
        "runtime.compute.threads": 16,
        "run.cpu_throttled_fraction": throttled,
        "run.decode_tokens_per_s": 0.5,
    }
    return with_facts(cpu_case(), facts)


def test_sixteen_threads_on_a_quota_of_two_cpus_is_found(wording):
    report = judge(CaseView(fires()))
    assert report.findings[0].cause == NAME
    wording(report.findings[0].because, tells="70%")
    assert report.findings[0].fixes[0].value == 2
    assert report.findings[0].speedup > 3


def test_quota_that_never_throttles_is_ruled_out():
    assert isinstance(ask(NAME, fires(throttled=0.01)), Absent)


def test_as_many_threads_as_the_quota_is_ruled_out():
    assert isinstance(ask(NAME, with_facts(fires(), {"runtime.compute.threads": 2})), Absent)


@pytest.mark.parametrize("threads", [1, 2])
def test_quota_below_one_cpu_is_found_whatever_the_threads(threads):
    case = with_facts(fires(throttled=0.97), {"machine.cpu.quota_cpus": 0.5, "runtime.compute.threads": threads})
    report = judge(CaseView(case))
    assert report.findings[0].cause == NAME
    assert (report.findings[0].fixes[0].knob, report.findings[0].fixes[0].value) == ("cpu_quota", threads)
    assert report.findings[0].speedup > 1.5


def test_threads_beside_a_full_offload_are_ruled_out():
    case = with_facts(gpu_case(), {"runtime.compute.threads": 16, "machine.cpu.quota_cpus": 2.0})
    assert isinstance(ask(NAME, case), Absent)


def test_throttled_periods_of_the_cgroup_are_found(wording):
    cpu = Cpu(allowed_cpus=r(4), throttled_periods=r(3115), periods=r(4567), logical_cpus=r(4), physical_cores=r(8))
    case = with_facts(Case(machine=Machine(cpu=cpu)), {"runtime.compute.threads": 8})
    answer = ask(NAME, case)
    assert isinstance(answer, Found)
    wording(answer.because, tells="68%")


def test_mostly_throttled_runtime_is_found_without_a_known_quota():
    case = with_facts(Case(), {"runtime.compute.threads": 64, "run.cpu_throttled_fraction": 0.91})
    assert isinstance(ask(NAME, case), Found)
    assert isinstance(ask(NAME, with_facts(case, {"run.cpu_throttled_fraction": 0.1})), CannotTell)


def docker(**facts):
    cpu = Cpu(quota_cpus=r(2.0), logical_cpus=r(16))
    return with_facts(Case(machine=Machine(cpu=cpu)), facts)


@pytest.mark.parametrize(("slow", "kind"), [("decode", Found), ("load", CannotTell)])
def test_quota_with_a_complaint_is_found_only_for_decode(slow, kind):
    assert isinstance(ask(NAME, saying(slow=slow, case=docker())), kind)


def test_quota_without_a_complaint_asks_for_cpu_stat():
    answer = ask(NAME, docker())
    assert isinstance(answer, CannotTell)
    assert "cpu.stat" in answer.how_to_get


def test_trial_with_fewer_threads_is_found_with_its_speedup():
    answer = ask(NAME, tried(0.27, 12.0, Topic.THREADS, case=docker(**{"runtime.compute.threads": 8})))
    assert isinstance(answer, Found)
    assert answer.speedup == 12.0 / 0.27


def boxed(**limits):
    """Sixteen cores, all of which this program may use; the runtime's process has limits of its own."""
    own = {f"runtime.{FACT_PATHS[name]}": value for name, value in limits.items()}
    machine = {"machine.cpu.quota_cpus": 16.0, "machine.cpu.allowed_cpus": 16}
    return with_facts(fires(), machine | {"runtime.process.quota_cpus": 16.0, "runtime.process.allowed_cpus": 16} | own)


def test_quota_of_the_runtime_process_is_found():
    answer = ask(NAME, boxed(quota_cpus=2.0))
    assert isinstance(answer, Found)
    assert "runtime.process.quota_cpus" in [e.fact for e in answer.evidence]
    assert answer.cure.threads == 2


def test_quota_of_this_program_alone_is_ruled_out():
    case = with_facts(boxed(), {"machine.cpu.quota_cpus": 2.0, "run.cpu_throttled_fraction": 0.0})
    assert isinstance(ask(NAME, case), Absent)


def test_cpuset_is_found_by_count_without_throttling(wording):
    answer = ask(NAME, with_facts(boxed(allowed_cpus=2), {"run.cpu_throttled_fraction": 0.0}))
    assert isinstance(answer, Found)
    wording(answer.because)
    report = judge(CaseView(with_facts(boxed(allowed_cpus=2), {"run.cpu_throttled_fraction": 0.0})))
    assert report.findings[0].cause == NAME
    assert "threads_exceed_cores" in report.findings[0].explains


def test_all_cpus_allowed_is_ruled_out():
    free = with_facts(boxed(), {"run.cpu_throttled_fraction": 0.0, "runtime.compute.threads": 32})
    assert isinstance(ask(NAME, free), Absent)


def test_thread_setting_above_the_quota_is_found_without_counters():
    """Threads that wait for each other spin, and so use up any quota."""
    case = with_facts(
        cpu_case(), {"runtime.compute.threads": 2, "runtime.process.quota_cpus": 1.0, "runtime.process.allowed_cpus": 2}
    )
    answer = ask(NAME, case)
    assert isinstance(answer, Found)
    assert answer.cure.threads == 1


def test_too_many_threads_without_a_limit_is_threads_exceed_cores():
    free = {
        "runtime.compute.threads": 8,
        "runtime.process.quota_cpus": 2.0,
        "runtime.process.allowed_cpus": 2,
        "run.decode_tokens_per_s": 0.5,
    }
    assert isinstance(ask(NAME, with_facts(cpu_case(), free)), Absent)
    assert judge(CaseView(with_facts(cpu_case(), free))).findings[0].cause == "threads_exceed_cores"


def test_fix_of_a_cpuset_is_a_larger_cpuset():
    case = with_facts(cpu_case(), {"runtime.process.allowed_cpus": 1, "runtime.compute.threads": 8})
    answer = ask(NAME, case)
    assert isinstance(answer, Found)
    assert answer.remedies[1].change.value is None
    assert "--cpuset-cpus" in answer.remedies[1].change.why


def test_throttled_gpu_engine_is_found_only_where_it_is_slow(wording):
    stopped = {"run.cpu_throttled_fraction": 0.6}
    found = ask(NAME, vllm(**stopped, **{"run.decode_tokens_per_s": 8.0}))
    assert isinstance(found, Found)
    wording(found.because)
    assert isinstance(ask(NAME, vllm(**stopped)), Absent), "decode is as fast as expected"
    assert isinstance(ask(NAME, vllm(**{"run.cpu_throttled_fraction": 0.1, "run.decode_tokens_per_s": 8.0})), Absent)


def bound_to_one(**more):
    facts = {
        "machine.cpu.logical_cpus": 16,
        "machine.cpu.physical_cores": 16,
        "runtime.process.allowed_cpus": 1,
        "run.own_cpus": 1.0,
        "run.others_cpus": 0.5,
        "run.waiting_for_cpu_s_per_token": 0.01,
        "run.decode_tokens_per_s": 50.0,
    }
    return vllm(**facts | more)


def test_gpu_engine_that_fills_the_one_cpu_it_may_use_is_found(wording):
    found = ask(NAME, bound_to_one())
    assert isinstance(found, Found)
    wording(found.because, tells="1 of 16 CPUs")
    assert found.speedup > 1.1
    assert isinstance(ask("cpu_contended", bound_to_one()), Absent), "the others have fifteen CPUs to themselves"
    assert isinstance(ask(NAME, bound_to_one(**{"run.own_cpus": 0.3})), Absent)
    assert isinstance(ask(NAME, bound_to_one(**{"run.waiting_for_cpu_s_per_token": 0.0001})), Absent)
