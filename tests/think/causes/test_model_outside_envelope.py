from answers import ask
from cases import with_facts
from told import pasted

from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "model_outside_envelope"
LAYERS = {"gpu_layers": 30, "layers": 81}


def fires():
    return pasted(gpus=["RTX 3060 12GB"], runtime=LAYERS, model={"parameters": 70_000_000_000})


def test_70b_model_on_12_gib_is_found():
    report = judge(CaseView(fires()))
    assert report.findings[0].cause == NAME
    assert report.findings[0].explains == ("weights_spill_to_ram",)


def test_model_that_fits_in_a_smaller_quant_is_ruled_out():
    case = pasted(gpus=["RTX 3090"], runtime=LAYERS, model={"parameters": 32_000_000_000})
    assert isinstance(ask(NAME, case), Absent)


def test_mixture_of_experts_is_ruled_out():
    assert isinstance(ask(NAME, with_facts(fires(), {"model.experts": 128})), Absent)


def test_unknown_gpu_gives_cannot_tell():
    case = pasted(runtime=LAYERS, model={"parameters": 70_000_000_000})
    assert isinstance(ask(NAME, case), CannotTell)


def test_wanted_context_counts_towards_the_size():
    heads = {"model.layers": 40, "model.kv_heads": 8, "model.key_length": 128, "model.value_length": 128}
    short = with_facts(fires(), {"model.parameters": 24_000_000_000} | heads)
    assert isinstance(ask(NAME, short), Absent)
    assert isinstance(ask(NAME, with_facts(short, {"wish.context_tokens": 131072})), Found)
