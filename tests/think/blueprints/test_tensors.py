"""Tensors from layouts: exact for a small one, and for every model by its known parameter count."""

import math

import msgspec
import pytest

from unslow.catalog.architectures import Group, Layout, layouts
from unslow.catalog.models import well_known
from unslow.think.blueprints import UntypedTensor, made_up_tensors

LAYOUT = Layout(
    numbers={"routed": "not layer < leading"},
    groups=(
        Group({"table": "width, vocabulary", "blk.{}.norm": "width"}),
        Group({"blk.{}.router": "width, experts"}, "routed"),
        Group({"output": "width, vocabulary"}, "not tied"),
    ),
)
STATED = {"layers": 2, "width": 8, "vocabulary": 10, "leading": 1, "experts": 4, "tied": True}


def of(stem):
    model = well_known()[stem]
    return [*made_up_tensors(layouts()[model.architecture], msgspec.structs.asdict(model.shape))]


def test_tensor_groups_exist_where_their_condition_holds():
    assert [*made_up_tensors(LAYOUT, STATED)] == [
        UntypedTensor("table", (8, 10)),
        UntypedTensor("blk.0.norm", (8,)),
        UntypedTensor("blk.1.norm", (8,)),
        UntypedTensor("blk.1.router", (8, 4)),
    ]


def test_shape_that_lacks_a_number_is_refused(wording):
    with pytest.raises(ValueError, match="router") as refused:
        [*made_up_tensors(LAYOUT, {**STATED, "experts": None})]
    wording(str(refused.value), tells=("blk.{}.router", "experts"))


@pytest.mark.no_cover  # every model of the catalogue, made up elsewhere too
@pytest.mark.parametrize("stem", well_known())
def test_model_has_its_published_parameter_count(stem):
    made = of(stem)
    assert len({t.name for t in made}) == len(made)
    assert sum(math.prod(t.shape) for t in made) == pytest.approx(well_known()[stem].parameters, rel=0.005)


def test_hybrid_model_has_each_layer_kind_in_its_place():
    names = {t.name for t in of("nemotron-3-nano-30b-a3b")}
    pattern = "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME"
    telling = {"M": "ssm_in", "*": "attn_q", "E": "ffn_up_exps"}
    assert all(f"blk.{n}.{telling[kind]}.weight" in names for n, kind in enumerate(pattern))
    assert sum(any(name.endswith(f"{t}.weight") for t in telling.values()) for name in names) == len(pattern)


def test_mla_tensors_are_split_as_current_converters_do():
    shapes = dict(of("deepseek-v3"))
    assert shapes["blk.5.attn_k_b.weight"] == (128, 512, 128)
    assert shapes["blk.5.attn_v_b.weight"] == (512, 128, 128)
    assert "blk.2.ffn_gate_exps.weight" not in shapes
    assert shapes["blk.3.ffn_gate_exps.weight"] == (7168, 2048, 256)
