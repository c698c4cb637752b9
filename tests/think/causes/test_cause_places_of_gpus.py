"""Facts of a GPU are read and cited where it stands in the machine's list, whatever stands before it."""

import msgspec
import pytest
from answers import ask
from cases import gpu_case, r, with_facts
from seen_live import stat
from several_gpus import two_gpus

from unslow.facts.machine import Gpu, GpuProcess
from unslow.facts.run import GpuTelemetry, GpuUnderLoad, PhaseTelemetry, SamplerCost, Telemetry
from unslow.facts.runtime import SeenDevice
from unslow.facts.snapshot import Case, Snapshot, Subject
from unslow.facts.values import GIB, not_found
from unslow.think.case.view import CaseView
from unslow.think.causes import all_causes
from unslow.think.causes._cause import Absent, Found
from unslow.think.judge.judge import judge
from unslow.think.judge.phases import outlook
from unslow.think.judge.pricing import found_parts

CHIP = Gpu(index=0, vendor=r("AMD"), name=r("AMD Radeon Graphics"), kind=r("integrated"), bus_id=r("0000:0c:00.0"))
SHARED = "gpu_shared_with_other_work"


def behind(case: Case) -> Case:
    """The case with the processor's own GPU first in the list, under a number that the first card has as well."""
    return with_facts(case, {"machine.gpus": (CHIP, *case.machine.gpus.need())})


def cited(case: Case, cause: str) -> set[str]:
    answer = all_causes()[cause].check(CaseView(case))
    assert isinstance(answer, Found)
    return {evidence.fact for evidence in answer.evidence if evidence.fact.startswith("machine.gpus.")}


def test_a_card_held_at_low_clocks():
    now = {"busy": 0.95, "clock_hz": 0.4e9, "clock_max_hz": 2.5e9, "power_w": 90.0, "power_limit_w": 450.0,
           "temperature_c": 50.0, "event_reasons": []}  # fmt: skip
    case = with_facts(gpu_case(), {f"machine.gpus.0.{name}": value for name, value in now.items()})
    case = behind(with_facts(case, {"run.decode_tokens_per_s": 25.0}))
    assert [gpu.place for gpu in CaseView(case).telemetry.loaded_gpus] == ["machine.gpus.1"]
    assert all(path.startswith("machine.gpus.1.") for path in cited(case, "gpu_held_at_low_clocks"))


def test_memory_that_the_driver_lends():
    case = with_facts(gpu_case(free_gib=0.2), {"machine.gpus.0.shared_used_bytes": 6 * GIB})
    case = behind(with_facts(case, {"machine.system.name": "Windows 11"}))
    assert cited(case, "driver_spills_to_shared_memory") == {"machine.gpus.1.shared_used_bytes"}


def test_a_split():
    parallel = {"runtime.placement.tensor_parallel": 2, "run.decode_tokens_per_s": 25.0}
    assert cited(behind(two_gpus(**parallel)), "fits_on_one_gpu") == {"machine.gpus.1.vram_total_bytes"}
    unlike = ("NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 3060")
    uneven = two_gpus(names=unlike, held=(1.0, 3.6), free=(21.0, 8.0), **{"runtime.placement.split_mode": "layer"})
    assert cited(behind(uneven), "uneven_split") == {"machine.gpus.1.vram_free_bytes"}


def test_a_card_that_the_runtime_does_not_list():
    case = with_facts(
        gpu_case(0), {"runtime.placement.devices": [SeenDevice(name="CPU")], "runtime.memory.buffers": not_found("no")}
    )
    case = behind(with_facts(case, {"runtime.placement.gpu_layers": not_found("no"), "machine.gpus.0.processes": []}))
    assert "machine.gpus.1.name" in cited(case, "gpu_backend_not_loaded")


def test_a_snapshot_in_whatever_order_asks_for_the_facts_of_the_card():
    others = [GpuProcess(pid=10, vram_bytes=r(3 * GIB)), GpuProcess(pid=77, name=r("game"), vram_bytes=r(17 * GIB))]
    case = with_facts(gpu_case(20, free_gib=2.0), {"machine.gpus.0.processes": others})
    case = with_facts(case, {"run.decode_tokens_per_s": 20.0, "machine.gpus.0.kind": "discrete"})
    subject = Subject(runtime=case.runtime, model=case.model, run=case.run)
    (sorted_case,) = Snapshot(unslow_version="test", machine=behind(case).machine, subjects=(subject,)).cases()
    assert [f.cause for f in judge(CaseView(sorted_case)).findings] == [f.cause for f in judge(CaseView(case)).findings]
    assert CaseView(sorted_case).fact("machine.gpus.0.processes") == r(others)


