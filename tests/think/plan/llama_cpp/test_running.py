"""A running server as the search sees it: its settings, its layers, and the knobs that a user set."""

from typing import Any

import pytest
from tests.think.plan.llama_cpp import planning

from unslow.facts.machine import Cpu, Machine
from unslow.facts.model import Model
from unslow.facts.runtime import Buffer, Runtime
from unslow.facts.snapshot import Case
from unslow.facts.values import estimated_fact, reported_fact
from unslow.think.case.view import CaseView
from unslow.think.plan.llama_cpp.pieces import Pieces
from unslow.think.plan.llama_cpp.running import (
    RunningServer,
    context_of,
    current_of,
    hindered_by_threads,
    now_of,
    settings_of,
    slots_of,
)

DENSE = Pieces(planning.blueprint())
SPARSE = Pieces(planning.blueprint("qwen3-30b-a3b"))
CORES = 8


def case(name: str = "llama.cpp", **facts: Any) -> Case:
    known = {key: reported_fact(value, "test") for key, value in facts.items()}
    experts = reported_fact(128, "test")
    cpu = Cpu(physical_cores=reported_fact(CORES, "test"), logical_cpus=reported_fact(CORES, "test"))
    model = Model(layers=reported_fact(30, "test"), experts=experts)
    return Case(
        runtime=Runtime().with_facts(name=reported_fact(name, "test"), **known), model=model, machine=Machine(cpu=cpu)
    )


def seen(one: Case, pieces: Pieces = DENSE, *, on_gpus: bool = True) -> RunningServer:
    return RunningServer(CaseView(one), pieces, CORES, on_gpus)


def knobs(one: RunningServer, told: dict[str, str] | None = None) -> dict[str, object]:
    return {change.knob: change.value for change in now_of(one, told or {})}


def test_unified_cache_gives_each_slot_the_whole_context() -> None:
    shared = case(context_length=8192, context_per_slot=8192, slots=4, kv_unified=True)
    assert (context_of(CaseView(shared)), slots_of(CaseView(shared)), settings_of(CaseView(shared)).context) == (
        8192,
        1,
        8192,
    )
    apart = case(context_length=8192, slots=4, kv_unified=False)
    assert (context_of(CaseView(apart)), slots_of(CaseView(apart)), settings_of(CaseView(apart)).slot_context) == (
        2048,
        4,
        2048,
    )


def test_ollama_context_is_per_slot() -> None:
    one = case("Ollama", context_per_slot=4096, slots=2)
    name, slots = reported_fact("Ollama", "test"), reported_fact(2, "test")
    one_alone = Case(runtime=Runtime().with_facts(name=name, context_length=estimated_fact(4096, "ps"), slots=slots))
    for each in (one, one_alone):
        assert (context_of(CaseView(each)), slots_of(CaseView(each)), settings_of(CaseView(each)).context) == (
            4096,
            2,
            8192,
        )


def test_host_layers_follow_the_runtimes_layer_count() -> None:
    layers = len(DENSE.layers)
    assert current_of(seen(case(gpu_layers=layers + 1, layers=layers + 1))).whole == 0
    assert current_of(seen(case(gpu_layers=10, layers=layers + 1))).whole == layers - 9
    assert current_of(seen(case(gpu_layers=0, layers=layers + 1))).whole == layers
    assert current_of(seen(case(), on_gpus=False)).whole == layers
    assert current_of(seen(case())).whole == 0  # nothing tells


@pytest.mark.parametrize(
    ("facts", "apart"),
    [
        ({"tensor_overrides": ["--n-cpu-moe 20"]}, 20),
        ({"tensor_overrides": ["--cpu-moe"]}, 48),
        ({"overflowing_layers": 7}, 7),
        ({}, 0),
    ],
)
def test_experts_on_host_follow_the_overrides(facts: dict[str, Any], apart: int) -> None:
    everything = len(SPARSE.layers) + 1
    assert current_of(seen(case(gpu_layers=everything, layers=everything, **facts), SPARSE)).apart == apart


def test_experts_on_host_follow_the_buffers_without_overrides() -> None:
    everything = len(SPARSE.layers) + 1
    size = SPARSE.layers[0].piece_bytes * 9
    buffers = [Buffer(device="CPU_Mapped", kind="model", bytes=size, on_gpu=False)]
    one = case(gpu_layers=everything, layers=everything, buffers=buffers)
    assert current_of(seen(one, SPARSE)).apart == pytest.approx(9, abs=1)


def test_only_user_set_knobs_are_listed() -> None:
    plain = case(context_length=4096, threads=CORES, ubatch=512, batch=2048, gpu_layers=31, layers=31)
    assert knobs(seen(plain), {"context": "4096"}) == {"context_length": 4096, "parallel": 1}
    assert knobs(seen(plain)) == {"parallel": 1}  # the context is what its own fit chose, and may choose otherwise
    of_ollama = {"context_length": 4096, "parallel": 1, "batch": 512}  # whose own choice of both is not fixed
    assert knobs(seen(case("Ollama", context_length=4096))) == of_ollama
    shared = case(context_length=4096, slots=4, kv_unified=True)
    assert "parallel" not in knobs(seen(shared))  # they stay, and are counted as they are


def test_current_knobs_use_the_names_of_the_plan() -> None:
    turned = case(
        context_length=16384, slots=2, kv_unified=False, kv_type_k="q8_0", kv_type_v="q4_0", flash_attention=True,
        ubatch=64, batch=64, threads=2, gpu_layers_set=12, fit=False, kv_offload=False,
        tensor_overrides=["--n-cpu-moe 3", "output=CPU"],
    )  # fmt: skip
    told = {"context": "16384", "batch": "64", "split_mode": "row", "tensor_split": "3/1", "main_gpu": "0"}
    told["device"] = "none"
    assert knobs(seen(turned), told) == {
        "context_length": 16384, "parallel": 2, "kv_cache_type": "q8_0", "value_cache_type": "q4_0",
        "flash_attention": True, "kv_offload": False, "fit": False, "gpu_layers": 12, "experts_on_cpu": 3,
        "tensor_override": "output=CPU", "device": "none", "split_mode": "row", "tensor_split": "3,1", "main_gpu": 0,
        "batch": 64, "logical_batch": 64, "threads": 2,
    }  # fmt: skip


def test_flash_attention_off_by_default_is_not_a_knob() -> None:
    off = case(context_length=4096, flash_attention=False)
    assert "flash_attention" not in knobs(seen(off))
    assert knobs(seen(off), {"flash_attention": "off"})["flash_attention"] is False


def test_cpu_server_has_no_gpu_knobs() -> None:
    one = case(context_length=4096, gpu_layers_set=12, fit=False)
    assert knobs(seen(one, on_gpus=False), {"device": "none", "context": "4096"}) == {
        "context_length": 4096, "parallel": 1, "device": "none"
    }  # fmt: skip


def test_threads_beyond_a_quota_hinder_only_cpu_work() -> None:
    one = case(threads=8, quota_cpus=2.0)
    assert hindered_by_threads(seen(one, on_gpus=False)) == 4
    assert hindered_by_threads(seen(one)) == 1
    assert hindered_by_threads(seen(case(threads=2, quota_cpus=2.0), on_gpus=False)) == 1
