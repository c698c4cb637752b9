"""GGUF headers as bytes: every version and byte order, and hostile content."""

import contextlib
import struct

import pytest
from gguf_bytes import ARRAY, HUGE, STRING, U32, array, header, info, key, nested, parsed, text
from hypothesis import given, settings
from hypothesis import strategies as st

from unslow.facts.model import Tensor
from unslow.look.engine.made_up_models import Float32, Int32, TensorPlan, encoded_header
from unslow.look.models.gguf.header import Header
from unslow.look.system import LookError

METADATA = {
    "general.architecture": "llama",
    "general.file_type": 15,
    "tokenizer.ggml.tokens": ["a", "", "long word"],
    "tokenizer.ggml.scores": Float32([0.0, 1.0, 2.0]),
    "llama.attention.head_count_kv": Int32([8, 0, 4]),
    "llama.rope.freq_base": 10000.0,
    "unslow.made_up": True,
}
TENSORS = [TensorPlan("token_embd.weight", (256, 8), 12, 8 * 144), TensorPlan("output_norm.weight", (256,), 0, 1024)]
GOOD = encoded_header(METADATA, TENSORS)


def test_a_written_header_is_read_back():
    found = parsed(GOOD + bytes(8 * 144 + 1024))
    assert found.version == 3
    assert found.metadata == {
        "general.architecture": "llama",
        "general.file_type": 15,
        "llama.attention.head_count_kv": [8, 0, 4],
        "llama.rope.freq_base": 10000.0,
        "unslow.made_up": True,
    }
    assert found.array_lengths == {"tokenizer.ggml.tokens": 3, "tokenizer.ggml.scores": 3}
    assert found.tensors == [
        Tensor("token_embd.weight", "Q4_K", (256, 8), 1152),
        Tensor("output_norm.weight", "F32", (256,), 1024),
    ]
    assert found.cut is None


@pytest.mark.parametrize(("version", "order", "length"), [(1, "<", "I"), (2, "<", "Q"), (2, ">", "Q"), (3, ">", "Q")])
def test_gguf_versions_1_to_3_and_both_byte_orders_are_read(version, order, length):
    data = b"GGUF" + struct.pack(f"{order}I2{length}", version, 1, 3)
    data += text(b"general.name", order, length) + struct.pack(f"{order}I", STRING) + text(b"x", order, length)
    words = b"".join(text(b"w" * (n % 40), order, length) for n in range(100))
    data += text(b"words", order, length) + struct.pack(f"{order}II{length}", ARRAY, STRING, 100) + words
    data += text(b"heads", order, length) + struct.pack(f"{order}II{length}2H", ARRAY, 2, 2, 8, 4)
    data += text(b"t", order, length) + struct.pack(f"{order}I2{length}IQ", 2, 32, 4, 8, 0)
    found = parsed(data)
    assert found.metadata == {"general.name": "x", "heads": [8, 4]}
    assert found.array_lengths == {"words": 100}
    assert found.tensors == [Tensor("t", "Q8_0", (32, 4), 4 * 34)]


def test_boolean_arrays_per_layer_are_kept():
    data = header(0, 1, key(b"gemma3.sliding_window_pattern", ARRAY, array(7, 3, bytes([1, 0, 2]))))
    assert parsed(data).metadata == {"gemma3.sliding_window_pattern": [1, 0, 1]}


def test_a_long_string_value_is_skipped():
    found = parsed(encoded_header({"tokenizer.chat_template": "x" * 50_000, "after": 7}, []))
    assert found.metadata == {"after": 7}
    assert found.array_lengths == {"tokenizer.chat_template": 50_000}


def test_nan_and_infinity_are_left_out():
    assert parsed(encoded_header({"a": float("nan"), "b": float("inf"), "c": 1}, [])).metadata == {"c": 1}


def test_invalid_utf_8_is_replaced():
    assert parsed(header(0, 1, key(b"general.name", STRING, text(b"caf\xe9")))).metadata == {"general.name": "caf�"}


