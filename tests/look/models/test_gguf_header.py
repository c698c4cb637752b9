"""The header as bytes: every version and byte order, and what strangers could put there."""

import contextlib
import io
import struct
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unslow.look.engine.gguf_writer import Float32, Int32, TensorPlan, encoded_header
from unslow.look.models.gguf_header import Header, read_header
from unslow.look.system import LookError

HUGE = 2**60
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


def parsed(data: bytes, size: int | None = None) -> Header:
    return read_header(io.BytesIO(data), len(data) if size is None else size)


def text(value: bytes, order: str = "<", length: str = "Q") -> bytes:
    return struct.pack(order + length, len(value)) + value


def header(tensors: int, keys: int, rest: bytes = b"", version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, keys) + rest


def key(name: bytes, kind: int, value: bytes) -> bytes:
    return text(name) + struct.pack("<I", kind) + value


def array(kind: int, count: int, items: bytes = b"") -> bytes:
    return struct.pack("<IQ", kind, count) + items


def test_what_was_written_is_read():
    found = parsed(GOOD)
    assert found.version == 3
    assert found.metadata == {
        "general.architecture": "llama",
        "general.file_type": 15,
        "llama.attention.head_count_kv": [8, 0, 4],
        "llama.rope.freq_base": 10000.0,
        "unslow.made_up": True,
    }
    assert found.array_lengths == {"tokenizer.ggml.tokens": 3, "tokenizer.ggml.scores": 3}
    assert [(t.name, t.elements, t.type, t.bytes) for t in found.tensors] == [
        ("token_embd.weight", 2048, "Q4_K", 1152),
        ("output_norm.weight", 256, "F32", 1024),
    ]


@pytest.mark.parametrize(("version", "order", "length"), [(1, "<", "I"), (2, "<", "Q"), (2, ">", "Q"), (3, ">", "Q")])
def test_other_versions_and_byte_orders(version, order, length):
    data = b"GGUF" + struct.pack(f"{order}I2{length}", version, 1, 2)
    data += text(b"general.name", order, length) + struct.pack(f"{order}I", 8) + text(b"x", order, length)
    data += text(b"words", order, length) + struct.pack(f"{order}II{length}", 9, 8, 2) + 2 * text(b"w", order, length)
    data += text(b"t", order, length) + struct.pack(f"{order}I2{length}IQ", 2, 32, 4, 8, 0)
    found = parsed(data)
    assert found.metadata == {"general.name": "x"}
    assert found.array_lengths == {"words": 2}
    assert found.tensors[0].bytes == 4 * 34


def test_a_vocabulary_larger_than_the_window():
    words = [f"{n:060}" for n in range(130_000)]
    found = parsed(encoded_header({"tokenizer.ggml.tokens": words, "after": 7}, TENSORS))
    assert found.array_lengths == {"tokenizer.ggml.tokens": 130_000}
    assert found.metadata == {"after": 7}
    assert len(found.tensors) == 2


def test_a_long_text_is_stepped_over():
    found = parsed(encoded_header({"tokenizer.chat_template": "x" * 50_000, "after": 7}, []))
    assert found.metadata == {"after": 7}
    assert found.array_lengths == {"tokenizer.chat_template": 50_000}


def test_a_number_that_is_none_is_left_out():
    assert parsed(encoded_header({"a": float("nan"), "b": float("inf"), "c": 1}, [])).metadata == {"c": 1}


