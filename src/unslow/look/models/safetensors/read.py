"""Reads a model in safetensors files: one, or parts with an index, and the config beside them."""

import os
import stat
from collections.abc import Sequence

import msgspec

from unslow.facts.blueprint import Tensor
from unslow.facts.values import Absence
from unslow.look.models.hf_config import Config, read_config
from unslow.look.models.safetensors.checkpoint import Checkpoint, Part
from unslow.look.models.safetensors.header import Header, read_header
from unslow.look.models.safetensors.parts import (
    INDEX_SUFFIX,
    MOST_PARTS,
    SUFFIX,
    checkpoint_sets,
    is_part,
    main_set,
    stem_of,
)
from unslow.look.system import LookError, System
from unslow.look.system.door import READ_FLAGS

MOST_TENSORS = 500_000  # in all parts together; a model of a trillion parameters has about 200 000
MOST_INDEX_BYTES = 48 * 1024**2
_QUOTES = 4  # of one tensor in an index: around its name and its file's
_QUANT_FILE = "hf_quant_config.json"  # where ModelOpt wrote what others write into config.json


def read_checkpoint(system: System, path: str) -> Checkpoint:
    """The model at `path`: a folder, one of its files, or its index; the weights stay where they are."""
    folder, name = os.path.split(path) if path.endswith((SUFFIX, INDEX_SUFFIX)) else (path.rstrip("/") or path, "")
    folder = folder or "."
    names = system.list_dir(folder)
    try:
        files, listed = _files(system, folder, names, name)
    except LookError as error:
        raise LookError(f"{path}: {error.why}", error.absence) from error
    checkpoint = read_parts(system, path, [f"{folder}/{f}" for f in files], _config(system, folder, names))
    if missing := listed - checkpoint.names:
        raise LookError(f"{path}: its index lists {len(missing)} tensors that no file has: {min(missing)[:64]}")
    return checkpoint


def read_config_alone(system: System, folder: str) -> Config:
    """The config of a folder without safetensors or GGUF files, as `--load-format dummy` takes it; else empty."""
    try:
        names = system.list_dir(folder)
        weights = any(name.endswith((SUFFIX, INDEX_SUFFIX, ".gguf")) for name in names)
        return {} if weights or "config.json" not in names else _config(system, folder, names)
    except LookError:
        return {}


def read_parts(system: System, path: str, files: Sequence[str], config: Config) -> Checkpoint:
    """The model that these files make up; `path` names it."""
    raw = system.ask(f"safetensors {path}", lambda: msgspec.to_builtins(_checkpoint(path, files)))
    try:
        checkpoint = msgspec.convert(raw, Checkpoint)
    except msgspec.ValidationError as error:
        raise LookError(f"{path}: the recorded headers do not fit: {error}") from error
    return msgspec.structs.replace(checkpoint, config=config)


def _files(system: System, folder: str, names: Sequence[str], name: str) -> tuple[list[str], set[str]]:
    """The files of the model that `name` belongs to, or of the folder's only one, and the tensors its index lists."""
    if name.endswith(SUFFIX) and not is_part(name):
        return [name], set()
    stem = stem_of(name) if name else main_set(names)
    if f"{stem}{INDEX_SUFFIX}" in names:
        return _indexed(system, f"{folder}/{stem}{INDEX_SUFFIX}")
    return checkpoint_sets(names).get(stem, [name]), set()


class _Index(msgspec.Struct):
    weight_map: dict[str, str]


def _indexed(system: System, path: str) -> tuple[list[str], set[str]]:
    text = system.read_bytes(path, MOST_INDEX_BYTES)
    if text.count(b'"') > _QUOTES * MOST_TENSORS:  # before anything is made of it
        raise LookError(f"its index has more than {MOST_TENSORS} tensors")
    try:
        index = msgspec.json.decode(text, type=_Index)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise LookError(f"its index is not as safetensors has it: {str(error)[:120]}") from error
    files = sorted(set(index.weight_map.values()))
    if not files or len(files) > MOST_PARTS or any("/" in f or "\\" in f or not f.endswith(SUFFIX) for f in files):
        raise LookError("its index names files that can't be parts of a model")
    return files, set(index.weight_map)


def _config(system: System, folder: str, names: Sequence[str]) -> Config:
    config = read_config(system, folder)
    if _QUANT_FILE in names and "quantization_config" not in config:
        quantization = read_config(system, folder, _QUANT_FILE).get("quantization")
        if isinstance(quantization, dict):
            return {**config, "quantization_config": {**quantization, "quant_method": "modelopt"}}
    return config


def _checkpoint(path: str, files: Sequence[str]) -> Checkpoint:
    parts: list[Part] = []
    tensors: dict[str, Tensor] = {}
    quant_types: dict[str, str] = {}
    for file in files:
        header, size = _read_part(file)
        parts.append(Part(file, size))
        for tensor in header.tensors:
            if tensor.name in tensors:
                raise LookError(f"{file}: {tensor.name[:64]} is in another part already")
            tensors[tensor.name] = tensor
        quant_types |= _quant_types(header)
        if len(tensors) > MOST_TENSORS:
            raise LookError(f"{path}: its parts have more than {MOST_TENSORS} tensors together")
    return Checkpoint(path=path, parts=parts, tensors=list(tensors.values()), quant_types=quant_types)


def _quant_types(header: Header) -> dict[str, str]:
    """What the file's notes say of its packed tensors: one type for all of them, or one for each."""
    packed = [t.name for t in header.tensors if t.type == "U32"]
    pairs = ((n, header.notes.get(f"{n}.quant_type") or header.notes.get("quant_type")) for n in packed)
    return {name: kind for name, kind in pairs if kind}


def _read_part(path: str) -> tuple[Header, int]:
    try:
        descriptor = os.open(path, READ_FLAGS)
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            _check_kind(status.st_mode)
            return read_header(file, status.st_size), status.st_size
    except LookError as error:
        raise LookError(f"{path}: {error.why}") from error
    except FileNotFoundError as error:
        raise LookError(f"{path}: not there", Absence.NOT_FOUND, "the model needs all of its parts") from error
    except (OSError, ValueError) as error:  # ValueError: a path with a null byte
        raise LookError(f"{path}: {getattr(error, 'strerror', None) or error}") from error


def _check_kind(mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise LookError("is not a file")
