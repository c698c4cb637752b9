"""The demand of a token is read from the tensors that it uses."""

import pytest

from unslow.catalog.architectures import made_up_shapes
from unslow.catalog.models import find_model
from unslow.facts.errors import UserError
from unslow.facts.model import Blueprint, Tensor
from unslow.look.engine.made_up_models import ModelCache
from unslow.look.models.gguf import blueprint, read_gguf
from unslow.look.system.live import LiveSystem
from unslow.think.blueprints import made_up
from unslow.think.speed.machine_rates import demand_of


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Blueprint:
    return blueprint(read_gguf(LiveSystem(), str(ModelCache(tmp_path_factory.mktemp("c")).model("tiny", "Q8_0"))))


def test_everything_but_the_token_table_is_read(tiny):
    demand, shape = demand_of(tiny), made_up_shapes()["tiny"]
    table = tiny.by_name["token_embd.weight"].bytes
    assert sum(demand.bytes_by_type.values()) == sum(t.bytes for t in tiny.tensors) - table
    output = tiny.by_name["output.weight"].bytes + tiny.by_name["output_norm.weight"].bytes
    assert sum(demand.layer_bytes_by_type.values()) == sum(demand.bytes_by_type.values()) - output
    assert demand.vocabulary == shape.vocabulary
    assert demand.layers == shape.layers
    assert demand.operations == 9 * shape.layers
    heads = (shape.heads + 2 * shape.kv_heads) * shape.head_length
    assert demand.rows == shape.layers * (heads + 2 * shape.width + 2 * shape.feed_forward)


def test_attention_grows_with_depth(tiny):
    shape = made_up_shapes()["tiny"]
    one, ten = demand_of(tiny, 1), demand_of(tiny, 10)
    assert one.attention_elements == shape.layers * shape.heads * 2 * shape.head_length
    assert one.kv_bytes == shape.layers * shape.kv_heads * 2 * shape.head_length * 2
    assert ten.attention_elements == 10 * one.attention_elements
    assert ten.kv_bytes == 10 * one.kv_bytes
    assert demand_of(tiny, 10, ("q8_0", "q8_0")).kv_bytes == pytest.approx(ten.kv_bytes * 34 / 64)


def model(architecture: str, tensors: list[Tensor], **numbers) -> Blueprint:
    keys = {f"{architecture}.{key}": value for key, value in numbers.items()}
    return Blueprint(architecture=architecture, metadata=keys, tensors=tensors)


def test_header_without_layers_is_refused():
    with pytest.raises(UserError, match="0 layers"):
        demand_of(model("llama", [], block_count=0))


def test_tied_token_table_counts_as_the_output():
    table = Tensor("token_embd.weight", "Q8_0", (64, 1000), 68_000)
    assert demand_of(model("llama", [table], block_count=1)).bytes_by_type == {"Q8_0": 68_000}
    output = Tensor("output.weight", "Q6_K", (64, 1000), 52_500)
    assert demand_of(model("llama", [table, output], block_count=1)).bytes_by_type == {"Q6_K": 52_500}


def test_only_active_experts_count():
    experts = Tensor("blk.0.ffn_up_exps.weight", "Q8_0", (64, 32, 8), 17_408)
    plan = model("qwen3moe", [experts], block_count=1, expert_count=8, expert_used_count=2, embedding_length=64)
    demand = demand_of(plan)
    assert demand.bytes_by_type == {"Q8_0": 17_408 / 4}
    assert demand.rows == 2 * 32


def test_sliding_window_bounds_attention():
    plan = made_up(find_model("gemma-3-270m"), "Q8_0")
    near, far, farther = (demand_of(plan, depth).attention_elements for depth in (512, 8192, 16384))
    assert near < far < 16 * near
    assert farther < 2 * far
