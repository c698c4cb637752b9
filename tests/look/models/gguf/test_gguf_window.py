"""The read window: time and memory are bounded whatever a file claims."""

import contextlib
import io
import struct
import tracemalloc

import pytest
from gguf_bytes import ARRAY, STRING, array, header, key, parsed, text
from hypothesis import given, settings
from hypothesis import strategies as st

from unslow.look.engine.made_up_models import encoded_header
from unslow.look.models.gguf.header import read_header
from unslow.look.models.gguf.window import MOST_HEADER_BYTES, FileSource, stepped_over_strings
from unslow.look.system import LookError

LENGTHS = [struct.Struct(form) for form in ("<Q", ">Q", "<I", ">I")]


def test_a_vocabulary_larger_than_the_window_is_skipped():
    words = [f"{n:060}" for n in range(20_000)] + [f"{n:07}" for n in range(100_000)]
    found = parsed(encoded_header({"tokenizer.ggml.tokens": words, "after": 7}, []))
    assert found.array_lengths == {"tokenizer.ggml.tokens": 120_000}
    assert found.metadata == {"after": 7}


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(LENGTHS),
    st.lists(st.one_of(st.integers(0, 40), st.sampled_from([0, 31, 32, 255, 256, 300])), max_size=150),
    st.integers(0, 400),
    st.binary(max_size=64),
)
def test_skipping_strings_equals_reading_them_one_by_one(length, sizes, count, after):
    filler = b"\x07\0\0\0\0\0\0\0abcdefg" * 30  # bytes that look like strings themselves
    data = b"".join(length.pack(n) + filler[:n] for n in sizes) + after
    at, done = 0, 0
    while done < count and at + length.size <= len(data):
        at += length.size + length.unpack_from(data, at)[0]
        done += 1
    assert stepped_over_strings(length, data, 0, count) == (done, at)


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
    "empty strings": (header(0, 2, key(b"k", ARRAY, array(STRING, 1_999_999))), b"\0"),
    "strings longer than a window": (header(0, 1, key(b"k", ARRAY, array(STRING, 10**6))), struct.pack("<Q", 2**23)),
    "texts longer than a window": (header(0, 10_000), key(b"k", STRING, struct.pack("<Q", 2**24 - 21))),
    "long names": (header(0, 10_000), key(b"k" * 65_000, STRING, text(b"v" * 4000))),
    "many lists": (header(0, 10_000), key(b"k", ARRAY, array(STRING, 1, text(b"")))),
}


@pytest.mark.parametrize("what", ENDLESS)
def test_a_header_that_claims_a_petabyte_is_never_read(what):
    file = EndlessFile(*ENDLESS[what])
    with contextlib.suppress(LookError):
        read_header(FileSource(file, 2**50))
    assert file.bytes_read <= MOST_HEADER_BYTES + 2**20


HOARDS = {
    "names and texts": lambda n: key(b"%05d" % n + b"k" * 65_000, STRING, text("é€🙂".encode() * 400)),
    "bytes that are not text": lambda n: key(b"%05d" % n, STRING, text(b"\xff" * 4096)),
    "arrays": lambda n: key(b"%05d" % n, ARRAY, array(4, 1024, struct.pack("<1024I", *range(10**6, 10**6 + 1024)))),
}


@pytest.mark.parametrize("what", HOARDS)
def test_metadata_above_4_mib_is_refused(what, wording):
    count = 6 * 1024**2 // len(HOARDS[what](0))
    data = header(0, count, b"".join(HOARDS[what](n) for n in range(count)))
    tracemalloc.start()
    with pytest.raises(LookError) as refused:
        parsed(data)
    peak = tracemalloc.get_traced_memory()[1]
    wording(refused.value.why, tells="4 MiB")
    tracemalloc.stop()
    assert peak < 16 * 1024**2