def test_a_tensor_of_an_unknown_type_ends_where_the_next_one_starts():
    plans = [TensorPlan("a", (64,), 99, 96), TensorPlan("b", (64,), 98, 32)]
    data = encoded_header({}, plans)
    sizes = [t.bytes for t in parsed(data + bytes(128)).tensors]
    assert sizes[0] == 96
    assert 32 <= sizes[1] < 64  # the last one takes the padding with it


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "cut short"),
        (b"GG", "cut short"),
        (b"PK\x03\x04" + bytes(100), "not a GGUF file"),
        (b"GGUF", "cut short"),
        (header(0, 0, version=0), "version 0"),
        (header(0, 0, version=9), "version 9"),
        (header(HUGE, 0), "tensors"),
        (header(0, HUGE), "metadata keys"),
        (header(60_000, 0), "cut short"),
        (header(0, 1, struct.pack("<Q", HUGE)), "name of a key"),
        (header(0, 1, key(b"k", 8, struct.pack("<Q", HUGE))), "cut short"),
        (header(0, 1, key(b"k", 8, struct.pack("<Q", 2**64 - 1))), "cut short"),
        (header(0, 1, key(b"k", 77, b"")), "unknown type 77"),
        (header(0, 1, key(b"k", 9, array(9, 1, array(9, 1)))), "array of the type 9"),
        (header(0, 1, key(b"k", 9, array(77, 1))), "array of the type 77"),
        (header(0, 1, key(b"k", 9, array(8, HUGE))), "strings"),
        (header(0, 1, key(b"k", 9, array(8, 3, text(b"one")))), "cut short"),
        (header(0, 1, key(b"k", 9, array(8, 2, struct.pack("<Q", HUGE)))), "cut short"),
        (header(0, 1, key(b"k", 9, array(8, 2, struct.pack("<Q", 2**64 - 1) + bytes(64)))), "cut short"),
        (header(0, 1, key(b"k", 9, array(4, HUGE))), "cut short"),
        (header(0, 1, key(b"k", 9, array(4, 100))), "cut short"),
        (header(1, 0, text(b"t") + struct.pack("<I", 4_000_000_000)), "dimensions"),
        (header(1, 0, text(b"t") + struct.pack("<I8QIQ", 8, *[2**63] * 8, 0, 0)), "elements"),
        (GOOD[:-40], "cut short"),
    ],
)
def test_what_is_not_sound_is_refused_with_a_reason(data, why):
    with pytest.raises(LookError, match=why):
        parsed(data)


class EndlessFile(io.RawIOBase):
    """A sparse file of a petabyte: a start, then the same few bytes for ever."""

    def __init__(self, start: bytes, then: bytes) -> None:
        self.start, self.then = start, then
        self.at = self.bytes_read = 0

    def seek(self, offset: int, whence: int = 0) -> int:
        self.at = offset
        return offset

    def read(self, size: int = -1) -> bytes:
        self.bytes_read += size
        data = self.start[self.at :][:size]
        place = (self.at + len(data) - len(self.start)) % len(self.then)
        data += (self.then[place:] + self.then * (size // len(self.then) + 1))[: size - len(data)]
        self.at += size
        return data


ENDLESS = {
    "keys and tensors": (header(65_536, 10_000), b"\0"),
    "empty strings": (header(0, 2, key(b"k", 9, array(8, 1_999_999))), b"\0"),
    "strings longer than a window": (header(0, 1, key(b"k", 9, array(8, 1_000_000))), struct.pack("<Q", 2**23)),
    "texts longer than a window": (header(0, 10_000), key(b"k", 8, struct.pack("<Q", 2**24 - 21))),
    "long names": (header(0, 10_000), key(b"k" * 65_000, 8, text(b"v" * 4000))),
    "many lists": (header(0, 10_000), key(b"k", 9, array(8, 1, text(b"")))),
}


@pytest.mark.parametrize("what", ENDLESS)
def test_a_petabyte_of_header_is_never_read(what):
    file = EndlessFile(*ENDLESS[what])
    with contextlib.suppress(LookError):
        read_header(file, 2**50)
    assert file.bytes_read <= 256 * 1024**2


def test_long_names_are_not_hoarded():
    tracemalloc.start()
    with pytest.raises(LookError, match="MiB of names"):
        read_header(EndlessFile(*ENDLESS["long names"]), 2**50)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 * 1024**2


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_garbage_gives_a_header_or_a_reason(data):
    changed = bytearray(GOOD)
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(4, len(changed) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(changed)))
    for attempt in (bytes(changed), bytes(changed[:cut])):
        with contextlib.suppress(LookError):
            assert isinstance(parsed(attempt), Header)
