"""Headers that are known to break readers of GGUF, each by name.

python -m lab.fuzz.gguf_attacks    # writes them to tests/look/models/corpus/gguf, where every fuzzing starts from
"""

import struct
from pathlib import Path

CORPUS = Path(__file__).parents[2] / "tests" / "look" / "models" / "corpus" / "gguf"
STRING, ARRAY, U32 = 8, 9, 4
EXABYTE = 2**60


def _text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


def _header(tensors: int, keys: int, rest: bytes = b"") -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, tensors, keys) + rest


def _key(kind: int, value: bytes, name: bytes = b"k") -> bytes:
    return _text(name) + struct.pack("<I", kind) + value


def _array(kind: int, count: int, items: bytes = b"") -> bytes:
    return struct.pack("<IQ", kind, count) + items


def _info(shape: tuple[int, ...], kind: int = 0, offset: int = 0, name: bytes = b"t") -> bytes:
    return _text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)


def attacks() -> dict[str, bytes]:
    """Every known attack; where one has a number, the class of it is meant."""
    return {
        # arrays within arrays, deep enough for the stack of a reader that follows them down
        "nested_arrays_2": _header(0, 1, _key(ARRAY, _array(ARRAY, 1, _array(U32, 1, bytes(4))))),
        "nested_arrays_5000": _header(0, 1, _key(ARRAY, _array(ARRAY, 1) * 5000 + _array(U32, 0))),
        # tensors that lie about the end of the file (CVE-2026-7482)
        "offset_beyond_the_end": _header(1, 0, _info((32,), 0, 2**40) + bytes(64)),
        "offset_wraps_around": _header(1, 0, _info((32,), 0, 2**64 - 32) + bytes(64)),
        "offset_and_size_wrap_around": _header(1, 0, _info((2**48,), 0, 2**64 - 2**50) + bytes(64)),
        "shape_larger_than_the_file": _header(1, 0, _info((2**20, 2**18)) + bytes(64)),
        "elements_wrap_to_zero": _header(1, 0, _info((2**32, 2**32)) + bytes(64)),
        "elements_wrap_to_few": _header(1, 0, _info((2**33 + 1, 2**31)) + bytes(64)),
        "negative_dimension": _header(1, 0, _info((2**64 - 32,)) + bytes(64)),
        "bytes_wrap_around": _header(1, 0, _info((2**62, 1), 0) + bytes(64)),
        "rows_of_half_a_block": _header(1, 0, _info((128, 2), 12) + bytes(288)),
        "overlapping_tensors": _header(2, 0, _info((64,)) + _info((64,), 0, 32, b"u") + bytes(512)),
        # counts that overflow once they are multiplied with a size
        "strings_times_eight_is_eight": _header(0, 1, _key(ARRAY, _array(STRING, 2**61 + 1, _text(b"a")))),
        "numbers_times_four_is_four": _header(0, 1, _key(ARRAY, _array(U32, 2**62 + 1, bytes(4)))),
        "all_counts_full": _header(2**64 - 1, 2**64 - 1),
        "negative_counts": _header(2**63, 2**63),
        "dimensions_without_end": _header(1, 0, _text(b"t") + struct.pack("<I", 2**32 - 1) + bytes(64)),
        # a terabyte claimed in a kilobyte
        "terabyte_of_text": _header(0, 1, _key(STRING, struct.pack("<Q", 2**40) + bytes(1000))),
        "terabyte_of_numbers": _header(0, 1, _key(ARRAY, _array(U32, 2**38, bytes(1000)))),
        "terabyte_of_strings": _header(0, 1, _key(ARRAY, _array(STRING, 2**37, bytes(1000)))),
        "terabyte_in_one_string": _header(
            0, 1, _key(ARRAY, _array(STRING, 40, _text(b"a") * 39 + b"\0\0\0\0\0\1\0\0"))
        ),
        "terabyte_of_tensor": _header(1, 0, _info((2**38,)) + bytes(1000)),
        "name_of_an_exabyte": _header(0, 1, struct.pack("<Q", EXABYTE) + bytes(64)),
        # names that C and Python read differently
        "null_in_a_name": _header(2, 0, _info((1,)) + _info((1,), 0, 32, b"t\0")),
        "name_that_is_no_text": _header(1, 0, _info((1,), 0, 0, b"\xff\xfe\xed\xa0\x80")),
        "the_same_name_twice": _header(2, 0, _info((1,)) + _info((1,), 0, 32)),
        "the_same_key_twice": _header(0, 2, _key(U32, bytes(4)) * 2),
        # the rest
        "alignment_of_zero": _header(1, 1, _key(U32, bytes(4), b"general.alignment") + _info((1,))),
        "alignment_of_48": _header(1, 1, _key(U32, struct.pack("<I", 48), b"general.alignment") + _info((1,))),
        "big_endian_version_1": b"GGUF" + struct.pack(">III", 1, 1, 0) + struct.pack(">I", 1) + b"t" + bytes(16),
        "another_format": b"PK\x03\x04" + bytes(60),
        "nothing": b"",
    }


if __name__ == "__main__":
    CORPUS.mkdir(parents=True, exist_ok=True)
    for name, data in attacks().items():
        (CORPUS / name).write_bytes(data)
