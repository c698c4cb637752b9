"""GGUF headers that break other readers and those found by fuzzing: each is read, or refused with a reason."""

import io
import os
import tracemalloc
from pathlib import Path

import pytest
from gguf_bytes import parsed

from unslow.look.models.gguf import read_gguf
from unslow.look.models.gguf.header import Header, read_header
from unslow.look.models.gguf.window import FileSource, PipeSource
from unslow.look.system import LookError
from unslow.look.system.live import LiveSystem

CORPUS = Path(__file__).parents[1] / "corpus" / "gguf"
REFUSED = {
    "alignment_of_48": "not a power of two",
    "alignment_of_zero": "not a power of two",
    "all_counts_full": "18446744073709551615 tensors",
    "another_format": "not a GGUF file",
    "bytes_wrap_around": "any machine holds",
    "dimensions_without_end": "4294967295 dimensions",
    "elements_wrap_to_few": "any machine holds",
    "elements_wrap_to_zero": "any machine holds",
    "name_of_an_exabyte": "name of 1152921504606846976 bytes",
    "name_that_is_no_text": "not text",
    "negative_counts": "9223372036854775808 tensors",
    "negative_dimension": "any machine holds",
    "nested_arrays_2": "arrays within an array",
    "nested_arrays_5000": "arrays within an array",
    "nothing": "truncated",
    "null_in_a_name": "null byte",
    "numbers_times_four_is_four": "truncated",
    "offset_and_size_wrap_around": "exabyte",
    "offset_wraps_around": "exabyte",
    "overlapping_tensors": "overlap",
    "rows_of_half_a_block": "not whole blocks",
    "strings_times_eight_is_eight": "strings",
    "terabyte_in_one_string": "truncated",
    "terabyte_of_numbers": "truncated",
    "terabyte_of_strings": "strings",
    "terabyte_of_text": "truncated",
    "the_same_key_twice": "'k' twice",
    "the_same_name_twice": "'t' twice",
    "two_million_strings_of_version_1": "truncated",  # in a sparse file they would take a second to step over
}
CUT = {
    "big_endian_version_1": 31,
    "offset_beyond_the_end": 2**40 + 71,
    "shape_larger_than_the_file": 2**40 - 33,
    "terabyte_of_tensor": 2**40 - 993,
}


def test_every_corpus_file_has_an_expectation():
    assert {p.name for p in CORPUS.iterdir()} == REFUSED.keys() | CUT.keys()


@pytest.mark.parametrize("name", REFUSED)
def test_corrupt_corpus_files_are_refused_with_their_reason(name):
    with pytest.raises(LookError, match=REFUSED[name]):
        read_gguf(LiveSystem(), str(CORPUS / name))


@pytest.mark.parametrize("name", CUT)
def test_truncated_corpus_files_report_their_missing_bytes(name):
    assert read_gguf(LiveSystem(), str(CORPUS / name)).missing_bytes == CUT[name]


def as_file(data: bytes) -> Header:
    return parsed(data)


def as_pipe(data: bytes) -> Header:
    reader, writer = os.pipe()
    with open(writer, "wb") as file:
        file.write(data[:60_000])  # what a pipe holds without a reader
    try:
        return read_header(PipeSource(reader))
    finally:
        os.close(reader)


class SparseFile(io.BytesIO):
    """Zeros for ever after."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(size).ljust(size or 0, b"\0")


def as_petabyte(data: bytes) -> Header:
    return read_header(FileSource(SparseFile(data), 2**50))


@pytest.mark.parametrize("name", [p.name for p in sorted(CORPUS.iterdir())])
@pytest.mark.parametrize("read", [as_file, as_pipe, as_petabyte])
def test_every_corpus_file_is_read_or_refused_in_8_mib_of_memory(name, read):
    data = (CORPUS / name).read_bytes()
    reason = ""
    tracemalloc.start()
    try:
        read(data)
    except LookError as error:
        reason = error.why
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert reason.isprintable()
    assert len(reason) < 1000
    assert peak < 8 * 1024**2
