from unslow.facts.machine import Gpu, Machine, Memory
from unslow.facts.merge import bound_facts
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import Absence, Unknown, told_fact


def test_a_fact_within_its_bounds_is_kept():
    runtime = Runtime().with_facts(kv_usage=told_fact(0.5, "paste:1"), threads=told_fact(8, "paste:1"))
    assert bound_facts(runtime) == runtime


def test_a_fact_outside_its_bounds_is_a_failed_look():
    runtime = bound_facts(Runtime().with_facts(kv_usage=told_fact(99.8, "paste:1"), threads=told_fact(8, "paste:1")))
    assert isinstance(runtime.cache.usage, Unknown)
    assert runtime.cache.usage.absence is Absence.FAILED
    assert "paste:1" in runtime.cache.usage.why
    assert runtime.compute.threads.need() == 8


def test_nested_facts_are_bounded():
    subject = bound_facts(Subject(runtime=Runtime().with_facts(threads=told_fact(-1, "paste:1"))))
    assert isinstance(subject.runtime.compute.threads, Unknown)
    machine = bound_facts(Machine(memory=Memory(total_bytes=told_fact(2**70, "x"))))
    assert isinstance(machine.memory.total_bytes, Unknown)


def test_a_list_with_one_invalid_number_is_unknown_as_a_whole():
    gpu = Gpu(index=0, vram_total_bytes=told_fact(-5, "x"))
    assert isinstance(bound_facts(Machine(gpus=told_fact((gpu,), "x"))).gpus, Unknown)
