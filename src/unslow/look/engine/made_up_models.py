"""Models of any shape with random weights, which llama.cpp runs at the speed of the shape; and where they are kept."""

import math
import os
import random
import re
import shutil
import struct
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from unslow.catalog.architectures import MadeUpShape, made_up_shapes
from unslow.catalog.quants import Quant, file_type_of_mix, file_types, quants, quants_by_ggml_type
from unslow.facts.errors import UserError
from unslow.facts.values import GB, MB
from unslow.look.stored import own_folder

ALIGNMENT = 32  # the format's default

_U32, _F32, _BOOL, _STRING, _ARRAY = 4, 6, 7, 8, 9

POOL_BYTES = 4 * 1024**2
SPREAD = 0.02  # the size of weights in trained models; keeps activations far from overflow

_FLOATS = {"F32": "f", "F16": "e"}

Progress = Callable[[int, int], None]

_UNKNOWN, _CONTROL, _BYTE, _NORMAL = 2, 3, 6, 1  # llama.h, llama_token_type
_EXPERT_KEYS = ("expert_count", "expert_used_count", "expert_feed_forward_length")
_ONE = struct.pack("<f", 1.0)
_NEWS_BYTES = 32 * 1024**2

FORMAT = 1  # raise it whenever the same shape would give other bytes
CAP_BYTES = 4 * GB
SPARE_BYTES = 500 * MB  # a disk filled to the brim harms everyone
STALE_S = 3600

_MODEL = re.compile(r"made-up-[a-z0-9_]+-[A-Z0-9_]+-v\d+\.gguf")
_PART = re.compile(_MODEL.pattern + r"\..+\.part")
_HINT = "set UNSLOW_CACHE_DIR to a folder that you can write to and that has more room"


class Int32(list[int]):
    """An array of 32-bit numbers, where a plain list would be text."""

    type, code = 5, "i"


class Float32(list[float]):
    """An array of floats."""

    type, code = 6, "f"


Value = bool | int | float | str | Int32 | Float32 | list[str]


class TensorPlan(NamedTuple):
    """A tensor to be written: its innermost dimension first, as ggml counts them."""

    name: str
    dimensions: tuple[int, ...]
    ggml_type: int
    bytes: int


class _TensorSpec(NamedTuple):
    name: str
    dimensions: tuple[int, ...]
    part: str = "main"  # Of the mix: main, more_bits or output; f32 is in no mix


class MadeUp(NamedTuple):
    """A model that is planned down to the byte and not yet written."""

    header: bytes
    tensors: list[TensorPlan]

    @property
    def file_bytes(self) -> int:
        return len(self.header) + sum(t.bytes + padding(t.bytes) for t in self.tensors)


def planned_model(shape: MadeUpShape, quant: str, name: str) -> MadeUp:
    """The model of that shape in that mix of types; KeyError where the mix cannot be made up."""
    plans = list(planned_tensors(shape, quant))
    metadata: dict[str, Value] = {
        "general.architecture": shape.architecture,
        "general.name": name,
        "general.file_type": file_type_of_mix(quant)[0].id,
        "unslow.made_up": True,
        **{f"{shape.architecture}.{key}": value for key, value in _hyperparameters(shape).items()},
        **{f"tokenizer.ggml.{key}": value for key, value in _tokenizer(shape.vocabulary).items()},
    }
    return MadeUp(encoded_header(metadata, plans), plans)


