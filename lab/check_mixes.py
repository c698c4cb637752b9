"""Compare the type of every tensor in every mix with what llama-quantize itself picks.

    python lab/check_mixes.py --quantize PATH/llama-quantize HEADER.gguf...             prints what differs
    python lab/check_mixes.py --quantize PATH/llama-quantize HEADER.gguf... --record F  also writes the picks to F

The picks are the program's own. For each header (only the part before the weights is needed, such as
lab/write_headers.py writes) a sparse file is made with the same metadata and tensors, but in 16 bits, as the converter
writes them, and `llama-quantize --dry-run` says for each tensor which type it would get. It asks for no sound model, so
that headers with every tensor of an architecture and made-up shapes do as well.

tests/think/quantise/quantise_truth.jsonl was made with the llama.cpp in the source package of llama-cpp-python 0.3.36
(tools/quantize linked to its static libraries). One line for each model: the metadata that the choice depends on, and
for each kind of tensor (its name without the layer) the layers and shapes, then its types in each mix, as letters with
counts: `4m2k` is four of the type m, then two of k. What the program leaves as it was has `=`, a mix that it refuses
`!`. The first line has the mixes and the letters. Tensors that are published quantised (the experts of gpt-oss) are not
compared: the program refuses to quantise them again.
"""

import argparse
import json
import mmap
import re
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from unslow.catalog.quants import mixes, quants
from unslow.facts.errors import UserError
from unslow.think.quantise import WIDE, layer_of, stored_type, types_of

_FIXED = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_LAYER = re.compile(r"^blk\.\d+\.")
_SAID = re.compile(r"\[ *\d+/ *\d+\] (\S+) +- \[.*?\], type = +(\w+), (?:.*?\((\w+)\))?")
_KEYS = ("block_count", "attention.head_count", "attention.head_count_kv", "expert_count")
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
# With and without an importance matrix these differ; the other mixes do not.
MATRIX_MATTERS = ("IQ3_XXS", "IQ4_NL", "IQ4_XS", "Q4_0", "Q5_0")


class Source(NamedTuple):
    """A header: its metadata as values and as bytes, and its tensors."""

    name: str
    metadata: dict[str, Any]
    keys: int
    metadata_bytes: bytes
    tensors: list[tuple[str, tuple[int, ...]]]

    @property
    def architecture(self) -> str:
        """As the file names it."""
        return str(self.metadata["general.architecture"])


class _Cursor:
    def __init__(self, data: mmap.mmap) -> None:
        self.data, self.at = data, 0

    def number(self, code: str) -> Any:
        (value,) = struct.unpack_from("<" + code, self.data, self.at)
        self.at += struct.calcsize("<" + code)
        return value

    def text(self) -> str:
        length = self.number("Q")
        self.at += length
        return self.data[self.at - length : self.at].decode("utf-8", "replace")

    def value(self, kind: int) -> Any:
        if kind == _STRING:
            return self.text()
        if kind == _ARRAY:
            inner, count = self.number("I"), self.number("Q")
            return [self.value(inner) for _ in range(count)]
        return self.number(_FIXED[kind])


