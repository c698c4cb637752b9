from unslow.facts.machine import Cpu, Gpu, Machine
from unslow.facts.model import Model
from unslow.facts.runtime import PastLoad, Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import Absence, estimated_fact, not_found, reported_fact, told_fact
from unslow.look.paste import merged_machine, merged_subject, merged_subjects, paired_gpus


def gpu(index: int, name: str = "", vendor: str = "") -> Gpu:
    facts = {"name": reported_fact(name, "log")} if name else {}
    return Gpu(index=index, **facts, **({"vendor": reported_fact(vendor, "log")} if vendor else {}))


def named(name: str, **facts: object) -> Subject:
    return Subject(runtime=Runtime().with_facts(name=reported_fact(name, "log"), **facts))  # type: ignore[arg-type]


def test_two_identical_gpus_described_twice_stay_two():
    first = [gpu(0, "NVIDIA GeForce RTX 3090"), gpu(1, "NVIDIA GeForce RTX 3090")]
    second = [gpu(0, "RTX 3090", "NVIDIA"), gpu(1, "RTX 3090", "NVIDIA")]
    assert [g.index for g in paired_gpus(first, second)] == [0, 1]


def test_gpus_of_different_vendors_are_not_merged():
    both = paired_gpus([gpu(0, "NVIDIA GeForce RTX 4070", "NVIDIA")], [gpu(0, "Intel(R) UHD Graphics", "Intel")])
    assert len(both) == 2


def test_an_unnamed_gpu_is_matched_by_its_index():
    assert len(paired_gpus([gpu(0, "NVIDIA H200")], [gpu(0, vendor="NVIDIA")])) == 1
    assert len(paired_gpus([gpu(0, vendor="AMD")], [gpu(0, vendor="NVIDIA")])) == 2
    assert len(paired_gpus([gpu(0, "NVIDIA H200")], [gpu(1)])) == 2


def test_laptop_and_desktop_gpus_are_matched_by_full_name():
    first = [gpu(0, "NVIDIA GeForce RTX 4060"), gpu(1, "NVIDIA GeForce RTX 4060 Laptop GPU")]
    assert (
        len(paired_gpus(first, [gpu(1, "NVIDIA GeForce RTX 4060 Laptop GPU"), gpu(0, "NVIDIA GeForce RTX 4060")])) == 2
    )


def test_an_unknown_fact_does_not_replace_a_known_one():
    known = Machine(cpu=Cpu(logical_cpus=reported_fact(16, "a")), gpus=reported_fact((gpu(0, "H200"),), "a"))
    machine = merged_machine([known, Machine(cpu=Cpu(logical_cpus=not_found("no")), gpus=not_found("no"))])
    assert machine.cpu.logical_cpus.need() == 16
    assert len(machine.gpus.need()) == 1


def test_a_wrapper_keeps_its_name_and_gets_facts_of_llama_cpp():
    outer = named("Ollama", version=reported_fact("0.30.1", "a"), gpu_layers=estimated_fact(30, "a"))
    inner = named("llama.cpp", version=reported_fact("b9000-abc", "b"), gpu_layers=reported_fact(20, "b"))
    for order in ([outer, inner], [inner, outer]):
        [subject] = merged_subjects(order)
        assert subject.runtime.name.need() == "Ollama"
        assert subject.runtime.version.need() == "0.30.1"
        assert subject.runtime.placement.gpu_layers.need() == 20


def test_unrelated_runtimes_are_two_subjects():
    names = [s.runtime.name.need() for s in merged_subjects([named("vLLM"), named("llama.cpp")])]
    assert names == ["vLLM", "llama.cpp"]


def test_facts_without_a_runtime_belong_to_the_first_subject():
    nameless = Subject(model=Model(name=reported_fact("qwen", "a")))
    [subject] = merged_subjects([nameless, named("vLLM")])
    assert (subject.runtime.name.need(), subject.model.name.need()) == ("vLLM", "qwen")
    [alone] = merged_subjects([nameless])
    assert alone.runtime.name.absence is Absence.NOT_LOOKED
    assert merged_subjects([Subject()]) == ()


def test_the_better_origin_wins_in_any_order():
    shown, said = Model(quant=reported_fact("Q4_K_M", "log")), Model(quant=told_fact("Q8_0", "words"))
    assert merged_subject(Subject(model=shown), Subject(model=said)).model.quant.need() == "Q4_K_M"
    assert merged_subject(Subject(model=said), Subject(model=shown)).model.quant.need() == "Q4_K_M"


def test_warnings_are_joined_and_the_longer_history_is_kept():
    load = PastLoad(source="a:1")
    one = named("x", warnings=reported_fact(["a"], "a"), loads=reported_fact([load], "a"))
    two = named("x", warnings=reported_fact(["b", "a"], "b"), loads=reported_fact([load, load], "b"))
    [subject] = merged_subjects([two, one])
    assert subject.runtime.history.warnings.need() == ["b", "a"]
    assert len(subject.runtime.history.loads.need()) == 2
