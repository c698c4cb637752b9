import pytest
from cases import cpu_case, gpu_case, r, with_facts, without

from unslow.facts.machine import BusyProcess
from unslow.facts.snapshot import Case
from unslow.think.case.speed import Prediction
from unslow.think.case.view import CaseView


def test_one_waiting_thread_stalls_all_threads():
    case = with_facts(cpu_case(), {"run.waiting_for_cpu_s_per_token": 1.0})
    assert CaseView(case).host.stalled_share(token_s=1.0) == pytest.approx(0.75)


def test_single_thread_stalls_for_its_own_wait():
    case = with_facts(gpu_case(), {"runtime.compute.threads": 1, "run.waiting_for_cpu_s_per_token": 0.001})
    assert CaseView(case).host.stalled_share(token_s=0.01) == pytest.approx(0.1)


def test_waiting_time_is_limited_to_the_unexplained_time():
    case = with_facts(cpu_case(), {"run.waiting_for_cpu_s_per_token": 10.0})
    prediction = CaseView(case).speed.predict()
    assert isinstance(prediction, Prediction)
    assert CaseView(case).host.waiting_s(prediction.seconds.mid, prediction) == 0
    assert CaseView(case).host.waiting_s(1.0, prediction) == pytest.approx(1.0 - prediction.seconds.mid)
    assert CaseView(case).host.waiting_s(1.0, None) == pytest.approx(1.0)


def test_unmeasured_waiting_is_zero():
    assert CaseView(gpu_case().__class__()).host.stalled_share(1.0) == 0


def behind_a_proxy(*busiest: tuple[str, float]) -> Case:
    processes = [BusyProcess(pid=90 + n, name=name, cpus=cpus) for n, (name, cpus) in enumerate(busiest)]
    used = sum(cpus for _, cpus in busiest)
    case = without(cpu_case(), "runtime.process.pid")
    return with_facts(case, {"run.others_cpus": used, "run.busiest_others": r(processes)})


def test_server_behind_a_proxy_is_not_another_process():
    seen = CaseView(behind_a_proxy(("stress", 1.2), ("llama-server", 0.7))).host.other_processes
    assert seen.cpus == pytest.approx(1.2)
    assert [p.name for p in seen.processes] == ["stress"]
    assert seen.perhaps_own.name == "llama-server"


def test_busiest_process_may_be_the_unnamed_server():
    seen = CaseView(behind_a_proxy(("python3", 1.5), ("node", 0.2))).host.other_processes
    assert seen.perhaps_own.name == "python3"
    assert seen.cpus == pytest.approx(0.2)


def test_known_pid_makes_all_other_processes_foreign():
    case = with_facts(behind_a_proxy(("llama-server", 1.5)), {"runtime.process.pid": 10})
    assert CaseView(case).host.other_processes.cpus == 1.5
    assert CaseView(without(case, "run.others_cpus")).host.other_processes is None
