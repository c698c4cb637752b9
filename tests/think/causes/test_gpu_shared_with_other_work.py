from answers import ask
from cases import gpu_case, r, with_facts

from unslow.facts.machine import GpuProcess
from unslow.facts.run import GpuUnderLoad
from unslow.facts.units import GIB
from unslow.think.causes._cause import Absent
from unslow.think.judge import judge

NAME = "gpu_shared_with_other_work"
OWN = GpuProcess(pid=10, name=r("llama-server"), vram_bytes=r(5 * GIB))
OTHER = GpuProcess(pid=77, name=r("python3"), vram_bytes=r(GIB))


def shared(tokens_per_s: float = 25.0, busy: float = 1.0):
    under_load = (GpuUnderLoad(index=0, samples=30, busy=r(busy), event_reasons=r(["sw_power_cap"])),)
    facts = {"machine.gpus.0.processes": [OWN, OTHER], "run.gpus": under_load, "run.decode_tokens_per_s": tokens_per_s}
    return with_facts(gpu_case(), facts)


fires = shared


def test_a_stranger_at_work_on_a_busy_gpu():
    report = judge(shared())
    assert report.findings[0].cause == NAME
    assert "python3 (pid 77)" in report.findings[0].because
    assert report.findings[0].speedup > 3


def test_an_idle_stranger_that_only_holds_memory():
    assert isinstance(ask(NAME, shared(tokens_per_s=130.0)), Absent)


def test_a_gpu_that_nobody_keeps_busy():
    assert isinstance(ask(NAME, shared(busy=0.2)), Absent)


def test_the_runtime_is_alone():
    assert isinstance(ask(NAME, with_facts(shared(), {"machine.gpus.0.processes": [OWN]})), Absent)


def test_a_hot_gpu_is_another_matter():
    hot = (GpuUnderLoad(index=0, samples=30, busy=r(1.0), event_reasons=r(["hw_thermal_slowdown"])),)
    assert isinstance(ask(NAME, with_facts(shared(), {"run.gpus": hot})), Absent)
