from answers import ask
from cases import cpu_case, gpu_case, with_facts
from firing import crowded
from under_load import tried

from unslow.facts.account import Topic
from unslow.facts.snapshot import Case
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Found
from unslow.think.judge.judge import judge

NAME = "threads_exceed_cores"
fires = crowded


def test_sixteen_threads_on_two_cores_are_found():
    report = judge(CaseView(crowded()))
    assert report.findings[0].cause == NAME
    assert 1.3 < report.findings[0].speedup < 7
    assert report.findings[0].fixes[0].value == 2


def test_a_thread_on_every_core_is_one_too_many_for_vllm():
    two_cores = {"machine.cpu.physical_cores": 2, "machine.cpu.logical_cpus": 2, "runtime.name": "vLLM"}
    answers = [ask(NAME, with_facts(fires(), two_cores | {"runtime.compute.threads": n})) for n in (2, 1)]
    assert [type(answer) for answer in answers] == [Found, Absent]
    assert [remedy.change.value for remedy in answers[0].remedies] == [1]


def test_one_thread_of_vllm_on_one_core_is_ruled_out():
    one_core = {"machine.cpu.physical_cores": 1, "machine.cpu.logical_cpus": 1, "runtime.name": "vLLM"}
    assert isinstance(ask(NAME, with_facts(fires(), one_core | {"runtime.compute.threads": 1})), Absent)


def test_two_threads_per_core_is_not_oversubscription():
    case = with_facts(
        cpu_case(), {"machine.cpu.threads_per_core": 2, "machine.cpu.logical_cpus": 4, "runtime.compute.threads": 4}
    )
    assert isinstance(ask(NAME, case), Absent)
    assert isinstance(ask(NAME, with_facts(case, {"runtime.compute.threads": 8})), Found)


def test_cpu_quota_does_not_lower_the_number_of_cores():
    facts = {"physical_cores": 16, "logical_cpus": 32, "threads_per_core": 2, "quota_cpus": 4.0}
    case = with_facts(cpu_case(), {f"machine.cpu.{k}": v for k, v in facts.items()} | {"runtime.compute.threads": 8})
    assert isinstance(ask(NAME, case), Absent)
    assert isinstance(ask(NAME, with_facts(case, {"runtime.compute.threads": 64})), Found)


def test_allowed_cpus_limit_the_number_of_cores():
    case = with_facts(
        cpu_case(), {"machine.cpu.physical_cores": 16, "machine.cpu.allowed_cpus": 2, "runtime.compute.threads": 16}
    )
    assert isinstance(ask(NAME, case), Found)


def test_model_on_gpu_is_ruled_out_with_any_number_of_threads():
    assert isinstance(ask(NAME, with_facts(gpu_case(), {"runtime.compute.threads": 64})), Absent)


def test_threads_and_cores_alone_decide(wording):
    answer = ask(NAME, with_facts(Case(), {"runtime.compute.threads": 24, "machine.cpu.physical_cores": 6}))
    assert isinstance(answer, Found)
    wording(answer.because, tells=("24 threads", "6 cores"))


def test_unknown_smt_allows_two_threads_per_core():
    assert isinstance(
        ask(NAME, with_facts(Case(), {"runtime.compute.threads": 12, "machine.cpu.physical_cores": 6})), Absent
    )


def test_trial_with_fewer_threads_sets_the_fix():
    answer = ask(NAME, tried(2.1, 5.3, Topic.THREADS, text="-t 32 gives 2.1 t/s, -t 16 gives 5.3 t/s"))
    assert isinstance(answer, Found)
    assert answer.remedies[0].change.value == 16
    assert not isinstance(ask(NAME, tried(2.1, 5.3, Topic.THREADS, text="4 threads 2.1, 16 threads 5.3 t/s")), Found)
    cores = with_facts(Case(), {"machine.cpu.physical_cores": 16})
    assert isinstance(ask(NAME, tried(2.1, 5.3, Topic.THREADS, text="-t 32 gives 2.1 t/s", case=cores)), Found)


def test_trial_gives_the_speedup():
    case = with_facts(Case(), {"runtime.compute.threads": 32, "machine.cpu.physical_cores": 8})
    assert ask(NAME, tried(2.0, 9.0, Topic.THREADS, case=case)).speedup == 4.5
