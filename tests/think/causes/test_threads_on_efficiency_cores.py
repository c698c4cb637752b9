from answers import ask
from cases import cpu_case, gpu_case, with_facts, without
from seen_live import watched
from under_load import saying, tried

from unslow.facts.account import Topic
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "threads_on_efficiency_cores"


def hybrid(threads: int = 20, speed: float = 1.0):
    facts = {
        "machine.cpu.physical_cores": 20,
        "machine.cpu.logical_cpus": 28,
        "machine.cpu.performance_cores": 8,
        "machine.cpu.efficiency_cores": 12,
        "machine.memory.read_bytes_per_s": 60e9,
        "runtime.compute.threads": threads,
        "run.decode_tokens_per_s": speed,
    }
    return with_facts(cpu_case(), facts)


def fires():
    return tried(1.0, 3.0, Topic.THREADS, case=hybrid(), text="-t 20 gives 1 t/s, -t 8 gives 3 t/s")


def test_trial_with_fewer_threads_is_found_with_its_speedup():
    finding = judge(CaseView(fires())).findings[0]
    assert finding.cause == NAME
    assert finding.fixes[0].value == 8
    assert finding.speedup == 3.0


def test_trial_with_faster_more_threads_is_ruled_out_and_an_unclear_one_cannot_tell():
    text = "8 threads: 5 t/s, 20 threads: 9 t/s"
    assert isinstance(ask(NAME, tried(5.0, 9.0, Topic.THREADS, case=hybrid(), text=text)), Absent)
    assert isinstance(ask(NAME, tried(5.0, 9.0, Topic.THREADS, case=hybrid())), CannotTell)


def test_all_cores_busy_needs_a_trial_of_threads_not_of_quants():
    case = without(hybrid(), "runtime.compute.threads")
    quants = tried(4.0, 12.0, Topic.QUANT_TYPE, case=case, text="Q8_0: 4 t/s, Q4_0: 12 t/s")
    assert isinstance(ask(NAME, saying(Topic.CPU_BUSY, "all cores at 100 %", case=quants)), CannotTell)
    threads = tried(1.0, 3.0, Topic.THREADS, case=case, text="all cores 1 t/s, taskset to the P-cores 3 t/s")
    assert isinstance(ask(NAME, saying(Topic.CPU_BUSY, "all cores at 100 %", case=threads)), Found)


def test_threads_that_fit_on_performance_cores_are_ruled_out():
    assert isinstance(ask(NAME, hybrid(threads=8)), Absent)


def test_cores_of_one_kind_are_ruled_out():
    assert isinstance(ask(NAME, with_facts(fires(), {"machine.cpu.efficiency_cores": 0})), Absent)


def test_without_a_trial_it_is_suspected_with_the_bench_command():
    answer = ask(NAME, hybrid())
    assert isinstance(answer, CannotTell)
    assert answer.suspected
    assert "-t 8,20" in answer.how_to_get


def test_expected_speed_or_equal_trial_is_ruled_out():
    assert isinstance(ask(NAME, hybrid(speed=9.0)), Absent)
    assert isinstance(ask(NAME, tried(9.0, 9.2, Topic.THREADS, case=hybrid())), Absent)


def test_threads_beside_a_full_offload_are_ruled_out():
    facts = {"performance_cores": 8, "efficiency_cores": 12}
    case = with_facts(gpu_case(), {f"machine.cpu.{k}": v for k, v in facts.items()} | {"runtime.compute.threads": 20})
    assert isinstance(ask(NAME, case), Absent)


def test_told_busy_efficiency_cores_are_found_only_for_slow_decode():
    said = saying(Topic.EFFICIENCY_CORES_BUSY, "only the E-cores are at 100%", slow="decode")
    assert isinstance(ask(NAME, said), Found)
    assert isinstance(ask(NAME, saying(Topic.EFFICIENCY_CORES_BUSY, "E-cores", slow="load")), CannotTell)


def on_slow_cores(share: float, others: float = 0.05, **facts):
    return watched(with_facts(hybrid(**facts), {"run.others_cpus": others}), host={"own_slow_core_share": share})


def test_threads_sampled_on_efficiency_cores_are_found(wording):
    answer = ask(NAME, on_slow_cores(0.6))
    assert isinstance(answer, Found)
    wording(answer.because, tells="60%")
    assert answer.remedies[0].change.value == 8
    assert isinstance(ask(NAME, on_slow_cores(1.0, threads=4)), Found)


def test_threads_on_fast_cores_or_beside_others_or_at_expected_speed_are_not_found():
    assert isinstance(ask(NAME, on_slow_cores(0.02)), Absent)
    assert isinstance(ask(NAME, on_slow_cores(0.6, others=6.0)), CannotTell)
    assert isinstance(ask(NAME, on_slow_cores(0.6, speed=9.0)), Absent)


def test_threads_sampled_on_efficiency_cores_are_priced_with_performance_cores():
    finding = next(
        f for f in judge(CaseView(watched(hybrid(), host={"own_slow_core_share": 0.5}))).findings if f.cause == NAME
    )
    assert finding.fixes[0].value == 8
    assert finding.fixes[0].predicted["decode_tokens_per_s"] > 2
