"""How a model is placed on several GPUs."""

from cases import gpu_case, with_facts
from several_gpus import two_gpus

from unslow.facts.runtime import FACT_PATHS, Buffer
from unslow.facts.snapshot import Case
from unslow.facts.values import GIB, not_found, not_supported
from unslow.think.case.gpus import filled_shares
from unslow.think.case.view import CaseView


def test_gpu_shares_are_model_bytes_and_free_bytes():
    parts = CaseView(two_gpus(held=(1.0, 3.0), free=(5.0, 6.0))).gpus.shares
    assert [(p.gpu, p.model_bytes / GIB, p.free_bytes / GIB) for p in parts] == [(0, 1.0, 5.0), (1, 3.0, 6.0)]
    nameless = [Buffer(device="Metal", kind="model", bytes=GIB, on_gpu=True)]
    assert CaseView(with_facts(gpu_case(), {"runtime.memory.buffers": nameless})).gpus.shares == []
    hostile = [Buffer(device="CUDA" + "9" * 5000, kind="model", bytes=GIB, on_gpu=True)]
    assert CaseView(with_facts(gpu_case(), {"runtime.memory.buffers": hostile})).gpus.shares == []


def test_split_mode_and_tensor_parallel_say_how_tensors_are_split():
    assert CaseView(Case()).gpus.split_tensors is None
    assert CaseView(with_facts(Case(), {"runtime.placement.split_mode": "layer"})).gpus.split_tensors is False
    assert CaseView(with_facts(Case(), {"runtime.placement.tensor_parallel": 2})).gpus.split_tensors is True


def test_fast_links_come_from_the_driver_else_the_catalog():
    unasked = {f"machine.gpus.{i}.nvlinks_active": not_found("no") for i in (0, 1)}
    assert CaseView(two_gpus()).gpus.have_fast_links is False
    assert CaseView(with_facts(two_gpus(), unasked)).gpus.have_fast_links is False
    assert CaseView(with_facts(two_gpus(names=("NVIDIA A100-SXM4-80GB",) * 2), unasked)).gpus.have_fast_links is None
    assert CaseView(Case()).gpus.have_fast_links is None


def test_gpu_without_nvlink_support_has_no_fast_links():
    refused = {f"machine.gpus.{i}.nvlinks_active": not_supported("Not Supported") for i in (0, 1)}
    assert CaseView(with_facts(two_gpus(names=("an unlisted card",) * 2), refused)).gpus.have_fast_links is False


def test_fastest_gpu_is_filled_first():
    case = two_gpus(names=("NVIDIA GeForce RTX 3060", "NVIDIA GeForce RTX 4090"), held=(3.0, 1.0), free=(5.0, 2.5))
    assert [p.model_bytes / GIB for p in filled_shares(CaseView(case).gpus.shares)] == [1.0, 3.0]
    assert {b.device: b.bytes / GIB for b in CaseView(case).gpus.rebalanced_buffers} == {"CUDA0": 1.0, "CUDA1": 3.0}
    roomy = two_gpus(names=("NVIDIA GeForce RTX 3060", "NVIDIA GeForce RTX 4090"), held=(3.0, 1.0))
    assert [b.device for b in CaseView(roomy).gpus.rebalanced_buffers] == ["CUDA1"]


def test_unknown_split_follows_vram_size():
    hidden = {f"runtime.{FACT_PATHS[name]}": not_found("hidden") for name in ("buffers", "devices")}
    case = with_facts(two_gpus(), hidden | {"machine.gpus.1.vram_total_bytes": 8 * GIB})
    assert CaseView(case).gpus.weight_shares(2) == [0.75, 0.25]
    assert CaseView(with_facts(case, {"runtime.placement.tensor_parallel": 2})).gpus.weight_shares(2) == [0.5, 0.5]
    assert CaseView(with_facts(case, {"machine.gpus.1.vram_total_bytes": not_found("no")})).gpus.weight_shares(2) == [
        0.5,
        0.5,
    ]
