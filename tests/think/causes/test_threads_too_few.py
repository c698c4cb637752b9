from answers import ask
from cases import cpu_case, gpu_case, with_facts, without
from under_load import saying, tried

from unslow.facts.account import Topic
from unslow.facts.snapshot import Case
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "threads_too_few"


def fires(threads: int = 2):
    facts = {
        "machine.cpu.physical_cores": 8,
        "machine.cpu.logical_cpus": 8,
        "machine.memory.read_bytes_per_s": 60e9,
        "machine.memory.read_one_core_bytes_per_s": 12e9,
        "runtime.compute.threads": threads,
        "run.decode_tokens_per_s": 4.0,
    }
    return with_facts(cpu_case(), facts)


def test_two_threads_on_eight_cores_is_found():
    finding = judge(CaseView(fires())).findings[0]
    assert finding.cause == NAME
    assert finding.fixes[0].value == 8
    assert 1.5 < finding.speedup < 4


def test_saturated_memory_bandwidth_is_ruled_out():
    case = with_facts(fires(threads=6), {"machine.memory.read_bytes_per_s": 8e9})
    assert isinstance(ask(NAME, case), Absent)


def test_as_many_threads_as_cores_is_ruled_out():
    assert isinstance(ask(NAME, fires(threads=8)), Absent)


def test_vllm_keeps_a_core_for_itself(wording):
    answers = [ask(NAME, with_facts(fires(threads=n), {"runtime.name": "vLLM"})) for n in (2, 7)]
    assert [type(answer) for answer in answers] == [Found, Absent]
    assert [remedy.change.value for remedy in answers[0].remedies] == [7]
    wording(answers[1].because)


def test_threads_beside_a_full_offload_are_ruled_out():
    case = with_facts(gpu_case(), {"machine.cpu.physical_cores": 8, "runtime.compute.threads": 2})
    assert isinstance(ask(NAME, case), Absent)


def test_unknown_memory_bandwidth_gives_cannot_tell():
    answer = ask(NAME, without(fires(threads=4), "machine.memory.read_bytes_per_s"))
    assert isinstance(answer, CannotTell)


def test_trial_of_threads_decides_both_ways():
    unmeasured = without(fires(), "machine.memory.read_bytes_per_s")
    assert isinstance(ask(NAME, tried(4.0, 10.0, Topic.THREADS, case=unmeasured)), CannotTell)
    more = "with more threads 4 -> 10 t/s"
    answer = ask(NAME, tried(4.0, 10.0, Topic.THREADS, case=unmeasured, text=more))
    assert isinstance(answer, Found)
    assert answer.speedup == 2.5
    assert isinstance(ask(NAME, tried(4.0, 4.2, Topic.THREADS, case=unmeasured)), Absent)
    text = "4 threads: 2.1 t/s, threads=16: 5.3 t/s"
    told = ask(NAME, tried(2.1, 5.3, Topic.THREADS, text=text))
    assert isinstance(told, Found)
    assert told.remedies[0].change.value == 16
    named = with_facts(Case(), {"runtime.compute.threads": 8})
    other = ask(NAME, tried(3.1, 5.9, Topic.THREADS, text="num_thread 4: 3.1 tok/s", case=named))
    assert isinstance(other, Found)
    assert other.remedies[0].change.value == 8
    fewer = tried(5.0, 9.0, Topic.THREADS, case=fires(), text="using fewer threads went from 5 to 9 t/s")
    assert isinstance(ask(NAME, fewer), Absent)
    used = with_facts(Case(), {"runtime.compute.threads": 16})
    assert not isinstance(ask(NAME, tried(2.1, 5.3, Topic.THREADS, text=text, case=used)), Found)
    said = saying(Topic.SATURATED, "more than 4 threads give nothing", case=fires())
    assert isinstance(ask(NAME, said), Absent)


def test_busy_performance_cores_of_a_hybrid_cpu_are_ruled_out():
    hybrid = {"machine.cpu.performance_cores": 2, "machine.cpu.efficiency_cores": 6}
    assert isinstance(ask(NAME, with_facts(fires(), hybrid)), Absent)


def test_cores_that_other_processes_use_do_not_count(wording):
    answer = ask(NAME, with_facts(fires(), {"run.others_cpus": 6.0}))
    assert isinstance(answer, Absent)
    wording(answer.because, tells="6.0")
    assert isinstance(ask(NAME, with_facts(fires(), {"run.others_cpus": 0.2})), Found)


def test_very_few_threads_are_found_without_a_measured_bandwidth():
    unmeasured = [without(fires(threads), "machine.memory.read_bytes_per_s") for threads in (2, 4)]
    few, many = (without(case, "machine.memory.read_one_core_bytes_per_s") for case in unmeasured)
    assert isinstance(ask(NAME, few), Found)
    assert isinstance(ask(NAME, many), CannotTell)
