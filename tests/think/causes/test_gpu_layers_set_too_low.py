from answers import ask
from cases import gpu_case, with_facts
from engines import vllm
from firing import clamped
from told import pasted

from unslow.facts.runtime import Buffer
from unslow.facts.values import GB, GIB, MIB
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "gpu_layers_set_too_low"
fires = clamped


def test_20_of_33_layers_set_with_room_for_all_is_found():
    finding = judge(CaseView(clamped(20))).findings[0]
    assert finding.cause == NAME
    assert finding.fixes[0].knob == "gpu_layers"
    assert finding.fixes[0].value is None
    assert 80 < finding.fixes[0].predicted["decode_tokens_per_s"] < 200


def test_zero_gpu_layers_is_found():
    case = with_facts(clamped(0), {"run.decode_tokens_per_s": 3.0})
    assert isinstance(ask(NAME, case), Found)


def test_the_fix_is_the_number_of_layers_that_fits():
    case = with_facts(gpu_case(layers_on_gpu=5, free_gib=4.0, context=4096), {"runtime.placement.gpu_layers_set": 5})
    answer = ask(NAME, case)
    assert isinstance(answer, Found)
    assert 15 < answer.remedies[0].change.value < 30


def test_a_full_gpu_rules_it_out():
    case = with_facts(gpu_case(layers_on_gpu=21, free_gib=4.5, context=4096), {"runtime.placement.gpu_layers_set": 21})
    fits = ask(NAME, with_facts(case, {"runtime.placement.gpu_layers_set": 25}))
    assert isinstance(fits, Absent)


def test_99_gpu_layers_rule_it_out():
    assert isinstance(ask(NAME, with_facts(gpu_case(), {"runtime.placement.gpu_layers_set": 99})), Absent)


def test_device_none_is_found():
    case = with_facts(
        gpu_case(layers_on_gpu=0), {"runtime.placement.device_set": "none", "run.decode_tokens_per_s": 3.0}
    )
    assert isinstance(ask(NAME, case), Found)


def test_on_a_named_gpu_it_is_found_only_where_the_layers_surely_fit():
    model = {"weights_bytes": 5 * GIB, "layers": 32, "width": 4096, "vocabulary": 128256}
    few = {"gpu_layers_set": 10, "context_length": 4096}
    assert isinstance(ask(NAME, pasted(gpus=["RTX 3090"], runtime=few, model=model)), Found)
    assert isinstance(
        ask(NAME, pasted(gpus=["GTX 1050 Ti"], runtime=few | {"gpu_layers_set": 20}, model=model)), CannotTell
    )


def test_cpu_offload_of_a_live_server_is_found_with_a_cost():
    away = {"runtime.name": "vLLM", "runtime.placement.cpu_offload_bytes": 4 * GIB, "run.decode_tokens_per_s": 4.0}
    finding = judge(CaseView(with_facts(gpu_case(), away))).findings[0]
    assert finding.cause == NAME
    assert finding.cost is not None


def parts_away(override: str, held_mib: int, free_gib: float = 20.0):
    """All layers count as on the GPU, and parts of them were sent to the CPU by name."""
    facts = {"runtime.placement.tensor_overrides": [override], "run.decode_tokens_per_s": 20.0}
    buffers = [Buffer(device="CUDA0", kind="model", bytes=held_mib * MIB, on_gpu=True)]
    buffers.append(Buffer(device="CPU", kind="model", bytes=(4692 - held_mib) * MIB, on_gpu=False))
    return with_facts(gpu_case(free_gib=free_gib), facts | {"runtime.memory.buffers": buffers})


def test_an_override_of_ffn_tensors_is_found_and_removed():
    finding = judge(CaseView(parts_away("ffn_(up|gate)=CPU", 2400))).findings[0]
    assert finding.cause == NAME
    assert "ffn_(up|gate)=CPU" in finding.because
    assert (finding.fixes[0].knob, finding.fixes[0].value) == ("experts_on_cpu", None)
    assert 80 < finding.fixes[0].predicted["decode_tokens_per_s"] < 200


def test_overrides_of_experts_or_output_or_without_room_are_not_found():
    assert not isinstance(ask(NAME, parts_away("ffn_(up|gate)=CPU", 2400, free_gib=4.0)), Found)
    assert not isinstance(ask(NAME, with_facts(parts_away("exps=CPU", 2400), {"model.experts": 64})), Found)
    assert not isinstance(ask(NAME, parts_away("output.weight=CPU", 4000)), Found)


def test_a_missing_output_layer_is_another_cause():
    last = {"runtime.placement.gpu_layers_set": 32, "runtime.placement.output_on_gpu": False}
    assert isinstance(ask(NAME, with_facts(gpu_case(32), last)), Absent)
    assert isinstance(ask(NAME, with_facts(gpu_case(32), last | {"runtime.placement.output_on_gpu": True})), Found)
    by_age = {"runtime.placement.gpu_layers_set": 32, "runtime.version": "b4150"}
    assert isinstance(ask(NAME, with_facts(gpu_case(32), by_age)), Absent)
    assert isinstance(ask(NAME, with_facts(gpu_case(32), by_age | {"runtime.version": "b10586"})), Found)


def test_cpu_offload_is_found_only_where_the_weights_fit():
    fits = {"runtime.placement.cpu_offload_bytes": 10 * GIB, "run.decode_tokens_per_s": 2.0}
    assert isinstance(ask(NAME, vllm(**fits)), Found)
    assert not isinstance(ask(NAME, vllm(**fits, **{"model.weights_bytes": 60 * GB})), Found), "it would not start"
