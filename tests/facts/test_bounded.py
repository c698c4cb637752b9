from unslow.facts.machine import Gpu, Machine, Memory
from unslow.facts.merge import bounded
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import Absence, Unknown, told


def test_a_fact_within_its_bounds_stays():
    runtime = Runtime(kv_usage=told(0.5, "paste:1"), threads=told(8, "paste:1"))
    assert bounded(runtime) == runtime


def test_a_fact_outside_its_bounds_says_so():
    runtime = bounded(Runtime(kv_usage=told(99.8, "paste:1"), threads=told(8, "paste:1")))
    assert isinstance(runtime.kv_usage, Unknown)
    assert runtime.kv_usage.absence is Absence.FAILED
    assert "paste:1" in runtime.kv_usage.why
    assert runtime.threads.need() == 8


def test_facts_within_facts():
    subject = bounded(Subject(runtime=Runtime(threads=told(-1, "paste:1"))))
    assert isinstance(subject.runtime.threads, Unknown)
    machine = bounded(Machine(memory=Memory(total_bytes=told(2**70, "x"))))
    assert isinstance(machine.memory.total_bytes, Unknown)


def test_a_list_with_one_false_number_fails_as_a_whole():
    gpu = Gpu(index=0, vram_total_bytes=told(-5, "x"))
    assert isinstance(bounded(Machine(gpus=told((gpu,), "x"))).gpus, Unknown)