def beside_training(*, busy: float, others: float | None = None, index: int = 1) -> Case:
    """The model on one GPU, with a desktop on it, and somebody's training on another, all of it watched."""
    (card,) = gpu_case().machine.gpus.need()
    own = [GpuProcess(pid=10, name=r("llama-server")), GpuProcess(pid=5, name=r("Xorg"))]
    training = [GpuProcess(pid=99, name=r("train.py"), vram_bytes=r(20 * GIB))]
    gpus = (
        msgspec.structs.replace(card, processes=r(own)),
        msgspec.structs.replace(card, index=index, name=r("NVIDIA GeForce RTX 3090"), processes=r(training)),
    )
    samples = (
        GpuUnderLoad(index=index, samples=20, busy=r(1.0), memory_busy=r(1.0), others_busy=r(1.0)),
        GpuUnderLoad(index=0, samples=20, busy=r(busy), others_busy=r(others) if others is not None else not_found("")),
    )
    facts = {"machine.gpus": gpus, "run.gpus": samples, "run.decode_tokens_per_s": 40.0}
    return with_facts(gpu_case(), facts)


def test_another_gpu_that_is_busy_is_no_evidence():
    answer = ask(SHARED, beside_training(busy=0.4))
    assert isinstance(answer, Absent)
    assert "40% busy" in answer.because
    assert isinstance(ask(SHARED, beside_training(busy=1.0, others=0.0)), Absent)


def test_the_gpu_in_use_is_cited():
    case = beside_training(busy=1.0, others=0.5)
    answer = ask(SHARED, case)
    assert isinstance(answer, Found)
    assert "Xorg" in answer.because
    facts = {evidence.fact: evidence.value for evidence in answer.evidence}
    assert (facts["run.gpus.1.busy"], facts["run.gpus.1.others_busy"]) == (1.0, 0.5)
    pace = outlook(CaseView(case), None).decode
    assert found_parts(CaseView(case), {SHARED}, pace)[SHARED][1] == pytest.approx(
        pace.measured_s - pace.now.seconds.mid
    )


def test_two_makers_count_from_nought():
    case = behind(gpu_case())
    case = with_facts(case, {"machine.gpus.1.bus_id": "0000:01:00.0"})
    watched = (GpuTelemetry(index=0, name="NVIDIA GeForce RTX 4090", figures={"busy": stat(0.9)}),
               GpuTelemetry(index=0, name="0000:0c:00.0", figures={"busy": stat(0.99)}))  # fmt: skip
    cost = SamplerCost(seconds_per_sample=1e-4, slowest_sample_s=1e-3, cpus=0.01)
    phase = PhaseTelemetry(phase="decode", seconds=3.0, samples=30, gpus=watched)
    telemetry = Telemetry(seconds=3.0, samples=30, asked_hz=10.0, got_hz=10.0, cost=cost, phases=(phase,))
    samples = tuple(GpuUnderLoad(index=0, samples=30, busy=r(busy)) for busy in (0.9, 0.99))
    case = with_facts(case, {"run.telemetry": telemetry, "run.gpus": samples})
    assert [(place, gpu.busy.need()) for place, gpu in CaseView(case).telemetry.gpu_samples] == [(0, 0.9)]
    assert [gpu.at for gpu in CaseView(case).telemetry.loaded_gpus] == ["run.gpus.0"]
    assert CaseView(case).telemetry.gpu_figure("busy").mean == 0.9
    assert len(CaseView(with_facts(case, {"machine.gpus": not_found("no driver")})).telemetry.gpu_samples) == 2


def test_a_runtime_without_a_gpu_has_none_at_work():
    case = with_facts(
        gpu_case(0), {"machine.gpus.0.busy": 1.0, "runtime.memory.buffers": [], "machine.gpus.0.processes": []}
    )
    case = with_facts(
        case, {"runtime.placement.gpu_layers": not_found("no"), "runtime.placement.devices": [SeenDevice(name="CPU")]}
    )
    assert CaseView(case).telemetry.loaded_gpus == []
