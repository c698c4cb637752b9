"""Weights in host memory, and the link they cross."""

import pytest
from cases import gpu_case, plan_8b, with_facts, with_tensors
from under_load import saying

from unslow.facts.account import Topic
from unslow.facts.runtime import Buffer
from unslow.facts.snapshot import Case
from unslow.facts.values import GIB, MIB, MissingFactError, not_found
from unslow.think.case.view import CaseView


def test_host_weights_are_allocated_bytes_without_the_token_table():
    buffers = [Buffer(device="CUDA0", kind="model", bytes=GIB, on_gpu=True)]
    buffers += [Buffer(device="CPU_Mapped", kind="model", bytes=3 * GIB, on_gpu=False)]
    assert (
        CaseView(with_facts(gpu_case(), {"runtime.memory.buffers": buffers})).placement.host_weights_bytes
        == 3 * GIB - 282 * MIB
    )


def test_host_weights_from_vram_share_layers_or_experts():
    sized = with_facts(Case(), {"model.weights_bytes": 100 * GIB})
    assert CaseView(with_facts(sized, {"runtime.memory.vram_share": 0.25})).placement.host_weights_bytes == 75 * GIB
    counted = with_facts(sized, {"runtime.placement.gpu_layers": 30, "runtime.placement.layers": 40})
    assert CaseView(counted).placement.host_weights_bytes == 25 * GIB
    assert (
        CaseView(saying(Topic.EXPERTS_ON_CPU, "experts on the CPU", case=sized)).placement.host_weights_bytes
        == 100 * GIB
    )
    with pytest.raises(MissingFactError):
        _ = CaseView(Case()).placement.host_weights_bytes


def test_host_link_uses_the_observed_pcie_link():
    assert CaseView(gpu_case()).gpus.host_link_bytes_per_s is None
    seen = with_facts(gpu_case(), {"machine.gpus.0.pcie_generation": 3, "machine.gpus.0.pcie_width": 8})
    assert CaseView(seen).gpus.host_link_bytes_per_s == pytest.approx(6.3e9, rel=0.01)


def sent(*overrides: str, **facts: object) -> Case:
    """A mixture of 100 GiB, 80 of them experts, all of whose layers count as on the GPU."""
    known = {"model.weights_bytes": 100 * GIB, "model.expert_bytes": 80 * GIB, "model.experts": 64, "model.layers": 40}
    counted = {
        "runtime.placement.gpu_layers": 41,
        "runtime.placement.layers": 41,
        "runtime.placement.tensor_overrides": list(overrides),
    }
    return with_facts(Case(), known | counted | facts)


def test_cpu_moe_flags_move_expert_weights_to_the_host():
    assert CaseView(sent("--cpu-moe")).placement.host_weights_bytes == 80 * GIB
    assert CaseView(sent("--n-cpu-moe 10")).placement.host_weights_bytes == 20 * GIB
    assert CaseView(sent("exps=CPU", **{"runtime.memory.vram_share": 1.0})).placement.host_weights_bytes == 80 * GIB, (
        "counted as planned"
    )


def test_other_overrides_move_no_experts():
    assert CaseView(sent("output.weight=CPU")).placement.host_weights_bytes == 0
    assert CaseView(sent("exps=CUDA1")).placement.host_weights_bytes == 0
    for others in ("attn=CPU", "([a-z]+)+Z=CPU"):
        with pytest.raises(MissingFactError):
            _ = CaseView(sent(others)).placement.host_weights_bytes


def test_host_weights_are_exact_with_known_tensors():
    counted = {"runtime.memory.buffers": not_found("no"), "runtime.placement.tensor_overrides": ["ffn_down=CPU"]}
    case = with_facts(with_tensors(gpu_case()), counted)
    down = sum(t.bytes for t in plan_8b().tensors if "ffn_down" in t.name)
    assert CaseView(case).placement.host_weights_bytes == down
    assert (
        CaseView(with_facts(case, {"runtime.placement.gpu_layers": 23})).placement.host_weights_bytes > 10 * down / 32
    )