def read_source(path: Path) -> Source:
    """The header of a GGUF file of version 2 or 3."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return parse_source(path.stem, data)


def parse_source(name: str, data: mmap.mmap) -> Source:
    """The header at the start of a GGUF file."""
    cursor = _Cursor(data)
    cursor.at = 8
    tensors, keys = cursor.number("Q"), cursor.number("Q")
    start, metadata = cursor.at, {}
    for _ in range(keys):
        key = cursor.text()
        metadata[key] = cursor.value(cursor.number("I"))
    metadata_bytes = cursor.data[start : cursor.at]
    return Source(name, metadata, keys, metadata_bytes, [_read_tensor(cursor) for _ in range(tensors)])


def _read_tensor(cursor: _Cursor) -> tuple[str, tuple[int, ...]]:
    name = cursor.text()
    shape = tuple(cursor.number("Q") for _ in range(cursor.number("I")))
    cursor.at += 12  # type and offset
    return name, shape


def write_sparse(source: Source, wide: str, path: Path) -> dict[str, str]:
    """A file of the same tensors, unquantised and without weights; the type of each."""
    types = {name: _unquantised(source, name, shape, wide) for name, shape in source.tensors}
    parts = [b"GGUF", struct.pack("<IQQ", 3, len(source.tensors), source.keys), source.metadata_bytes]
    offset = 0
    for name, shape in source.tensors:
        quant = quants()[types[name]]
        info = struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, quant.ggml_type, offset)
        parts.append(struct.pack("<Q", len(name.encode())) + name.encode() + info)
        rows = 1
        for length in shape[1:]:
            rows *= length
        offset += -(-quant.bytes_of(shape[0]) * rows // 32) * 32
    header = b"".join(parts)
    with path.open("wb") as file:
        file.write(header)
        file.truncate(-(-len(header) // 32) * 32 + offset)
    return types


def _unquantised(source: Source, name: str, shape: tuple[int, ...], wide: str) -> str:
    return stored_type(source.architecture, name, shape, wide)


def picked(quantize: str, file: Path, mix: str, types: dict[str, str], matrix: Path | None) -> dict[str, str]:
    """What llama-quantize would give each tensor."""
    chosen = mixes()[mix]
    options = ["--imatrix", str(matrix)] if matrix else []
    if chosen.tables:
        options += ["--token-embedding-type", chosen.tables.lower(), "--output-tensor-type", chosen.tables.lower()]
    command = [quantize, *options, "--dry-run", str(file), chosen.like or mix]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = {m[1]: (m[3] or m[2]).upper() for m in _SAID.finditer(done.stdout + done.stderr)}
    if "no tensor type fallback is defined" in done.stdout + done.stderr:
        return {}
    if set(said) != set(types):
        raise SystemExit(f"{' '.join(command)} failed:\n{(done.stdout + done.stderr)[-2000:]}")
    return said


def write_matrix(source: Source, path: Path) -> None:
    """An importance matrix of the old format that knows one tensor, which is enough to have one."""
    name, shape = next((n, s) for n, s in source.tensors if len(s) > 1)
    entry = (
        struct.pack("<i", len(name)) + name.encode() + struct.pack(f"<ii{shape[0]}f", 1, shape[0], *[1.0] * shape[0])
    )
    path.write_bytes(struct.pack("<i", 1) + entry)


def cases() -> Iterator[tuple[str, bool]]:
    """Each mix, and those that differ again with an importance matrix."""
    for name in mixes():
        yield name, False
        if name in MATRIX_MATTERS:
            yield name, True


def check(source: Source, quantize: str, folder: Path) -> tuple[dict[str, dict[str, str]], int]:
    """What llama-quantize picked in each case, and how many tensors `types_of` gave another type."""
    found, wrong, written = {}, 0, ""
    file, matrix = folder / "model.gguf", folder / "matrix.dat"
    write_matrix(source, matrix)
    for mix, with_matrix in sorted(cases(), key=lambda c: mixes()[c[0]].main_type.name):
        main = mixes()[mix].main_type.name
        wide = main if main in ("F32", "BF16") else "F16"
        if wide != written:
            types, written = write_sparse(source, wide, file), wide
        real = picked(quantize, file, mix, types, matrix if with_matrix else None)
        for (name, shape), our in zip(source.tensors, ours_of(source, mix, matrix=with_matrix), strict=True):
            if real.get(name, "refused") != our and types[name] in WIDE:
                wrong += 1
                if wrong < 40:
                    print(
                        f"{source.name} {mix}{' with a matrix' if with_matrix else ''}: {name} {list(shape)}: "
                        f"{our}, llama-quantize picks {real.get(name)}"
                    )
        found[mix + "+matrix" * with_matrix] = {
            n: "=" if t == types[n] or types[n] not in WIDE else t for n, t in real.items()
        }
    return found, wrong


def ours_of(source: Source, mix: str, *, matrix: bool) -> list[str]:
    """What `types_of` gives each tensor; "refused" where it refuses the mix."""
    try:
        return types_of(source.architecture, source.metadata, source.tensors, mix, importance_matrix=matrix)
    except UserError:
        return ["refused"] * len(source.tensors)


def recorded(source: Source, found: dict[str, dict[str, str]], letters: dict[str, str]) -> dict[str, Any]:
    """One line of the recording."""
    kinds: dict[str, list[tuple[str, tuple[int, ...]]]] = {}
    for name, shape in sorted(source.tensors, key=lambda t: (layer_of(t[0]), t[0])):
        kinds.setdefault(_LAYER.sub("blk.*.", name), []).append((name, shape))
    keys = [f"{source.architecture}.{key}" for key in _KEYS]
    return {
        "model": source.name,
        "architecture": source.architecture,
        "metadata": {key: source.metadata[key] for key in keys if key in source.metadata},
        "tensors": {kind: _kind(members, found, letters) for kind, members in kinds.items()},
    }


def _kind(
    members: list[tuple[str, tuple[int, ...]]], found: dict[str, dict[str, str]], letters: dict[str, str]
) -> list[Any]:
    """The layers, the runs of shapes, and the runs of types in each case."""
    layers = [layer_of(name) for name, _ in members]
    shapes = [[len(list(run)), list(shape)] for shape, run in groupby(shape for _, shape in members)]
    cases = [_runs([letters[of.get(name, "refused")] for name, _ in members]) for of in found.values()]
    return [_runs_of_layers(layers), shapes, "=" if set(cases) == {"="} else ",".join(cases)]


def _runs(letters: list[str]) -> str:
    """A letter for each, with a count before it where there are several in a row; one for all alone."""
    if len(set(letters)) == 1:
        return letters[0]
    return "".join(f"{len(list(run))}{letter}" for letter, run in groupby(letters))


def _runs_of_layers(layers: list[int]) -> list[list[int]]:
    """First and last of each run of consecutive numbers."""
    runs = groupby(enumerate(layers), key=lambda pair: pair[1] - pair[0])
    ends = [[layer for _, layer in run] for _, run in runs]
    return [[run[0], run[-1]] for run in ends]


def main() -> int:
    """Run as a script."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("headers", nargs="+", type=Path)
    parser.add_argument("--quantize", required=True)
    parser.add_argument("--record", type=Path)
    arguments = parser.parse_args()
    letters = {"=": "=", "refused": "!"} | dict(zip(sorted(quants()), _LETTERS, strict=False))
    lines: list[dict[str, Any]] = []
    total = 0
    for path in arguments.headers:
        source = read_source(path)
        with tempfile.TemporaryDirectory() as folder:
            found, wrong = check(source, arguments.quantize, Path(folder))
        total += wrong
        print(
            f"{source.name}: {source.architecture}, {len(source.tensors)} tensors, {len(found)} cases, {wrong} differ"
        )
        lines = lines or [{"cases": list(found), "letters": letters}]
        lines.append(recorded(source, found, letters))
    if arguments.record:
        arguments.record.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
