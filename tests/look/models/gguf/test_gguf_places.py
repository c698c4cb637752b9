"""Tensor offsets: impossible ones are refused, missing bytes are reported."""

import pytest
from gguf_bytes import U32, header, info, key, parsed

from unslow.facts.model import Tensor
from unslow.look.engine.made_up_models import TensorPlan, encoded_header
from unslow.look.system import LookError

F32, Q4_K, UNKNOWN = 0, 12, 99


def test_a_tensor_of_an_unknown_type_ends_at_the_next_offset():
    plans = [TensorPlan("a", (64,), UNKNOWN, 96), TensorPlan("b", (64,), 98, 32)]
    sizes = [t.bytes for t in parsed(encoded_header({}, plans) + bytes(128)).tensors]
    assert sizes == [96, 32]


def test_an_unknown_type_in_a_truncated_file_ends_at_the_next_offset():
    data = encoded_header({}, [TensorPlan("a", (64,), UNKNOWN, 96), TensorPlan("b", (8,), F32, 32)])
    found = parsed(data + bytes(40))
    assert [t.bytes for t in found.tensors] == [96, 32]
    assert found.cut == (88, "a")


def test_the_last_tensor_of_an_unknown_type_takes_the_remaining_bytes():
    data = header(1, 0, info(b"a", (64,), UNKNOWN))
    assert parsed(data + bytes(-len(data) % 32) + bytes(77)).tensors[0].bytes == 77
    assert parsed(data).tensors[0].bytes == 0


@pytest.mark.parametrize("there", [0, 1, 1151, 1152, 2175])
def test_a_truncated_file_reports_missing_bytes_and_the_cut_tensor(there):
    plans = [TensorPlan("a", (256, 8), Q4_K, 1152), TensorPlan("b", (256,), F32, 1024)]
    data = encoded_header({}, plans)
    found = parsed(data + bytes(there))
    assert found.cut == (2176 - there, "a" if there < 1152 else "b")
    assert [t.bytes for t in found.tensors] == [1152, 1024]
    assert parsed(data + bytes(2176)).cut is None


def test_a_header_without_its_padding_is_a_truncated_file():
    data = header(1, 0, info(b"t", (4,)))
    assert parsed(data).cut == (-len(data) % 32 + 16, "t")


def test_the_last_tensor_needs_no_padding():
    data = encoded_header({}, [TensorPlan("t", (5,), F32, 20)])
    assert parsed(data + bytes(20)).cut is None


def test_a_custom_alignment_is_used():
    infos = info(b"a", (4,)) + info(b"b", (4,), F32, 256)
    data = header(2, 1, key(b"general.alignment", U32, (256).to_bytes(4, "little")) + infos)
    whole = data + bytes(-len(data) % 256) + bytes(256 + 16)
    assert parsed(whole).cut is None
    assert parsed(whole[:-1]).cut == (1, "b")


def test_tensors_in_any_order_and_with_gaps_are_read():
    infos = info(b"b", (8,), F32, 320) + info(b"a", (8,), F32, 0)
    assert [t.name for t in parsed(header(2, 0, infos)).tensors] == ["b", "a"]


def test_tensors_without_elements_have_no_bytes():
    infos = info(b"none", (0, 4)) + info(b"scalar", ()) + info(b"nothing", (0,), UNKNOWN)
    assert parsed(header(3, 0, infos)).tensors == [
        Tensor("none", "F32", (0, 4), 0),
        Tensor("scalar", "F32", (1,), 4),
        Tensor("nothing", "type 99", (0,), 0),
    ]


@pytest.mark.parametrize(
    ("infos", "why"),
    [
        ([(b"t", (4,)), (b"t", (4,), F32, 32)], "tensor 't' twice"),
        ([(b"a", (16,)), (b"b", (4,), F32, 32)], "overlap: 'a' and 'b'"),
        ([(b"a", (4,)), (b"b", (4,))], "overlap"),
        ([(b"a", (64,), F32, 32), (b"b", (4,), F32, 128), (b"c", (4,))], "overlap: 'a' and 'b'"),
        ([(b"a", (4,), UNKNOWN, 0), (b"b", (4,), UNKNOWN, 0), (b"c", (4,), F32, 32)], "overlap"),
        ([(b"a", (4,), F32, 16)], "not a multiple of 32"),
        ([(b"a", (4,), F32, 2**64 - 32)], "exabyte"),
        ([(b"a", (2**50,), F32, 2**60 - 2**52 + 32)], "exabyte"),
        ([(b"a", (255, 256), Q4_K)], "not whole blocks of 256"),
        ([(b"a", (), Q4_K)], "not whole blocks of 256"),
    ],
)
def test_impossible_tensor_offsets_are_refused(infos, why):
    with pytest.raises(LookError, match=why):
        parsed(header(len(infos), 0, b"".join(info(*i) for i in infos)))


def test_a_terabyte_tensor_in_a_small_file_is_missing_bytes():
    found = parsed(header(1, 0, info(b"huge", (2**20, 2**18))) + bytes(1000))
    assert found.tensors[0].bytes == 2**40
    assert found.cut is not None
    assert found.cut.tensor == "huge"
    assert found.cut.missing_bytes > 2**40 - 1000
