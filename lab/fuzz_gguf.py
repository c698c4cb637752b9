"""Fuzzes the reader of GGUF headers; run from the root of the repository.

    python -m lab.fuzz_gguf dice --count 1000000        # quick: headers from dice, some of their fields made wrong
    python -m lab.fuzz_gguf hypothesis --count 50000    # the same dice in the hands of hypothesis, and random files
    pip install atheris                                 # libFuzzer, guided by the branches that are reached
    python -m lab.fuzz_gguf guided --count 500000
    python -m lab.fuzz_gguf replay lab/fuzz/kept/*      # what was kept

Each input must give an answer or a reason, in two seconds and in 64 MiB. What does not is kept in lab/fuzz/kept: mend
the reader, and move the input to tests/look/models/corpus/gguf, where a test replays it.
"""

import io
import sys
from zlib import crc32

import msgspec
from lab.fuzz.gguf_attacks import CORPUS
from lab.fuzz.gguf_forms import unsound
from lab.fuzz.harness import main
from lab.fuzz.watch import Target

from unslow.look.models.gguf import Assembly, Gguf, blueprint, check_part, model_facts
from unslow.look.models.gguf.header import read_header
from unslow.look.models.gguf.window import FileSource, Source

PETABYTE = 2**50


class SparseSource:
    """A file of a petabyte that starts with the input: whatever it claims could be there."""

    size = PETABYTE

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read(self, at: int, least: int, most: int) -> bytes:  # noqa: ARG002
        """The input, then zeros."""
        return self._data[at : at + most].ljust(most, b"\0")


class PipeLikeSource:
    """A pipe, which does not know its size and gives no more than it must."""

    size = None

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read(self, at: int, least: int, most: int) -> bytes:  # noqa: ARG002
        """As few bytes as are asked for."""
        return self._data[at : at + least]


def source_of(data: bytes) -> Source:
    """The input as a file, a sparse file or a pipe; which of them, it says itself."""
    kinds = (lambda: FileSource(io.BytesIO(data), len(data)), lambda: SparseSource(data), lambda: PipeLikeSource(data))
    return kinds[max(0, crc32(data) % 4 - 1)]()


def read(data: bytes) -> None:
    """Read the header and everything that is made of it; what is recorded must say the same again."""
    source = source_of(data)
    header = read_header(source)
    check_part(header, 0, 1)
    assembly = Assembly("m.gguf")
    assembly.add(header, source.size)
    seen = assembly.gguf()
    again = msgspec.json.decode(msgspec.json.encode(seen), type=Gguf)
    assert again == seen
    model_facts(again)
    plan = blueprint(again)
    assert plan.tensors == header.tensors
    assert source.size != len(data) or seen.missing_bytes > 0 or sum(t.bytes for t in plan.tensors) <= len(data)


if __name__ == "__main__":
    seeds = {path.name: path.read_bytes() for path in sorted(CORPUS.iterdir())}
    target = Target("gguf", "unslow.look.models.gguf", read, unsound, seeds)
    sys.exit(main(target, __doc__ or ""))