def write_model(model: MadeUp, file: BinaryIO, progress: Progress = lambda _done, _total: None) -> None:
    """Write the model; `progress` hears now and then how many bytes are done, and of how many."""
    pools: dict[int, RandomBlocks] = {}
    done = told = file.write(model.header)
    for tensor in model.tensors:
        if tensor.name.endswith("norm.weight"):
            pieces: Iterable[bytes | memoryview] = (_ONE * (tensor.bytes // len(_ONE)),)
        else:
            if tensor.ggml_type not in pools:
                pools[tensor.ggml_type] = RandomBlocks(quants_by_ggml_type()[tensor.ggml_type])
            pieces = pools[tensor.ggml_type].take(tensor.bytes)
        for piece in (*pieces, bytes(padding(tensor.bytes))):
            done += file.write(piece)
            if done - told >= _NEWS_BYTES:
                told = done
                progress(done, model.file_bytes)
    progress(done, model.file_bytes)


def planned_tensors(shape: MadeUpShape, quant: str) -> Iterator[TensorPlan]:
    """The tensors in the order of the file; KeyError where the mix cannot be made up."""
    file_type, main = file_type_of_mix(quant)
    if not file_type.output:
        raise KeyError(quant)
    for wanted in _model(shape):
        names = {"f32": "F32", "output": file_type.output, "more_bits": file_type.more_bits}
        row, *others = wanted.dimensions
        type_ = quants()[names.get(wanted.part) or main.name]
        while row % type_.block_elements or not can_fill(type_):  # as llama.cpp falls back for rows of this length
            type_ = quants()[type_.fallback or "F16"]
        yield TensorPlan(wanted.name, wanted.dimensions, type_.ggml_type, type_.bytes_of(row) * math.prod(others))


def _model(shape: MadeUpShape) -> Iterator[_TensorSpec]:
    table = (shape.width, shape.vocabulary)
    yield _TensorSpec("token_embd.weight", table, "output" if shape.tied else "main")
    yield _TensorSpec("output_norm.weight", (shape.width,), "f32")
    if not shape.tied:
        yield _TensorSpec("output.weight", table, "output")
    eighth = shape.layers // 8
    for n in range(shape.layers):
        # Q4_K_M and Q5_K_M give more bits to both ends and to each third layer between (llama-quant.cpp)
        third = (n - eighth) % 3 == 2  # noqa: PLR2004
        part = "more_bits" if n < eighth or n >= 7 * shape.layers // 8 or third else "main"
        for wanted in _layer(shape, part):
            yield wanted._replace(name=f"blk.{n}.{wanted.name}.weight")


def _layer(shape: MadeUpShape, part: str) -> Iterator[_TensorSpec]:
    width, queries, keys = shape.width, shape.heads * shape.head_length, shape.kv_heads * shape.head_length
    yield _TensorSpec("attn_norm", (width,), "f32")
    yield _TensorSpec("attn_q", (width, queries))
    yield _TensorSpec("attn_k", (width, keys))
    yield _TensorSpec("attn_v", (width, keys), part)
    yield _TensorSpec("attn_output", (queries, width))
    if shape.head_norms:
        yield _TensorSpec("attn_q_norm", (shape.head_length,), "f32")
        yield _TensorSpec("attn_k_norm", (shape.head_length,), "f32")
    yield _TensorSpec("ffn_norm", (width,), "f32")
    if shape.experts:
        yield _TensorSpec("ffn_gate_inp", (width, shape.experts), "f32")
    ending, experts = ("_exps", (shape.experts,)) if shape.experts else ("", ())
    yield _TensorSpec(f"ffn_gate{ending}", (width, shape.feed_forward, *experts))
    yield _TensorSpec(f"ffn_up{ending}", (width, shape.feed_forward, *experts))
    yield _TensorSpec(f"ffn_down{ending}", (shape.feed_forward, width, *experts), part)


def can_fill(quant: Quant) -> bool:
    """Whether this program knows how to make up blocks of that type."""
    return bool(quant.half_fields) or quant.name in _FLOATS


class RandomBlocks:
    """Whole blocks of one type, the same ones in every run.

    Endless random weights of a ggml type: as many bits to read and multiply as real ones, and no meaning. A pool is
    made once for each type and handed out round and round: what decides the speed of a model is how many bytes it has
    and where they lie, never their values, as long as all of them are finite.
    """

    def __init__(self, quant: Quant) -> None:
        dice = random.Random(0)  # noqa: S311 (no secret: the same file on every machine)
        if quant.name in _FLOATS:  # a few normal numbers over and over: drawing each takes longer than writing the file
            few = [dice.gauss(0, SPREAD) for _ in range(8191)]
            times = POOL_BYTES // 8192 // quant.block_bytes
            pool = bytearray(struct.pack(f"<{len(few)}{_FLOATS[quant.name]}", *few) * times)
        else:  # random bits, with scales that are finite and small
            blocks = POOL_BYTES // quant.block_bytes
            pool = bytearray(dice.randbytes(blocks * quant.block_bytes))
            for offset, value in quant.half_fields.items():
                low, high = struct.pack("<e", value)
                pool[offset :: quant.block_bytes] = bytes([low]) * blocks
                pool[offset + 1 :: quant.block_bytes] = bytes([high]) * blocks
        self._pool = memoryview(bytes(pool))
        self._at = 0

    def take(self, count: int) -> Iterator[memoryview]:
        """The next `count` bytes in pieces; the next call goes on where this one ended."""
        while count:
            piece = self._pool[self._at : self._at + count]
            self._at = (self._at + len(piece)) % len(self._pool)
            count -= len(piece)
            yield piece


def _hyperparameters(shape: MadeUpShape) -> dict[str, Value]:
    counts = (shape.experts, shape.experts_used, shape.feed_forward)
    return {
        "block_count": shape.layers,
        "context_length": shape.context_trained,
        "embedding_length": shape.width,
        "feed_forward_length": shape.feed_forward,
        "attention.head_count": shape.heads,
        "attention.head_count_kv": shape.kv_heads,
        "attention.key_length": shape.head_length,
        "attention.value_length": shape.head_length,
        "attention.layer_norm_rms_epsilon": 1e-5,
        "rope.dimension_count": shape.head_length,
        "rope.freq_base": shape.rope_base,
        "vocab_size": shape.vocabulary,
        **(dict(zip(_EXPERT_KEYS, counts, strict=True)) if shape.experts else {}),
    }


def _tokenizer(vocabulary: int) -> dict[str, Value]:
    """A SentencePiece vocabulary in which every byte of a prompt is one token, and which says words of its own."""
    special = ["<unk>", "<s>", "</s>"]
    single_bytes = [f"<0x{n:02X}>" for n in range(256)]
    space = ["▁"]
    first_word = len(special + single_bytes + space)
    words = space + [f"▁w{n}" for n in range(first_word, vocabulary)]
    tokens = special + single_bytes + words
    return {
        "model": "llama",
        "tokens": tokens,
        "scores": Float32([0.0] * len(tokens)),
        "token_type": Int32([_UNKNOWN, _CONTROL, _CONTROL] + [_BYTE] * len(single_bytes) + [_NORMAL] * len(words)),
        "unknown_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "add_bos_token": False,
        "add_space_prefix": False,
    }


def encoded_header(metadata: Mapping[str, Value], tensors: Sequence[TensorPlan]) -> bytes:
    """Everything before the first tensor, padded."""
    parts = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(metadata))]
    parts += [_text(key) + _value(value) for key, value in metadata.items()]
    offset = 0
    for name, dimensions, ggml_type, size in tensors:
        shape = struct.pack(f"<I{len(dimensions)}Q", len(dimensions), *dimensions)
        parts.append(_text(name) + shape + struct.pack("<IQ", ggml_type, offset))
        offset += size + padding(size)
    data = b"".join(parts)
    return data + bytes(padding(len(data)))


