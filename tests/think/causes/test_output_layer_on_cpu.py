from answers import ask
from cases import gpu_case, with_facts
from told import pasted

from unslow.facts.values import not_found
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "output_layer_on_cpu"


def fires():
    return with_facts(gpu_case(32, 5.0, 4096), {"runtime.output_on_gpu": False})


def test_the_log_says_it_and_it_is_the_root_of_the_spill():
    report = judge(pasted(gpus=["RTX 4070"], runtime={"gpu_layers": 42, "layers": 43, "output_on_gpu": False}))
    assert report.findings[0].cause == NAME
    assert report.findings[0].explains == ("weights_spill_to_ram",)


def test_an_override_by_name():
    assert isinstance(ask(NAME, with_facts(gpu_case(), {"runtime.tensor_overrides": ["output.weight=CPU"]})), Found)


def test_of_a_tied_model_an_override_of_the_token_table_is_one_of_the_output():
    table = with_facts(gpu_case(), {"runtime.tensor_overrides": ["token_embd.weight=CPU"]})
    assert isinstance(ask(NAME, with_facts(table, {"model.output_tied": True})), Found)
    assert not isinstance(ask(NAME, table), Found)


def test_old_builds_place_it_last_and_new_ones_first():
    old = with_facts(gpu_case(32, 5.0), {"runtime.version": "b3556"})
    assert isinstance(ask(NAME, old), Found)
    new = with_facts(gpu_case(32, 5.0), {"runtime.version": "b9999", "runtime.output_on_gpu": True})
    assert isinstance(ask(NAME, new), Absent)
    assert isinstance(ask(NAME, with_facts(gpu_case(32, 5.0), {"runtime.version": "b9999"})), CannotTell)


def test_near_miss_several_layers_short():
    assert isinstance(ask(NAME, gpu_case(21, 5.0)), Absent)


def test_an_override_is_taken_back_and_priced():
    case = with_facts(gpu_case(), {"runtime.tensor_overrides": ["output.weight=CPU"], "run.decode_tokens_per_s": 40.0})
    finding = judge(case).findings[0]
    assert finding.cause == NAME
    assert finding.cost.seconds > 0.01
    assert finding.fixes[0].knob == "experts_on_cpu"
    assert isinstance(ask(NAME, with_facts(case, {"runtime.gpu_layers": 0})), Absent)


def test_a_norm_is_not_the_output():
    assert isinstance(
        ask(NAME, with_facts(gpu_case(), {"runtime.tensor_overrides": ["output_norm.weight=CPU"]})), Absent
    )


def test_all_layers_on_the_gpu_do_not_tell_where_an_override_sent_the_output():
    assert isinstance(ask(NAME, gpu_case()), Absent)  # the buffer holds it
    hidden = with_facts(gpu_case(), {"runtime.buffers": not_found("no such lines")})
    assert isinstance(ask(NAME, hidden), CannotTell)
    assert isinstance(ask(NAME, with_facts(hidden, {"runtime.tensor_overrides": []})), Absent)
