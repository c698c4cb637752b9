"""The recorded tensor list: small, and identical after decoding."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unslow.facts.model import Table, Tensor, packed_tensors, unpacked_tensors

NAMES = st.one_of(
    st.text(max_size=8),
    st.builds(
        "blk.{}.{}".format, st.integers(0, 12), st.sampled_from(["attn_q.weight", "a", "", "blk.3.x", "blk.*.x"])
    ),
    st.sampled_from(["blk.*.a", "blk.007.a", "blk.", "blk.0", "blk.99999.a", "xblk.1.a", "blk.٣.a", "blk.1٣.a"]),
)
SHAPES = st.lists(st.integers(0, 9), max_size=3).map(tuple)
TENSORS = st.builds(Tensor, NAMES, st.sampled_from(["F32", "Q4_K"]), SHAPES, st.integers(0, 99))


@settings(max_examples=50, deadline=None)
@given(st.lists(TENSORS, max_size=12))
def test_a_packed_tensor_table_is_unpacked_identically(tensors):
    table = msgspec.json.decode(msgspec.json.encode(packed_tensors(tensors)), type=Table)
    assert unpacked_tensors(table) == tensors


def test_identical_layers_are_written_once():
    layer = [("attn_q", (8192, 8192)), ("attn_k", (8192, 1024)), ("ffn_up", (8192, 28672)), ("ffn_down", (28672, 8192))]
    layers = [Tensor(f"blk.{n}.{name}.weight", "Q4_K", shape, 1) for n in range(500) for name, shape in layer]
    tensors = [Tensor("token_embd.weight", "Q4_K", (8192, 128256), 1), *layers]
    assert len(msgspec.json.encode(packed_tensors(tensors))) < 5_000
    assert unpacked_tensors(packed_tensors(tensors)) == tensors


@pytest.mark.parametrize(
    "table", [Table([], [(0, 1)]), Table([[]], [(-1, 0)]), Table([[Tensor("", "", (), 0)] * 300], [(0, 0)] * 300)]
)
def test_an_edited_tensor_table_is_refused(table):
    with pytest.raises(ValueError, match="does not match"):
        unpacked_tensors(table)
