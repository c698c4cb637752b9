import time
from functools import cache

import pytest
from cases import gpu_case, with_facts

from unslow.catalog.models import find_model
from unslow.facts.model import Blueprint, packed_tensors
from unslow.think.blueprints import made_up
from unslow.think.case.demand import read_shape
from unslow.think.case.overrides import (
    SentAway,
    bytes_of_layers_on_host,
    layers_without_experts,
    overrides_of,
    sent_away,
)
from unslow.think.case.placement import cpu_computes, read_placement

OUTPUT, EXPERTS, OTHERS = SentAway(output=True), SentAway(experts=True), SentAway(others=True)
UNREAD = SentAway(unread=True)


def mixture(*overrides: str):
    return with_facts(gpu_case(), {"runtime.tensor_overrides": list(overrides), "model.experts": 64})


@pytest.mark.parametrize(
    ("override", "away"),
    [
        ("output.weight=CPU", OUTPUT),
        (r"^output\.weight=CPU", OUTPUT),
        ("output_norm.weight=CPU", SentAway()),
        ("token_embd.weight=CPU", SentAway()),
        ("exps=CPU", EXPERTS),
        (r".ffn_.*_exps.=CPU", EXPERTS),
        ("--cpu-moe", EXPERTS),
        ("-ncmoe 12", EXPERTS),
        ("--n-cpu-ffn 4", OTHERS),
        (r"blk\.(2[0-9])\.ffn_.*_exps\.=CPU", EXPERTS),
        (r"blk\.3\.attn_q=CPU", OTHERS),
        ("exps=CUDA1", SentAway()),
        (".*=CPU", SentAway(output=True, experts=True, others=True)),
        ("attn=CPU", OTHERS),
        ("attn_qkv=CPU", OTHERS),
        ("attn_output=CPU", SentAway(output=False, others=True)),
        ("ffn_gate_inp=CPU", SentAway()),
        ("output=CPU", OUTPUT),
        ("ffn_down_shexp=CPU", OTHERS),
        ("tensor overrides were already set", UNREAD),
    ],
)
def test_by_the_names_that_tensors_have(override, away):
    assert sent_away(mixture(override)) == away


def test_the_first_pattern_that_is_found_decides():
    assert sent_away(mixture("exps=CUDA0,.*=CUDA0", "exps=CPU")) == SentAway()
    assert layers_without_experts(mixture(r"blk\.[0-9]\.=CUDA0,exps=CPU"), 48) == 38


@pytest.mark.parametrize(
    ("override", "layers"),
    [
        ("--cpu-moe", 48),
        ("--n-cpu-moe 20", 20),
        (r"blk\.(2[0-9])\.ffn_.*_exps\.=CPU", 10),
        (r"\.ffn_(up|down)_exps\.=CPU", 32),
        ("blk.3.ffn_up_exps.weight=CPU", None),
    ],
)
def test_how_many_layers_lose_their_experts(override, layers):
    """A single tensor is how a log shows that there was an override, whatever else left with it."""
    assert layers_without_experts(mixture(override), 48) == layers


@pytest.mark.parametrize(
    "pattern", ["([a-z.0-9_]+)+Z=CPU", "(=CPU", "a.*b.*c.*d.*e=CPU", "(x+x+)+y=CPU", "[a-z]?" * 30 + "Z=CPU"]
)
def test_a_pattern_that_could_take_for_ever_is_not_tried(pattern):
    assert sent_away(mixture(pattern)) == UNREAD


@pytest.mark.parametrize(
    "pattern",
    [
        "([^!]|[a-z._0-9])" * 20 + "!=CPU",
        "".join(f"(?:.|{letter})" for letter in "blk.0.ffn_up_exps.weight") + "!=CPU",
        "(?#[)" + "(.|.)" * 30 + "]!=CPU",
        "(" * 180 + "a" + ")" * 180 + "=CPU",
        "a{99999999999}=CPU",
        ",".join(["a.*b.*c=CPU"] * 60),
    ],
)
def test_alternatives_that_multiply_and_counts_beyond_reason_take_no_time(pattern):
    """Two ways to match a letter are a million ways to match twenty, of which none ends in an exclamation mark."""
    start = time.perf_counter()
    sent_away(mixture(pattern))
    assert time.perf_counter() - start < 5


def test_lists_of_layers_are_tried_however_long():
    layers = "|".join(str(layer) for layer in range(40))
    pattern = rf"blk\.({layers})\.ffn_(up|gate|down|gate_up)_(ch|)exps\.(weight|bias)=CPU"
    assert sent_away(mixture(pattern)) == EXPERTS
    assert layers_without_experts(mixture(pattern), 48) == 40


def test_a_dense_model_has_no_experts_to_send():
    assert sent_away(with_facts(mixture("exps=CPU"), {"model.experts": 0})) == SentAway()


def test_which_setting_it_was():
    assert overrides_of(mixture("--cpu-moe", "output.weight=CPU"), "output") == ["output.weight=CPU"]


def test_layers_are_counted_as_they_are_where_only_the_output_left():
    case = with_facts(gpu_case(20, 4.0), {"runtime.tensor_overrides": ["output.weight=CPU"]})
    placed = read_placement(case, read_shape(case))
    assert placed.gpu_layers == 19
    assert not placed.output_on_gpu


def test_a_norm_on_the_cpu_leaves_it_nothing_to_compute():
    assert cpu_computes(mixture("output_norm.weight=CPU")) is False
    assert cpu_computes(mixture("exps=CUDA1")) is False
    assert cpu_computes(mixture("output.weight=CPU")) is True


@cache
def qwen() -> Blueprint:
    return made_up(find_model("qwen3-30b-a3b"), "Q4_K_M")


def of_file(*overrides: str):
    """A well-known mixture of 48 layers, with the tensors of its file."""
    tensors = qwen().tensors
    known = {
        "layers": 48,
        "experts": 128,
        "tensors": packed_tensors(tensors),
        "weights_bytes": sum(t.bytes for t in tensors),
    }
    return with_facts(mixture(*overrides), {f"model.{name}": value for name, value in known.items()})


def test_the_names_are_those_of_the_models_file():
    """Fused matrices have other names, and what a file lacks can't be sent anywhere."""
    assert sent_away(of_file("ffn_gate_inp=CPU")) == SentAway()
    assert sent_away(of_file("ffn_up_shexp=CPU")) == SentAway()
    assert sent_away(of_file("attn=CPU")) == OTHERS
    assert sent_away(of_file("exps=CPU")) == EXPERTS


def test_of_a_tied_model_the_token_table_is_the_output():
    tied = with_facts(mixture("token_embd.weight=CPU"), {"model.output_tied": True})
    assert sent_away(tied) == OUTPUT
    assert sent_away(with_facts(tied, {"runtime.tensor_overrides": ["^output.weight=CPU"]})) == SentAway()


def test_bytes_by_name_and_of_whole_layers():
    case = of_file("exps=CPU")
    experts, weights = bytes_of_layers_on_host(case, 0), case.model.weights_bytes.need()
    assert 0.85 * weights < experts < weights
    assert experts < bytes_of_layers_on_host(case, 20) < bytes_of_layers_on_host(case, 48) < weights
    half = of_file("--n-cpu-moe 24")
    assert 0.45 * experts < bytes_of_layers_on_host(half, 0) < 0.55 * experts
    assert bytes_of_layers_on_host(of_file("(=CPU"), 0) is None
    assert bytes_of_layers_on_host(mixture("exps=CPU"), 0) is None
