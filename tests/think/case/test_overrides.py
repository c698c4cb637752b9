import time
from functools import cache

import pytest
from cases import gpu_case, with_facts

from unslow.catalog.models import find_model
from unslow.facts.model import Blueprint, packed_tensors
from unslow.think.blueprints import made_up
from unslow.think.case.overrides import SentAway
from unslow.think.case.view import CaseView

OUTPUT, EXPERTS, OTHERS = SentAway(output=True), SentAway(experts=True), SentAway(others=True)
UNREAD = SentAway(unread=True)


def mixture(*overrides: str):
    return with_facts(gpu_case(), {"runtime.placement.tensor_overrides": list(overrides), "model.experts": 64})


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
def test_tensor_overrides_match_tensor_names(override, away):
    assert CaseView(mixture(override)).placement.sent_to_cpu == away


def test_first_matching_pattern_decides():
    assert CaseView(mixture("exps=CUDA0,.*=CUDA0", "exps=CPU")).placement.sent_to_cpu == SentAway()
    assert CaseView(mixture(r"blk\.[0-9]\.=CUDA0,exps=CPU")).placement.layers_without_experts(48) == 38


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
def test_layers_without_experts_are_counted(override, layers):
    """A single tensor is how a log shows that there was an override, whatever else left with it."""
    assert CaseView(mixture(override)).placement.layers_without_experts(48) == layers


@pytest.mark.parametrize(
    "pattern", ["([a-z.0-9_]+)+Z=CPU", "(=CPU", "a.*b.*c.*d.*e=CPU", "(x+x+)+y=CPU", "[a-z]?" * 30 + "Z=CPU"]
)
def test_dangerous_regex_is_not_evaluated(pattern):
    assert CaseView(mixture(pattern)).placement.sent_to_cpu == UNREAD


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
def test_exponential_patterns_take_no_time(pattern):
    """Two ways to match a letter are a million ways to match twenty, and none of them matches."""
    start = time.perf_counter()
    _ = CaseView(mixture(pattern)).placement.sent_to_cpu
    assert time.perf_counter() - start < 5


def test_long_layer_lists_are_evaluated():
    layers = "|".join(str(layer) for layer in range(40))
    pattern = rf"blk\.({layers})\.ffn_(up|gate|down|gate_up)_(ch|)exps\.(weight|bias)=CPU"
    assert CaseView(mixture(pattern)).placement.sent_to_cpu == EXPERTS
    assert CaseView(mixture(pattern)).placement.layers_without_experts(48) == 40


def test_dense_model_has_no_experts_to_move():
    assert CaseView(with_facts(mixture("exps=CPU"), {"model.experts": 0})).placement.sent_to_cpu == SentAway()


def test_override_that_moved_the_output_is_named():
    assert CaseView(mixture("--cpu-moe", "output.weight=CPU")).placement.overrides_sending("output") == [
        "output.weight=CPU"
    ]


def test_gpu_layers_exclude_only_the_moved_output():
    case = with_facts(gpu_case(20, 4.0), {"runtime.placement.tensor_overrides": ["output.weight=CPU"]})
    placed = CaseView(case).placement.read(CaseView(case).memory.shape)
    assert placed.gpu_layers == 19
    assert not placed.output_on_gpu


def test_norm_on_the_cpu_is_not_computing():
    assert CaseView(mixture("output_norm.weight=CPU")).placement.cpu_computes is False
    assert CaseView(mixture("exps=CUDA1")).placement.cpu_computes is False
    assert CaseView(mixture("output.weight=CPU")).placement.cpu_computes is True


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


def test_tensor_names_come_from_the_model_file():
    """Fused matrices have other names, and what a file lacks can't be sent anywhere."""
    assert CaseView(of_file("ffn_gate_inp=CPU")).placement.sent_to_cpu == SentAway()
    assert CaseView(of_file("ffn_up_shexp=CPU")).placement.sent_to_cpu == SentAway()
    assert CaseView(of_file("attn=CPU")).placement.sent_to_cpu == OTHERS
    assert CaseView(of_file("exps=CPU")).placement.sent_to_cpu == EXPERTS


def test_tied_model_uses_the_token_table_as_output():
    tied = with_facts(mixture("token_embd.weight=CPU"), {"model.output_tied": True})
    assert CaseView(tied).placement.sent_to_cpu == OUTPUT
    assert (
        CaseView(with_facts(tied, {"runtime.placement.tensor_overrides": ["^output.weight=CPU"]})).placement.sent_to_cpu
        == SentAway()
    )


def test_host_bytes_count_overrides_and_whole_layers():
    case = of_file("exps=CPU")
    experts, weights = CaseView(case).placement.bytes_of_layers_on_host(0), case.model.weights_bytes.need()
    assert 0.85 * weights < experts < weights
    assert (
        experts
        < CaseView(case).placement.bytes_of_layers_on_host(20)
        < CaseView(case).placement.bytes_of_layers_on_host(48)
        < weights
    )
    half = of_file("--n-cpu-moe 24")
    assert 0.45 * experts < CaseView(half).placement.bytes_of_layers_on_host(0) < 0.55 * experts
    assert CaseView(of_file("(=CPU")).placement.bytes_of_layers_on_host(0) is None
    assert CaseView(mixture("exps=CPU")).placement.bytes_of_layers_on_host(0) is None
