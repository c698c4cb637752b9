import pytest
from cases import cpu_case, gpu_case, r, with_facts, without

from unslow.facts.machine import BusyProcess
from unslow.facts.snapshot import Case
from unslow.think.case.prediction import Prediction, predict
from unslow.think.case.waits import other_processes, stalled_share, threads_exceed_cpus, waiting_s


def test_one_waiting_thread_stops_all():
    case = with_facts(cpu_case(), {"run.waiting_for_cpu_s_per_token": 1.0})
    assert stalled_share(case, token_s=1.0) == pytest.approx(0.75)


def test_a_single_thread_waits_as_long_as_it_waits():
    case = with_facts(gpu_case(), {"runtime.threads": 1, "run.waiting_for_cpu_s_per_token": 0.001})
    assert stalled_share(case, token_s=0.01) == pytest.approx(0.1)


def test_no_more_is_blamed_on_waiting_than_is_unexplained():
    case = with_facts(cpu_case(), {"run.waiting_for_cpu_s_per_token": 10.0})
    prediction = predict(case)
    assert isinstance(prediction, Prediction)
    assert waiting_s(case, prediction.seconds.mid, prediction) == 0
    assert waiting_s(case, 1.0, prediction) == pytest.approx(1.0 - prediction.seconds.mid)
    assert waiting_s(case, 1.0, None) == pytest.approx(1.0)


def test_nobody_counted():
    assert stalled_share(gpu_case().__class__(), 1.0) == 0


def test_own_threads_can_be_the_crowd():
    assert threads_exceed_cpus(with_facts(cpu_case(), {"runtime.threads": 16}))
    assert not threads_exceed_cpus(cpu_case())


def behind_a_proxy(*busiest: tuple[str, float]) -> Case:
    processes = [BusyProcess(pid=90 + n, name=name, cpus=cpus) for n, (name, cpus) in enumerate(busiest)]
    used = sum(cpus for _, cpus in busiest)
    case = without(cpu_case(), "runtime.pid")
    return with_facts(case, {"run.others_cpus": used, "run.busiest_others": r(processes)})


def test_the_server_behind_a_proxy_is_no_stranger():
    seen = other_processes(behind_a_proxy(("stress", 1.2), ("llama-server", 0.7)))
    assert seen.cpus == pytest.approx(1.2)
    assert [p.name for p in seen.processes] == ["stress"]
    assert seen.perhaps_own.name == "llama-server"


def test_without_its_name_the_busiest_may_be_it():
    seen = other_processes(behind_a_proxy(("python3", 1.5), ("node", 0.2)))
    assert seen.perhaps_own.name == "python3"
    assert seen.cpus == pytest.approx(0.2)


def test_all_are_strangers_where_its_own_process_is_known():
    case = with_facts(behind_a_proxy(("llama-server", 1.5)), {"runtime.pid": 10})
    assert other_processes(case).cpus == 1.5
    assert other_processes(without(case, "run.others_cpus")) is None
