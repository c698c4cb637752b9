"""Safetensors headers, sound and unsound."""

import io
import json
import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stored import CHECKPOINTS, safetensors, tensors

from unslow.facts.model import Tensor
from unslow.look.models.safetensors import MOST_HEADER_BYTES, MOST_TENSORS_IN_FILE, Header, read_header
from unslow.look.system import LookError

TWO = tensors(a=("F32", (2, 3)), b=("BF16", (4,)))


def parsed(data: bytes, size: int | None = None) -> Header:
    return read_header(io.BytesIO(data), len(data) if size is None else size)


def refusal(data: bytes, size: int | None = None) -> str:
    with pytest.raises(LookError) as caught:
        parsed(data, size)
    return caught.value.why


def test_names_types_shapes_and_sizes_are_read():
    header = parsed(safetensors({"__metadata__": {"format": "pt"}, **TWO}))
    assert header.tensors == [Tensor("a", "F32", (3, 2), 24), Tensor("b", "BF16", (4,), 8)]
    assert header.notes == {"format": "pt"}


def test_a_file_without_tensors_is_read():
    assert parsed(safetensors({})).tensors == []


def test_tensors_are_sorted_by_offset():
    swapped = dict(reversed(TWO.items()))
    assert [t.name for t in parsed(safetensors(swapped)).tensors] == ["a", "b"]


def test_sub_byte_types_must_fill_whole_bytes(wording):
    half = {"w": {"dtype": "F4", "shape": [6], "data_offsets": [0, 3]}}
    assert parsed(safetensors(half)).tensors == [Tensor("w", "F4", (6,), 3)]
    odd = {"w": {"dtype": "F4", "shape": [5], "data_offsets": [0, 3]}}
    wording(refusal(safetensors(odd)), tells="3 bytes")


def test_an_unknown_dtype_keeps_its_offset_size():
    new = {"w": {"dtype": "F3_E9", "shape": [8], "data_offsets": [0, 3]}}
    assert parsed(safetensors(new)).tensors == [Tensor("w", "F3_E9", (8,), 3)]


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9])
def test_a_file_below_10_bytes_is_refused(size, wording):
    wording(refusal(bytes(size)))


def test_a_wrong_header_length_is_refused(wording):
    whole = safetensors(TWO)
    wording(refusal(struct.pack("<Q", 10_000) + whole[8:]), tells="10000 bytes")
    wording(refusal(struct.pack("<Q", 2**63) + whole[8:]), tells=str(MOST_HEADER_BYTES))
    wording(refusal(struct.pack("<Q", 0) + whole[8:]), tells="{")
    wording(refusal(struct.pack("<Q", 5) + whole[8:]).partition(":")[0])  # what follows are the decoder's words


def test_missing_or_trailing_bytes_are_refused(wording):
    whole = safetensors(TWO)
    wording(refusal(whole[:-1]), tells=("32", "31"))
    wording(refusal(whole + b"x"))
    wording(refusal(whole[:-32]), tells="32")


@pytest.mark.parametrize(
    ("offsets", "why"),
    [
        ([20, 28], "wrong place"),  # overlaps a
        ([25, 33], "wrong place"),  # leaves a gap
        ([24, 20], "wrong place"),  # ends before it starts
        ([24, 33], "can't be 9 bytes"),
        ([-1, 7], ">= 0"),
        ([24, 2**64], "<="),
        ([24], "length 2"),
        ("24", "array"),
    ],
)
def test_wrong_offsets_are_refused(offsets, why):
    assert why in refusal(safetensors({**TWO, "b": {**TWO["b"], "data_offsets": offsets}}, 32))


@pytest.mark.parametrize(
    ("shape", "why"),
    [([5], "can't be"), ([2**40, 2**40], "can't be"), ([-4], ">= 0"), ([1.5], "int"), ([1] * 17, "16")],
)
def test_wrong_shapes_are_refused(shape, why):
    assert why in refusal(safetensors({**TWO, "b": {**TWO["b"], "shape": shape}}, 32))


def test_a_duplicate_tensor_name_is_refused():
    one = json.dumps(TWO).encode()
    twice = one[:-1] + b"," + json.dumps({"a": {"dtype": "U8", "shape": [2], "data_offsets": [32, 34]}}).encode()[1:]
    assert "wrong place: b" in refusal(safetensors(twice, 34))


def test_deeply_nested_json_is_refused():
    assert "recursion" in refusal(safetensors(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", 0))


def test_metadata_must_be_strings_and_long_ones_are_dropped(wording):
    assert parsed(safetensors({"__metadata__": {"a": "x" * 1000, "b": "y"}})).notes == {"b": "y"}
    wording(refusal(safetensors({"__metadata__": {"a": 3}})).partition(":")[0])


def test_a_long_name_is_cut_in_the_refusal():
    long = {"n" * 5000: {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}
    assert len(refusal(safetensors(long))) < 200


def test_too_many_tensors_are_refused_in_bounded_memory():
    crowd = b"{" + b",".join(b'"%x":0' % n for n in range(6 * MOST_TENSORS_IN_FILE)) + b"}"
    data = safetensors(crowd, 0)
    tracemalloc.start()
    assert str(MOST_TENSORS_IN_FILE) in refusal(data)
    assert tracemalloc.get_traced_memory()[1] < 3 * len(crowd)
    tracemalloc.stop()


REAL = [path.read_bytes() for path in sorted(CHECKPOINTS.rglob("*.header"))]


@given(
    st.sampled_from(REAL),
    st.lists(st.tuples(st.integers(0, 4000), st.binary(min_size=1, max_size=8)), max_size=4),
    st.integers(-100, 100),
)
def test_mutated_headers_of_real_files_are_read_or_refused(text, edits, difference):
    changed = bytearray(safetensors(text, 0))
    for place, piece in edits:
        changed[place : place + len(piece)] = piece
    end = max(t["data_offsets"][1] for t in json.loads(text).values() if "data_offsets" in t)
    try:
        header = parsed(bytes(changed), len(changed) + end + difference)
    except LookError as error:
        why, size = error.why, None
    else:
        why, size = "", sum(t.bytes for t in header.tensors)
    assert len(why) < 400
    assert edits or difference or size == end
    assert edits or not difference or why
