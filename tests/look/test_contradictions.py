"""Contradictions between requested, reported, decided, allocated and observed values."""

from pathlib import Path

import pytest

from unslow.commands.diagnose.target import read_stored
from unslow.facts.machine import Cpu, Gpu, GpuProcess, Machine
from unslow.facts.model import Model
from unslow.facts.runtime import Buffer, Runtime, SeenDevice
from unslow.facts.values import MIB, estimated_fact, reported_fact
from unslow.look.contradictions import added_contradictions, contradictions

MACHINES = Path(__file__).parents[1] / "machines"
HEALTHY = sorted(p for p in MACHINES.glob("*healthy*") if p.is_dir())


def runtime(source: str, **facts) -> Runtime:
    return Runtime().with_facts(**{name: reported_fact(value, source) for name, value in facts.items()})


def found(asked: dict, decided: dict, model: Model | None = None, machine: Machine | None = None):
    sources = [("asked for", runtime("argv", **asked)), ("decided", runtime("log:1", **decided))]
    return {c.about: c for c in contradictions(sources, model or Model(), machine or Machine())}


def weights(on_gpu: int, on_host: int) -> list[Buffer]:
    return [
        Buffer(device="CUDA0", kind="model", bytes=on_gpu, on_gpu=True),
        Buffer(device="CPU_Mapped", kind="model", bytes=on_host, on_gpu=False),
    ]


@pytest.mark.parametrize(
    ("about", "asked", "decided"),
    [
        ("context_length", {"context_set": 32768}, {"context_length": 4096, "slots": 1}),
        ("gpu_layers", {"gpu_layers_set": 65}, {"gpu_layers": 54, "layers": 65}),
        ("gpu_layers", {"gpu_layers_set": 99}, {"gpu_refused": "no CUDA-capable device"}),
        ("kv_type_k", {"kv_type_k": "q8_0"}, {"kv_type_k": "f16"}),
        ("flash_attention", {"flash_attention": True}, {"flash_attention": False}),
        ("slots", {"slots": 8}, {"slots": 1}),
        ("threads", {"threads": 8}, {"threads": 4}),
        ("load_mode", {"load_mode": "mmap"}, {"load_mode": "none"}),
        ("device_used", {"device_set": "CUDA1"}, {"buffers": weights(100, 10)}),
        ("device_used", {"device_set": "none"}, {"buffers": weights(100, 10)}),
        ("buffers", {}, {"gpu_layers": 33, "layers": 33, "buffers": weights(MIB, 4000 * MIB)}),
        ("buffers", {}, {"gpu_layers": 0, "layers": 33, "buffers": weights(4000 * MIB, MIB)}),
    ],
)
def test_incompatible_values_are_a_contradiction(about, asked, decided):
    result = found(asked, decided)
    assert list(result) == [about]
    assert len({statement.source for statement in result[about].statements}) >= (1 if about == "buffers" else 2)


@pytest.mark.parametrize(
    ("asked", "decided"),
    [
        ({"context_set": 8100}, {"context_length": 8192, "slots": 1}),
        ({"context_set": 8192}, {"context_length": 8192, "slots": 4, "context_per_slot": 2048}),
        ({"context_set": 4096}, {"context_length": 16384, "slots": 4}),
        ({"gpu_layers_set": 99}, {"gpu_layers": 33, "layers": 33}),
        ({"gpu_layers_set": 9999}, {"gpu_layers": 33, "layers": 33}),
        ({"gpu_layers_set": 20}, {"gpu_layers": 20, "layers": 33}),
        ({"gpu_layers_set": 0}, {"gpu_refused": "none"}),
        ({"load_mode": "auto"}, {"load_mode": "mmap"}),
        ({"device_set": "CUDA0"}, {"buffers": weights(100, 10)}),
        ({"tensor_overrides": ["exps=CPU"]}, {"gpu_layers": 49, "layers": 49, "buffers": weights(MIB, 900 * MIB)}),
        ({}, {"gpu_layers": 49, "layers": 49, "overflowing_layers": 30, "buffers": weights(MIB, 900 * MIB)}),
        ({}, {}),
    ],
)
def test_compatible_values_are_not_a_contradiction(asked, decided):
    assert found(asked, decided) == {}


