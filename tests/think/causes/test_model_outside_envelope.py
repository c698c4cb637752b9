from answers import ask
from cases import with_facts
from told import pasted

from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "model_outside_envelope"
LAYERS = {"gpu_layers": 30, "layers": 81}


def fires():
    return pasted(gpus=["RTX 3060 12GB"], runtime=LAYERS, model={"parameters": 70_000_000_000})


def test_seventy_billion_on_twelve_gib():
    report = judge(fires())
    assert report.findings[0].cause == NAME
    assert report.findings[0].explains == ("weights_spill_to_ram",)


def test_near_miss_a_smaller_quant_would_fit():
    case = pasted(gpus=["RTX 3090"], runtime=LAYERS, model={"parameters": 32_000_000_000})
    assert isinstance(ask(NAME, case), Absent)


def test_a_mixture_bears_its_experts_in_ram():
    assert isinstance(ask(NAME, with_facts(fires(), {"model.experts": 128})), Absent)


def test_without_the_gpu_it_cannot_tell():
    case = pasted(runtime=LAYERS, model={"parameters": 70_000_000_000})
    assert isinstance(ask(NAME, case), CannotTell)


def test_the_context_that_is_wanted_counts():
    heads = {"model.layers": 40, "model.kv_heads": 8, "model.key_length": 128, "model.value_length": 128}
    short = with_facts(fires(), {"model.parameters": 24_000_000_000} | heads)
    assert isinstance(ask(NAME, short), Absent)
    assert isinstance(ask(NAME, with_facts(short, {"wish.context_tokens": 131072})), Found)