def _value(value: Value) -> bytes:
    match value:
        case bool():
            return struct.pack("<I?", _BOOL, value)
        case int():
            return struct.pack("<II", _U32, value)
        case float():
            return struct.pack("<If", _F32, value)
        case str():
            return struct.pack("<I", _STRING) + _text(value)
        case Int32() | Float32():
            return struct.pack(f"<IIQ{len(value)}{value.code}", _ARRAY, value.type, len(value), *value)
        case _:
            return struct.pack("<IIQ", _ARRAY, _STRING, len(value)) + b"".join(map(_text, value))


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def padding(size: int) -> int:
    """Bytes from `size` to the next aligned place."""
    return -size % ALIGNMENT


@dataclass(frozen=True)
class ModelCache:
    """The folder and its limits."""

    folder: Path
    cap_bytes: int = CAP_BYTES
    free_bytes: Callable[[Path], int] = lambda folder: shutil.disk_usage(folder).free

    def model(self, shape: str, quant: str = "", progress: Progress = lambda _done, _total: None) -> Path:
        """The file of a made-up model, written now unless it is there; UserError where it cannot be had."""
        if shape not in made_up_shapes():
            raise UserError(f"unknown shape {shape}", f"known shapes: {', '.join(made_up_shapes())}")
        form = made_up_shapes()[shape]
        quant = quant or form.quant
        path = self.folder / f"made-up-{shape}-{quant}-v{FORMAT}.gguf"
        try:
            model = planned_model(form, quant, f"made-up {shape}")
        except KeyError:
            can = ", ".join(f.name for f, _ in file_types().values() if f.output)
            raise UserError(f"cannot make a model in {quant}", f"known quants: {can}") from None
        try:
            start = b""
            if path.is_file() and path.stat().st_size == model.file_bytes:
                with path.open("rb") as file:
                    start = file.read(len(model.header))
            if start == model.header:  # as this version would write it
                os.utime(path)  # used now, so others are older
            else:
                self._write(model, path, progress)
        except OSError as error:
            raise UserError(f"can't write {path}: {error.strerror or error}", _HINT) from error
        return path

    def _write(self, model: MadeUp, path: Path, progress: Progress) -> None:
        """Write under another name first: whoever looks finds the whole file or none."""
        self.folder.mkdir(parents=True, exist_ok=True)
        handle, part = tempfile.mkstemp(prefix=f"{path.name}.", suffix=".part", dir=self.folder)
        try:
            with os.fdopen(handle, "wb") as file:
                # What a killed run has left; one that is being written is about as new as this one
                for other in self._own_files(_PART):
                    if Path(part).stat().st_mtime - other.stat().st_mtime > STALE_S:
                        other.unlink(missing_ok=True)
                self._make_room(model.file_bytes, path)
                write_model(model, file, progress)
            os.replace(part, path)  # noqa: PTH105 (both are names here)
        except BaseException:
            Path(part).unlink(missing_ok=True)
            raise

    def _make_room(self, wanted: int, keep: Path) -> None:
        if wanted > self.cap_bytes:
            limit = f"synthetic models may take {self.cap_bytes / GB:.1f} GB"
            raise UserError(f"the model would take {wanted / GB:.1f} GB; {limit}", "choose a smaller one")
        # Let other models take no more than `allowed`, the most recently used ones
        allowed = self.cap_bytes - wanted
        models = sorted(self._own_files(_MODEL), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in (p for p in models if p != keep):
            allowed -= path.stat().st_size
            if allowed < 0:
                path.unlink(missing_ok=True)
        free = self.free_bytes(self.folder)
        if free < wanted + SPARE_BYTES:
            what = f"{wanted / GB:.1f} GB and {SPARE_BYTES / GB:.1f} GB to spare"
            raise UserError(f"{self.folder} has {free / GB:.1f} GB free; the model needs {what}", _HINT)

    def _own_files(self, name: re.Pattern[str]) -> list[Path]:
        return [p for p in self.folder.iterdir() if name.fullmatch(p.name) and p.is_file() and not p.is_symlink()]


def default_cache() -> ModelCache:
    """The user's own cache: below UNSLOW_CACHE_DIR, or in the platform's place for it."""
    return ModelCache(own_folder("CACHE") / "models")
