"""Weights in the host's memory, and the link they would cross."""

import pytest
from cases import gpu_case, plan_8b, with_facts, with_tensors
from under_load import saying

from unslow.facts.account import Topic
from unslow.facts.runtime import Buffer
from unslow.facts.snapshot import Case
from unslow.facts.values import GIB, MIB, MissingFactError, not_found
from unslow.think.case.placement import host_link_bytes_per_s, host_weights_bytes


def test_as_allocated_less_the_token_table():
    buffers = [Buffer(device="CUDA0", kind="model", bytes=GIB, on_gpu=True)]
    buffers += [Buffer(device="CPU_Mapped", kind="model", bytes=3 * GIB, on_gpu=False)]
    assert host_weights_bytes(with_facts(gpu_case(), {"runtime.buffers": buffers})) == 3 * GIB - 282 * MIB


def test_by_share_by_layers_and_by_experts():
    sized = with_facts(Case(), {"model.weights_bytes": 100 * GIB})
    assert host_weights_bytes(with_facts(sized, {"runtime.vram_share": 0.25})) == 75 * GIB
    counted = with_facts(sized, {"runtime.gpu_layers": 30, "runtime.layers": 40})
    assert host_weights_bytes(counted) == 25 * GIB
    assert host_weights_bytes(saying(Topic.EXPERTS_ON_CPU, "experts on the CPU", case=sized)) == 100 * GIB
    with pytest.raises(MissingFactError):
        host_weights_bytes(Case())


def test_the_link_as_seen():
    assert host_link_bytes_per_s(gpu_case()) is None
    seen = with_facts(gpu_case(), {"machine.gpus.0.pcie_generation": 3, "machine.gpus.0.pcie_width": 8})
    assert host_link_bytes_per_s(seen) == pytest.approx(6.3e9, rel=0.01)


def sent(*overrides: str, **facts: object) -> Case:
    """A mixture of 100 GiB, 80 of them experts, all of whose layers count as on the GPU."""
    known = {"model.weights_bytes": 100 * GIB, "model.expert_bytes": 80 * GIB, "model.experts": 64, "model.layers": 40}
    counted = {"runtime.gpu_layers": 41, "runtime.layers": 41, "runtime.tensor_overrides": list(overrides)}
    return with_facts(Case(), known | counted | facts)


def test_what_settings_send_to_the_host_by_name():
    assert host_weights_bytes(sent("--cpu-moe")) == 80 * GIB
    assert host_weights_bytes(sent("--n-cpu-moe 10")) == 20 * GIB
    assert host_weights_bytes(sent("exps=CPU", **{"runtime.vram_share": 1.0})) == 80 * GIB, "counted as planned"


def test_an_override_of_something_else_sends_no_experts():
    assert host_weights_bytes(sent("output.weight=CPU")) == 0
    assert host_weights_bytes(sent("exps=CUDA1")) == 0
    for others in ("attn=CPU", "([a-z]+)+Z=CPU"):
        with pytest.raises(MissingFactError):
            host_weights_bytes(sent(others))


def test_to_the_byte_where_the_tensors_are_known():
    counted = {"runtime.buffers": not_found("no"), "runtime.tensor_overrides": ["ffn_down=CPU"]}
    case = with_facts(with_tensors(gpu_case()), counted)
    down = sum(t.bytes for t in plan_8b().tensors if "ffn_down" in t.name)
    assert host_weights_bytes(case) == down
    assert host_weights_bytes(with_facts(case, {"runtime.gpu_layers": 23})) > 10 * down / 32
