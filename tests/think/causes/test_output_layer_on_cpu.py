from answers import ask
from cases import gpu_case, with_facts
from told import pasted

from unslow.facts.values import not_found
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "output_layer_on_cpu"


def fires():
    return with_facts(gpu_case(32, 5.0, 4096), {"runtime.placement.output_on_gpu": False})


def test_output_on_cpu_by_the_log_explains_the_spill():
    report = judge(
        CaseView(pasted(gpus=["RTX 4070"], runtime={"gpu_layers": 42, "layers": 43, "output_on_gpu": False}))
    )
    assert report.findings[0].cause == NAME
    assert report.findings[0].explains == ("weights_spill_to_ram",)


def test_an_override_of_the_output_tensor_is_found():
    assert isinstance(
        ask(NAME, with_facts(gpu_case(), {"runtime.placement.tensor_overrides": ["output.weight=CPU"]})), Found
    )


def test_with_tied_weights_an_override_of_the_token_table_moves_the_output():
    table = with_facts(gpu_case(), {"runtime.placement.tensor_overrides": ["token_embd.weight=CPU"]})
    assert isinstance(ask(NAME, with_facts(table, {"model.output_tied": True})), Found)
    assert not isinstance(ask(NAME, table), Found)


def test_one_missing_layer_is_the_output_in_old_builds_only():
    old = with_facts(gpu_case(32, 5.0), {"runtime.version": "b3556"})
    assert isinstance(ask(NAME, old), Found)
    new = with_facts(gpu_case(32, 5.0), {"runtime.version": "b9999", "runtime.placement.output_on_gpu": True})
    assert isinstance(ask(NAME, new), Absent)
    assert isinstance(ask(NAME, with_facts(gpu_case(32, 5.0), {"runtime.version": "b9999"})), CannotTell)


def test_several_missing_layers_are_not_the_output_alone():
    assert isinstance(ask(NAME, gpu_case(21, 5.0)), Absent)


def test_the_fix_removes_the_override_and_has_a_cost():
    case = with_facts(
        gpu_case(), {"runtime.placement.tensor_overrides": ["output.weight=CPU"], "run.decode_tokens_per_s": 40.0}
    )
    finding = judge(CaseView(case)).findings[0]
    assert finding.cause == NAME
    assert finding.cost.seconds > 0.01
    assert finding.fixes[0].knob == "experts_on_cpu"
    assert isinstance(ask(NAME, with_facts(case, {"runtime.placement.gpu_layers": 0})), Absent)


def test_an_override_of_the_output_norm_is_not_the_output():
    assert isinstance(
        ask(NAME, with_facts(gpu_case(), {"runtime.placement.tensor_overrides": ["output_norm.weight=CPU"]})), Absent
    )


def test_33_of_33_layers_rule_it_out_only_with_buffers_or_overrides_known():
    assert isinstance(ask(NAME, gpu_case()), Absent)  # the buffer holds it
    hidden = with_facts(gpu_case(), {"runtime.memory.buffers": not_found("no such lines")})
    assert isinstance(ask(NAME, hidden), CannotTell)
    assert isinstance(ask(NAME, with_facts(hidden, {"runtime.placement.tensor_overrides": []})), Absent)
