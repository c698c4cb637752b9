from answers import ask
from cases import gpu_case, r, with_facts, without
from seen_live import watched
from watched import traffic

from unslow.facts.machine import GpuProcess
from unslow.facts.run import GpuUnderLoad
from unslow.facts.values import GIB
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, CannotTell, Found, Suspected
from unslow.think.judge.judge import judge

NAME = "gpu_shared_with_other_work"
OWN = GpuProcess(pid=10, name=r("llama-server"), vram_bytes=r(5 * GIB))
OTHER = GpuProcess(pid=77, name=r("python3"), vram_bytes=r(GIB))


def shared(tokens_per_s: float = 25.0, busy: float = 1.0):
    under_load = (GpuUnderLoad(index=0, samples=30, busy=r(busy), event_reasons=r(["sw_power_cap"])),)
    facts = {"machine.gpus.0.processes": [OWN, OTHER], "run.gpus": under_load, "run.decode_tokens_per_s": tokens_per_s}
    return with_facts(gpu_case(), facts)


fires = shared


def test_other_process_on_a_busy_gpu_is_found(wording):
    report = judge(CaseView(shared()))
    assert report.findings[0].cause == NAME
    wording(report.findings[0].because, tells="python3 (pid 77)")
    assert report.findings[0].speedup > 3


def test_a_request_that_was_watched_among_others_has_a_speed_too(wording):
    seen = traffic(16.0, 0.0, each_tokens_per_s=r(12.0), each_among=16.0)
    case = with_facts(without(shared(), "run.decode_tokens_per_s"), {"run.traffic": seen})
    third = GpuProcess(pid=78, name=r("ffmpeg"), vram_bytes=r(GIB // 2))
    found = ask(NAME, with_facts(case, {"machine.gpus.0.processes": [OWN, OTHER, third]}))
    assert isinstance(found, Found)
    wording(found.because, tells="one of 2 other processes")


def test_other_process_at_expected_speed_is_ruled_out():
    assert isinstance(ask(NAME, shared(tokens_per_s=130.0)), Absent)


def test_gpu_idle_between_requests_rules_out_other_processes():
    rests = {"machine.gpus.0.busy": 0.02, "runtime.scheduling.busy_slots": 0}
    assert isinstance(ask(NAME, with_facts(shared(), rests)), Absent)
    assert isinstance(ask(NAME, with_facts(shared(), {**rests, "machine.gpus.0.busy": 0.98})), Found)


def test_other_process_is_only_suspected_where_low_clocks_explain_the_speed():
    slow = (GpuUnderLoad(index=0, samples=30, busy=r(1.0), clock_hz=r(0.6e9), event_reasons=r([])),)
    answer = ask(NAME, with_facts(shared(), {"run.gpus": slow, "machine.gpus.0.clock_max_hz": 3.1e9}))
    assert isinstance(answer, Suspected | CannotTell)


def test_gpu_that_is_not_busy_is_ruled_out():
    assert isinstance(ask(NAME, shared(busy=0.2)), Absent)


def test_runtime_alone_on_the_gpu_is_ruled_out():
    assert isinstance(ask(NAME, with_facts(shared(), {"machine.gpus.0.processes": [OWN]})), Absent)


def test_thermally_throttled_gpu_is_ruled_out():
    hot = (GpuUnderLoad(index=0, samples=30, busy=r(1.0), event_reasons=r(["hw_thermal_slowdown"])),)
    assert isinstance(ask(NAME, with_facts(shared(), {"run.gpus": hot})), Absent)


def test_gpu_busy_between_requests_is_found_without_a_listed_process(wording):
    alone = watched(with_facts(shared(), {"machine.gpus.0.processes": [OWN]}), gpu={"busy": 1.0})
    answer = ask(NAME, watched(alone, phase="idle", gpu={"busy": 0.98}))
    assert isinstance(answer, Found)
    wording(answer.because, tells="98%")


def test_gpu_idle_between_requests_is_ruled_out():
    alone = watched(with_facts(shared(), {"machine.gpus.0.processes": [OWN]}), gpu={"busy": 1.0})
    assert isinstance(ask(NAME, watched(alone, phase="idle", gpu={"busy": 0.02})), Absent)


def test_busy_pause_without_a_finished_request_is_not_found():
    alone = with_facts(shared(), {"machine.gpus.0.processes": [OWN]})
    assert isinstance(ask(NAME, watched(alone, phase="idle", gpu={"busy": 0.98})), Absent)


def counted(others: float):
    """The shared GPU, on a driver that counts the work of each process."""
    gpu = GpuUnderLoad(index=0, samples=30, busy=r(1.0), event_reasons=r([]), others_busy=r(others))
    return with_facts(shared(), {"run.gpus": (gpu,)})


def test_counted_work_of_the_other_process_is_cited():
    answer = ask(NAME, counted(0.55))
    assert isinstance(answer, Found)
    assert {e.fact: e.value for e in answer.evidence}["run.gpus.0.others_busy"] == 0.55


def test_other_process_without_counted_work_is_ruled_out():
    assert isinstance(ask(NAME, counted(0.0)), Absent)
