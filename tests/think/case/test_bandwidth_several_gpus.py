"""How a model lies on several GPUs."""

from cases import gpu_case, with_facts
from several_gpus import two_gpus

from unslow.facts.runtime import Buffer
from unslow.facts.snapshot import Case
from unslow.facts.values import GIB, not_found, not_supported
from unslow.think.case.bandwidth import filled_shares, gpu_shares, has_fast_links, shares_of, split_anew, splits_tensors


def test_what_each_holds():
    parts = gpu_shares(two_gpus(held=(1.0, 3.0), free=(5.0, 6.0)))
    assert [(p.gpu, p.model_bytes / GIB, p.free_bytes / GIB) for p in parts] == [(0, 1.0, 5.0), (1, 3.0, 6.0)]
    nameless = [Buffer(device="Metal", kind="model", bytes=GIB, on_gpu=True)]
    assert gpu_shares(with_facts(gpu_case(), {"runtime.buffers": nameless})) == []
    hostile = [Buffer(device="CUDA" + "9" * 5000, kind="model", bytes=GIB, on_gpu=True)]
    assert gpu_shares(with_facts(gpu_case(), {"runtime.buffers": hostile})) == []


def test_which_way_it_is_split():
    assert splits_tensors(Case()) is None
    assert splits_tensors(with_facts(Case(), {"runtime.split_mode": "layer"})) is False
    assert splits_tensors(with_facts(Case(), {"runtime.tensor_parallel": 2})) is True


def test_links_by_the_driver_else_by_the_catalogue():
    unasked = {f"machine.gpus.{i}.nvlinks_active": not_found("no") for i in (0, 1)}
    assert has_fast_links(two_gpus()) is False
    assert has_fast_links(with_facts(two_gpus(), unasked)) is False
    assert has_fast_links(with_facts(two_gpus(names=("NVIDIA A100-SXM4-80GB",) * 2), unasked)) is None
    assert has_fast_links(Case()) is None


def test_a_card_without_the_connector():
    refused = {f"machine.gpus.{i}.nvlinks_active": not_supported("Not Supported") for i in (0, 1)}
    assert has_fast_links(with_facts(two_gpus(names=("an unlisted card",) * 2), refused)) is False


def test_the_fastest_filled_first():
    case = two_gpus(names=("NVIDIA GeForce RTX 3060", "NVIDIA GeForce RTX 4090"), held=(3.0, 1.0), free=(5.0, 2.5))
    assert [p.model_bytes / GIB for p in filled_shares(gpu_shares(case))] == [1.0, 3.0]
    assert {b.device: b.bytes / GIB for b in split_anew(case)} == {"CUDA0": 1.0, "CUDA1": 3.0}
    roomy = two_gpus(names=("NVIDIA GeForce RTX 3060", "NVIDIA GeForce RTX 4090"), held=(3.0, 1.0))
    assert [b.device for b in split_anew(roomy)] == ["CUDA1"]


def test_a_split_that_nobody_saw_follows_the_memory():
    hidden = {f"runtime.{name}": not_found("hidden") for name in ("buffers", "devices")}
    case = with_facts(two_gpus(), hidden | {"machine.gpus.1.vram_total_bytes": 8 * GIB})
    assert shares_of(case, 2) == [0.75, 0.25]
    assert shares_of(with_facts(case, {"runtime.tensor_parallel": 2}), 2) == [0.5, 0.5]
    assert shares_of(with_facts(case, {"machine.gpus.1.vram_total_bytes": not_found("no")}), 2) == [0.5, 0.5]