def test_a_default_does_not_contradict():
    asked = Runtime().with_facts(kv_type_k=estimated_fact("f16", "default"), slots=estimated_fact(4, "default"))
    decided = runtime("log", kv_type_k="q8_0", slots=1)
    assert contradictions([("asked for", asked), ("decided", decided)], Model(), Machine()) == ()


def gpu(used: int, held: int | None = None, pid: int = 7) -> Machine:
    processes = [] if held is None else [GpuProcess(pid=pid, vram_bytes=reported_fact(held, "nvml"))]
    card = Gpu(index=0, vram_used_bytes=reported_fact(used, "nvml"), processes=reported_fact(processes, "nvml"))
    return Machine(gpus=reported_fact((card,), "nvml"))


@pytest.mark.parametrize(
    ("machine", "told"),
    [
        (gpu(9000 * MIB, 4200 * MIB), False),
        (gpu(9000 * MIB, 1000 * MIB), True),
        (gpu(9000 * MIB), False),  # the process is in a container: its number is another there
        (gpu(1000 * MIB), True),
        (Machine(), False),
    ],
)
def test_planned_bytes_are_compared_with_those_on_the_device(machine, told):
    plan = {"pid": 7, "buffers": weights(4000 * MIB, 100 * MIB)}
    assert ("vram" in found({}, plan, machine=machine)) is told
    size = {"pid": 7, "size_vram_bytes": 4000 * MIB}
    assert ("vram" in found({}, size, machine=machine)) is told
    assert found({}, {**plan, "state": "asleep"}, machine=machine) == {}


def test_threads_are_compared_with_the_allowed_cpus():
    machine = Machine(cpu=Cpu(allowed_cpus=reported_fact(4, "cgroup")))
    assert list(found({}, {"threads": 16}, machine=machine)) == ["threads"]
    assert found({}, {"threads": 4}, machine=machine) == {}


def test_each_statement_names_its_kind_of_source(wording):
    told = found({"kv_type_k": "q8_0"}, {"kv_type_k": "f16"})["kv_type_k"]
    assert [statement.source for statement in told.statements] == ["argv", "log:1"]
    wording((statement.says for statement in told.statements), tells=("asked for: ", "q8_0", "decided: ", "f16"))
    assert told.meaning


def test_a_contradiction_is_not_added_twice():
    twice = contradictions([("a", runtime("a", slots=1)), ("b", runtime("b", slots=2))], Model(), Machine())
    assert added_contradictions(twice, twice) == twice


@pytest.mark.parametrize("folder", HEALTHY, ids=lambda p: p.name)
def test_a_healthy_machine_has_no_contradictions(folder):
    subjects = read_stored(str(folder)).subjects
    assert subjects
    assert not any(subject.contradictions for subject in subjects)


def test_buffers_on_a_gpu_that_the_driver_does_not_list_are_no_contradiction():
    card = Gpu(
        index=0, name=reported_fact("NVIDIA GeForce RTX 4060", "smi"), vram_used_bytes=reported_fact(12 * MIB, "smi")
    )
    machine = Machine(gpus=reported_fact((card,), "smi"))
    held = {
        "buffers": [Buffer(device="Vulkan0", kind="model", bytes=4000 * MIB, on_gpu=True)],
        "devices": [SeenDevice(name="Vulkan0", description="Intel(R) Iris(R) Xe Graphics")],
    }
    assert "vram" not in found({}, held, machine=machine)
    own = held | {"devices": [SeenDevice(name="Vulkan0", description="NVIDIA GeForce RTX 4060 (NVIDIA)")]}
    assert "vram" in found({}, own, machine=machine)