def aligned(to: int, kind: int = U32) -> bytes:
    return key(b"general.alignment", kind, struct.pack("<I", to))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "truncated"),
        (b"GG", "truncated"),
        (b"PK\x03\x04" + bytes(100), "not a GGUF file"),
        (b"GGUF", "truncated"),
        (header(0, 0, version=0), "version 0"),
        (header(0, 0, version=9), "version 9"),
        (header(HUGE, 0), "tensors"),
        (header(0, HUGE), "metadata keys"),
        (header(2**64 - 1, 2**64 - 1), "tensors"),
        (header(60_000, 0), "truncated"),
        (header(0, 1, struct.pack("<QQ", HUGE, 0)), "name of 1152921504606846976 bytes"),
        (header(0, 1, key(b"k", STRING, struct.pack("<Q", HUGE))), "truncated"),
        (header(0, 1, key(b"k", STRING, struct.pack("<Q", 2**64 - 1))), "truncated"),
        (header(0, 1, key(b"k", 77, b"")), "unknown type 77"),
        (header(0, 1, key(b"", U32, bytes(4))), "key without a name"),
        (header(0, 2, 2 * key(b"k", U32, bytes(4))), "key 'k' twice"),
        (header(0, 2, key(b"k", U32, bytes(4)) + key(b"k", ARRAY, array(STRING, 0))), "key 'k' twice"),
        (header(0, 1, key(b"\xff\xfe", U32, bytes(4))), "name is not text"),
        (header(0, 1, key(b"k\0y", U32, bytes(4))), "null byte"),
        (nested(1), "arrays within an array"),
        (nested(100_000), "arrays within an array"),  # breaks a reader that follows them down
        (header(0, 1, key(b"k", ARRAY, array(77, 1))), "array of the type 77"),
        (header(0, 1, key(b"k", ARRAY, array(STRING, HUGE))), "strings"),
        (header(0, 1, key(b"k", ARRAY, array(STRING, 1_000_000))), "truncated"),
        (header(0, 1, key(b"k", ARRAY, array(STRING, 3, text(b"one")))), "truncated"),
        (header(0, 1, key(b"k", ARRAY, array(STRING, 2, struct.pack("<Q", HUGE)))), "truncated"),
        (header(0, 1, key(b"k", ARRAY, array(STRING, 2, struct.pack("<Q", 2**64 - 1) + bytes(64)))), "truncated"),
        (header(0, 1, key(b"k", ARRAY, array(U32, HUGE))), "truncated"),
        (header(0, 1, key(b"k", ARRAY, array(U32, 2**62 + 1))), "truncated"),  # four times that is 4 in 64 bits
        (header(0, 1, key(b"k", ARRAY, array(U32, 100))), "truncated"),
        (header(0, 1, aligned(0)), "alignment '0'"),
        (header(0, 1, aligned(48)), "alignment '48'"),
        (header(0, 1, aligned(64, 5)), "alignment '64'"),
        (header(0, 1, key(b"general.alignment", STRING, text(b"32"))), "alignment '32'"),
        (header(0, 1, key(b"general.alignment", ARRAY, array(U32, 1, bytes(4)))), "alignment"),
        (header(1, 0, text(b"t") + struct.pack("<I", 4_000_000_000) + bytes(8)), "dimensions"),
        (header(1, 0, info(b"t", (2**63,) * 8)), "more than any machine holds"),
        (header(1, 0, info(b"t", (2**32, 2**32))), "more than any machine holds"),  # 0 in 64 bits
        (header(1, 0, info(b"t", (2**64 - 1,))), "more than any machine holds"),
        (header(1, 0, info(b"\xc3", (1,))), "name is not text"),
        (header(1, 0, info(b"t\0", (1,))), "null byte"),
        (header(1, 0, info(b"t" * 1025, (1,))), "name of 1025 bytes"),
        (header(1, 0, text(b"t") + struct.pack("<I", 2) + bytes(10)), "truncated"),
        (GOOD[:-40], "truncated"),
    ],
)
def test_unsound_headers_are_refused_with_a_reason(data, why):
    with pytest.raises(LookError, match=why):
        parsed(data)


def test_every_truncation_of_a_header_is_refused():
    end = len(GOOD.rstrip(b"\0"))
    for cut in range(end - 8):
        with pytest.raises(LookError, match="truncated"):
            parsed(GOOD[:cut])


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_mutated_header_is_read_or_refused(data):
    changed = bytearray(GOOD)
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(4, len(changed) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(changed)))
    for attempt in (bytes(changed), bytes(changed[:cut])):
        with contextlib.suppress(LookError):
            assert isinstance(parsed(attempt), Header)
