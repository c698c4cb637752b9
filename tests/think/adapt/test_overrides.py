import pytest
from cases import gpu_case, with_facts

from unslow.think.adapt.overrides import SentAway, layers_without_experts, overrides_of, sent_away
from unslow.think.adapt.placement import read_placement
from unslow.think.adapt.shape import read_shape
from unslow.think.adapt.who_computes import cpu_computes

OUTPUT, EXPERTS, OTHERS = SentAway(output=True), SentAway(experts=True), SentAway(others=True)


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
        ("tensor overrides were already set", OTHERS),
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
    assert sent_away(mixture(pattern)) == OTHERS


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
