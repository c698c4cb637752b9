import pytest
from answers import ask
from cases import gpu_case, r, with_facts
from firing import experts_away
from told import pasted

from unslow.facts.machine import GpuProcess
from unslow.facts.runtime import FACT_PATHS, Buffer
from unslow.facts.values import GIB, not_found
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "experts_on_cpu"
fires = experts_away


def test_experts_on_the_cpu_beside_a_full_layer_count_are_found():
    report = judge(CaseView(experts_away()))
    assert report.findings[0].cause == NAME
    assert report.findings[0].fixes[0].value is None
    assert report.findings[0].fixes[0].predicted["decode_tokens_per_s"] > 60


def test_the_fix_keeps_only_the_experts_without_room_on_the_cpu():
    case = with_facts(experts_away(), {"runtime.placement.devices.0.free_bytes": 4 * 1024**3})
    answer = ask(NAME, case)
    assert isinstance(answer, Found)
    assert 5 < answer.remedies[0].change.value < 30


def test_a_full_gpu_rules_it_out():
    assert isinstance(
        ask(NAME, with_facts(experts_away(), {"runtime.placement.devices.0.free_bytes": 2 * 1024**3})), Absent
    )


def test_a_dense_model_or_no_override_rules_it_out():
    assert isinstance(ask(NAME, with_facts(experts_away(), {"model.experts": 0})), Absent)
    assert isinstance(ask(NAME, with_facts(gpu_case(), {"runtime.placement.tensor_overrides": []})), Absent)


def test_a_moe_larger_than_vram_split_by_layers_explains_the_spill():
    case = pasted(gpus=["RTX 5080"], runtime={"gpu_layers_set": 0}, model={"name": "Qwen3.6 35B-A3B"})
    report = judge(CaseView(case))
    assert report.findings[0].cause == NAME
    split = pasted(gpus=["RTX 5080"], runtime={"gpu_layers": 20, "layers": 49}, model={"name": "Qwen3-30B-A3B"})
    assert not isinstance(ask(NAME, split), Found)  # at four bits it would fit: nothing shows that it is larger
    larger = with_facts(split, {"model.weights_bytes": 30 * 1024**3})
    report = judge(CaseView(larger))
    assert report.findings[0].cause == NAME
    assert "weights_spill_to_ram" in report.findings[0].explains


def test_a_moe_of_unknown_placement_gives_cannot_tell():
    assert isinstance(ask(NAME, pasted(gpus=["RTX 4060 Laptop 8GB"], model={"name": "Qwen3.6-35B-A3B"})), CannotTell)


def test_on_a_named_gpu_cpu_moe_is_found_only_where_half_the_experts_fit():
    sent = {"tensor_overrides": ["--cpu-moe"], "gpu_layers_set": 99, "context_length": 4096}
    model = {"name": "Qwen3-30B-A3B", "experts": 128, "weights_bytes": 17 * 1024**3, "layers": 48, "width": 2048}
    assert isinstance(ask(NAME, pasted(gpus=["RTX 4090"], runtime=sent, model=model)), Found)
    assert isinstance(ask(NAME, pasted(gpus=["RTX 4060"], runtime=sent, model=model)), CannotTell)


def test_an_override_of_the_output_is_not_experts_on_cpu():
    output = with_facts(experts_away(), {"runtime.placement.tensor_overrides": ["output.weight=CPU"]})
    assert not isinstance(ask(NAME, output), Found)


def test_a_process_that_holds_the_whole_moe_rules_it_out():
    """At its default verbosity llama.cpp counts no layers and prints no buffers."""
    whole = {f"runtime.{FACT_PATHS[name]}": not_found("hidden") for name in ("gpu_layers", "layers", "buffers")}
    own = GpuProcess(pid=10, name=r("llama-server"), vram_bytes=r(7 * GIB))
    mixture = {"model.experts": 8, "runtime.placement.tensor_overrides": [], "machine.gpus.0.processes": [own]}
    assert isinstance(ask(NAME, with_facts(gpu_case(), {**whole, **mixture})), Absent)
    unlisted = {"machine.gpus.0.processes": not_found("no list")}
    assert isinstance(ask(NAME, with_facts(gpu_case(), {**whole, **mixture, **unlisted})), CannotTell)


def lean(experts_gib: float, free_gib: float):
    """20 GiB of a mixture, of which only so much is experts, all of them on the CPU."""
    on_gpu = Buffer(device="CUDA0", kind="model", bytes=int((20 - experts_gib) * GIB), on_gpu=True)
    facts = {
        "model.weights_bytes": 20 * GIB, "model.experts": 16, "model.experts_used": 1,
        "model.expert_bytes": int(experts_gib * GIB), "runtime.placement.tensor_overrides": ["exps=CPU"],
        "runtime.memory.buffers": [on_gpu], "run.decode_tokens_per_s": 20.0,
    }  # fmt: skip
    return with_facts(gpu_case(33, free_gib=free_gib), facts)


@pytest.mark.parametrize("experts_gib", [12, 16, 19])
def test_the_number_of_layers_frees_just_what_is_missing(experts_gib):
    case = lean(experts_gib, 14.0)
    answer = ask(NAME, case)
    assert isinstance(answer, Found)
    freed = answer.remedies[0].change.value * experts_gib * GIB / 32
    assert 0 <= freed - CaseView(case).memory.demand().lacking < experts_gib * GIB / 32


def test_it_is_ruled_out_where_the_model_does_not_fit_even_without_experts(wording):
    answer = ask(NAME, lean(12, 6.0))
    assert isinstance(answer, Absent)
    wording(answer.because)


def test_an_unknown_share_of_experts_gives_a_fix_without_a_number():
    sent = {"tensor_overrides": ["--cpu-moe"], "gpu_layers_set": 99, "context_length": 4096}
    model = {"name": "Qwen3-30B-A3B", "experts": 128, "weights_bytes": 20 * GIB, "layers": 48, "width": 2048}
    answer = ask(NAME, pasted(gpus=["RTX 4090"], runtime=sent, model=model))
    assert isinstance(answer, Found)
    assert answer.remedies[0].change.value is None


def test_an_override_to_another_gpu_is_not_experts_on_cpu():
    elsewhere = {"runtime.placement.tensor_overrides": ["exps=CUDA1"]}
    assert not isinstance(ask(NAME, with_facts(experts_away(), elsewhere)), Found)


@pytest.mark.parametrize("override", ["attn=CPU", "output.weight=CPU", r"blk\.3\.attn_q=CPU"])
def test_an_override_of_other_tensors_is_not_experts_on_cpu(override):
    answer = ask(NAME, with_facts(experts_away(), {"runtime.placement.tensor_overrides": [override]}))
    assert not isinstance(answer, Found), answer
