"""safetensors, the format of Transformers, vLLM and MLX: what a model is, from the headers of its files."""

import math
import os
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Annotated, Any, BinaryIO, NamedTuple

import msgspec

from unslow.catalog.weight_parts import Role, parts_of_shape, plain_storage, storage_of_quant, total_bytes
from unslow.facts.errors import UserError
from unslow.facts.merge import overlaid
from unslow.facts.model import Model, Tensor
from unslow.facts.values import Fact, estimated_fact, not_found, reported_fact
from unslow.look.models import hf_config, named_failures, opened_file
from unslow.look.system import LookError, System, convert_answer, try_look

MOST_HEADER_BYTES = 16 * 1024**2  # the largest models have under a megabyte in each of their files
MOST_TENSORS_IN_FILE = 65_536
LONGEST_NAME = 512
MOST_NOTES = 64
LONGEST_NOTE = 256
_LENGTH_BYTES = 8
_NOTES = "__metadata__"
_QUOTES = 10  # of one tensor: around its name, three keys and its type
BITS = {
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
    "I32": 32, "U32": 32, "F32": 32,
    "C64": 64, "F64": 64, "I64": 64, "U64": 64,
}  # fmt: skip
"""The bits of one element (safetensors 0.8, tensor.rs, Dtype)."""
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
_JSON = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_RAW = msgspec.json.Decoder(dict[str, msgspec.Raw])
_TEXTS = msgspec.json.Decoder(dict[str, str])
_WORDS, _BYTE, _NIBBLE = ("I32", "U32"), "U8", 4
_PACKED = (".qweight", ".weight_packed")
_SCALES = (
    ".qzeros", ".scales", ".g_idx",  # GPTQ, AWQ
    ".weight_scale", ".weight_scale_2", ".weight_scale_inv", ".weight_zero_point", ".weight_shape", ".weight_g_idx",
    ".weight_global_scale", ".input_global_scale", ".input_scale", ".k_scale", ".v_scale", ".q_scale", ".output_scale",
    ".absmax", ".quant_map", ".nested_absmax", ".nested_quant_map", ".SCB", ".weight_format",  # bitsandbytes
    ".biases", ".weight.scale", ".weight.bias",  # MLX: the offsets of groups
    "_blocks_scales", "_proj_scales",  # MXFP4 as gpt-oss has it
)  # fmt: skip
_NOTED_BITS = {"nvfp4": 4, "mxfp4": 4, "int4": 4, "mxfp8": 8, "int8": 8}  # ollama, x/quant/quant.go
_TOKEN_TABLE = re.compile(
    r"(?:^|\.)(?:embed_tokens(?:_per_layer)?|wte|embed_in|tok_embeddings|word_embeddings|shared)\."
)
_OUTPUT = re.compile(r"(?:^|\.)(?:lm_head|embed_out|output)\.(?:weight|qweight|scales|biases|qzeros|g_idx)")
_EXPERT = re.compile(r"\.experts?\.")

# The facts that are numbers of `hf_config.hf_shape`; what a config does not say of experts is 0
_NUMBERS = {
    "layers": "layers", "context_trained": "context", "width": "width", "heads": "heads", "kv_heads": "kv_heads",
    "key_length": "head_dim", "vocabulary": "vocabulary",
}  # fmt: skip
_OF_EXPERTS = {"experts": "experts", "experts_used": "experts_used", "expert_width": "expert_intermediate"}
SUFFIX, INDEX_SUFFIX = ".safetensors", ".safetensors.index.json"
MOST_PARTS = 1024
_PART = re.compile(r"(.+)-(\d{1,6})-of-(\d{1,6})\.safetensors")
MOST_TENSORS = 500_000  # in all parts together; a model of a trillion parameters has about 200 000
MOST_INDEX_BYTES = 48 * 1024**2
_INDEX_QUOTES = 4  # of one tensor in an index: around its name and its file's
_QUANT_FILE = "hf_quant_config.json"  # where ModelOpt wrote what others write into config.json


class _Info(msgspec.Struct, frozen=True):
    dtype: Annotated[str, msgspec.Meta(max_length=32)]
    shape: Annotated[list[_Count], msgspec.Meta(max_length=16)]
    data_offsets: tuple[_Count, _Count]


class Header(NamedTuple):
    """What a safetensors file says before its weights."""

    tensors: list[Tensor]
    notes: dict[str, str]  # Its `__metadata__`, without what is long


_INFO = msgspec.json.Decoder(_Info)


class Part(msgspec.Struct, frozen=True):
    """One file of a checkpoint."""

    path: str
    bytes: int


class _Index(msgspec.Struct):
    weight_map: dict[str, str]


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The headers of a model in safetensors files, and its config."""

    path: str
    parts: list[Part]
    tensors: list[Tensor]  # With the types' names of the format, such as BF16 and F8_E4M3
    config: hf_config.Config = {}  # `config.json` without what is long; empty where there is none
    quant_types: dict[str, str] = {}  # Of single tensors, where the files themselves name them (Ollama's MLX models)

    @property
    def file_bytes(self) -> int:
        return sum(p.bytes for p in self.parts)

    @cached_property
    def weights_bytes(self) -> int:
        return sum(t.bytes for t in self.tensors)

    @cached_property
    def quantization(self) -> hf_config.Quantization | None:
        """How the weights are quantised; None where they are not."""
        declared = hf_config.parse_quantization(self.config)
        if declared or not self.quant_types:
            return declared
        most, _ = Counter(self.quant_types.values()).most_common(1)[0]
        bits = {name.rpartition(".")[0]: _NOTED_BITS.get(kind.lower(), 0) for name, kind in self.quant_types.items()}
        return hf_config.Quantization(
            method="mlx", name=most.upper(), bits=_NOTED_BITS.get(most.lower(), 0), override_bits=bits
        )

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset(t.name for t in self.tensors)

    @cached_property
    def parameters(self) -> int | None:
        """Weights, counted after unpacking; None where nothing tells how they are packed."""
        counts = [parameters_in(t, self.quantization, self.names) for t in self.tensors]
        return sum(n or 0 for n in counts) if None not in counts else None

    @cached_property
    def type_bytes(self) -> dict[str, int]:
        """Bytes by type, the largest first: BF16, F8_E4M3, `I32 packed 4-bit`."""
        types: Counter[str] = Counter()
        for tensor in self.tensors:
            bits = packed_bits(tensor, self.quantization, self.names)
            packed = "" if bits is None else f" packed {bits}-bit" if bits else " packed"
            types[f"{tensor.type}{packed}"] += tensor.bytes
        return dict(types.most_common())


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


def read_config_alone(system: System, folder: str) -> hf_config.Config:
    """The config of a folder without safetensors or GGUF files, as `--load-format dummy` takes it; else empty."""
    names = try_look([], system.list_dir, folder)
    weights = any(name.endswith((SUFFIX, INDEX_SUFFIX, ".gguf")) for name in names)
    return {} if weights or "config.json" not in names else try_look({}, _config, system, folder, names)


def read_parts(system: System, path: str, files: Sequence[str], config: hf_config.Config) -> Checkpoint:
    """The model that these files make up; `path` names it."""
    raw = system.ask(f"safetensors {path}", lambda: msgspec.to_builtins(_checkpoint(path, files)))
    checkpoint = convert_answer(raw, Checkpoint, f"{path}: the recorded headers are not valid")
    return msgspec.structs.replace(checkpoint, config=config)


def _files(system: System, folder: str, names: Sequence[str], name: str) -> tuple[list[str], set[str]]:
    """The files of the model that `name` belongs to, or of the folder's only one, and the tensors its index lists."""
    if name.endswith(SUFFIX) and not _PART.fullmatch(name):
        return [name], set()
    stem = stem_of(name) if name else main_set(names)
    if f"{stem}{INDEX_SUFFIX}" not in names:
        return checkpoint_sets(names).get(stem, [name]), set()
    text = system.read_bytes(f"{folder}/{stem}{INDEX_SUFFIX}", MOST_INDEX_BYTES)
    if text.count(b'"') > _INDEX_QUOTES * MOST_TENSORS:  # before anything is made of it
        raise LookError(f"its index has more than {MOST_TENSORS} tensors")
    try:
        index = msgspec.json.decode(text, type=_Index)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise LookError(f"its index is not in the safetensors format: {str(error)[:120]}") from error
    files = sorted(set(index.weight_map.values()))
    if not files or len(files) > MOST_PARTS or any("/" in f or "\\" in f or not f.endswith(SUFFIX) for f in files):
        raise LookError("its index names files that can't be parts of a model")
    return files, set(index.weight_map)


def _config(system: System, folder: str, names: Sequence[str]) -> hf_config.Config:
    config = hf_config.read_config(system, folder)
    if _QUANT_FILE in names and "quantization_config" not in config:
        quantization = hf_config.read_config(system, folder, _QUANT_FILE).get("quantization")
        if isinstance(quantization, dict):
            return {**config, "quantization_config": {**quantization, "quant_method": "modelopt"}}
    return config


def _checkpoint(path: str, files: Sequence[str]) -> Checkpoint:
    parts: list[Part] = []
    tensors: dict[str, Tensor] = {}
    quant_types: dict[str, str] = {}
    for file in files:
        with named_failures(file, "the model needs all of its parts"), opened_file(file) as opened:
            size = os.fstat(opened.fileno()).st_size
            header = read_header(opened, size)
        parts.append(Part(file, size))
        for tensor in header.tensors:
            if tensor.name in tensors:
                raise LookError(f"{file}: {tensor.name[:64]} is in another part already")
            tensors[tensor.name] = tensor
        # What the file's notes say of its packed tensors: one type for all of them, or one for each
        packed = [t.name for t in header.tensors if t.type == "U32"]
        pairs = ((n, header.notes.get(f"{n}.quant_type") or header.notes.get("quant_type")) for n in packed)
        quant_types |= {name: kind for name, kind in pairs if kind}
        if len(tensors) > MOST_TENSORS:
            raise LookError(f"{path}: its parts have more than {MOST_TENSORS} tensors together")
    return Checkpoint(path=path, parts=parts, tensors=list(tensors.values()), quant_types=quant_types)


def main_set(names: Sequence[str]) -> str:
    """The stem of the one model in a folder; LookError where there is none, or several and none is `model`."""
    sets = checkpoint_sets(names)
    indexed = [n.removesuffix(INDEX_SUFFIX) for n in names if n.endswith(INDEX_SUFFIX)]
    if "model" in sets or "model" in indexed:
        return "model"
    if len(indexed) == 1:
        return indexed[0]
    if not sets:
        raise LookError("holds no safetensors files")
    if len(sets) > 1:
        raise LookError(f"holds several models: {', '.join(sorted(sets)[:8])}")
    return next(iter(sets))


def checkpoint_sets(names: Iterable[str]) -> dict[str, list[str]]:
    """The safetensors files of a folder by the stem that they share; parts that are missing are named too."""
    sets: dict[str, list[str]] = {}
    for name in sorted(name for name in names if name.endswith(SUFFIX)):
        parts, match = [name], _PART.fullmatch(name)
        if match and 0 < int(match[2]) <= int(match[3]) <= MOST_PARTS:
            stem, width, count = match[1], len(match[2]), match[3]
            parts = [f"{stem}-{n:0{width}}-of-{count}{SUFFIX}" for n in range(1, int(count) + 1)]
        sets.setdefault(stem_of(name), parts)
    return sets


def stem_of(name: str) -> str:
    """What the files of one model have in common, and its index too."""
    match = _PART.fullmatch(name)
    return match[1] if match else name.removesuffix(INDEX_SUFFIX).removesuffix(SUFFIX)


def read_header(file: BinaryIO, size: int) -> Header:
    """The header at the start of an open file of `size` bytes; LookError where it is not a sound one."""
    # Eight bytes tell the length of a JSON object; the tensors follow it without a gap, up to the end of the file. What
    # the format's own reader refuses is refused here too: a gap or an overlap also gives away a name given twice.
    length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
    if size < _LENGTH_BYTES + 2:
        raise LookError(f"is not a safetensors file: it has {size} bytes")
    if length > MOST_HEADER_BYTES:
        raise LookError(f"declares a header of {length} bytes; this program reads up to {MOST_HEADER_BYTES}")
    if _LENGTH_BYTES + length > size:
        raise LookError(f"is truncated: its header has {length} bytes, the file {size} in all")
    return parse_header(file.read(length), size - _LENGTH_BYTES - length)


def parse_header(text: bytes, data_bytes: int) -> Header:
    """The header in `text`, checked against the bytes that follow it."""
    if text[:1] != b"{":
        raise LookError("is not a safetensors file: its header does not start with {")
    if text.count(b'"') > _QUOTES * MOST_TENSORS_IN_FILE:  # whatever it is full of, before anything is made of it
        raise LookError(f"has more in its header than {MOST_TENSORS_IN_FILE} tensors, up to which this program reads")
    try:
        entries = _RAW.decode(text)
        notes = entries.pop(_NOTES, None)
        infos = [(name, _INFO.decode(raw)) for name, raw in entries.items()]
        texts = _TEXTS.decode(notes) if notes is not None else {}
    except _JSON as error:
        raise LookError(f"has a header that is not in the safetensors format: {str(error)[:120]}") from error
    short = [(k, v) for k, v in texts.items() if len(k) <= LONGEST_NAME and len(v) <= LONGEST_NOTE]
    return Header(list(_tensors_in_order(infos, data_bytes)), dict(short[:MOST_NOTES]))


def _tensors_in_order(infos: list[tuple[str, _Info]], data_bytes: int) -> Iterator[Tensor]:
    """The tensors in the order of their places, which must fill the data without a gap."""
    end = 0
    for name, info in sorted(infos, key=lambda item: item[1].data_offsets):
        start, stop = info.data_offsets
        if start != end or stop < start:
            raise LookError(
                f"has a tensor at the wrong place: {name[:64]} at {start} to {stop}, where {end} was expected"
            )
        # The tensor, of the size that its type and shape give; a type that is not known here is believed
        size = stop - start
        if len(name) > LONGEST_NAME:
            raise LookError(f"has a tensor with a name of {len(name)} letters: {name[:64]} ...")
        bits = BITS.get(info.dtype)
        if bits and math.prod(info.shape) * bits != size * 8:
            raise LookError(f"contradicts itself: {name[:64]} of {info.dtype} {info.shape} can't be {size} bytes")
        yield Tensor(name, info.dtype, tuple(reversed(info.shape)), size)
        end = stop
    if end > data_bytes:
        raise LookError(f"is truncated: it should hold {end} bytes of tensors and holds {data_bytes}")
    if end < data_bytes:
        raise LookError(f"has {data_bytes - end} bytes that belong to no tensor")


def model_facts(checkpoint: Checkpoint, source: str = "") -> Model:
    """The model that the checkpoint describes; `source` names it, by default its path."""
    source = source or checkpoint.path
    shape = hf_config.hf_shape(checkpoint.config) if checkpoint.config else {}
    config = f"{source}: config.json"
    name = checkpoint.config.get("_name_or_path")
    name = name if isinstance(name, str) else ""
    families = (checkpoint.config.get("model_type"), shape.get("model_type"))  # of the whole, else of its language part
    family = next((word for word in families if isinstance(word, str) and word), "")
    nameless = not_found(f"{config} has no model_type")
    quant: Fact[str] = not_found(f"{source} has no tensors")
    if checkpoint.quantization:
        quant = reported_fact(checkpoint.quantization.name, f"{source}: {checkpoint.quantization.method}")
    elif checkpoint.tensors:
        quant = estimated_fact(next(iter(checkpoint.type_bytes)), f"{source}: the type of most bytes")
    return Model(
        name=reported_fact(name, f"{config}: _name_or_path") if name else not_found(f"{config} has no name"),
        path=reported_fact(checkpoint.path, source),
        architecture=reported_fact(family, f"{config}: model_type") if family else nameless,
        quant=quant,
        value_length=_count(shape, "v_head_dim" if "kv_lora_rank" in shape else "head_dim", config),
        **{fact: _count(shape, name, config) for fact, name in _NUMBERS.items()},
        **{fact: _count(shape, name, config, absent=0) for fact, name in _OF_EXPERTS.items()},
        made_up=reported_fact(False, source),  # noqa: FBT003 (a fact, not a flag)
        **_sizes(checkpoint, f"{source}: tensors"),
    )


def config_facts(config: hf_config.Config, source: str) -> Model:
    """The model of a folder without weights: their sizes are counted from the numbers of its config."""
    told = model_facts(Checkpoint(path=source, parts=[], tensors=[], config=config))
    shape, quant = hf_config.shape_of_config(hf_config.hf_shape(config)), hf_config.named_quant(config)
    bare = f"{source}: holds no safetensors files"
    if not shape.layers or not shape.width or not shape.heads:
        missing = not_found(f"{bare}, and its config.json does not give its layers and heads")
        return overlaid(told, Model(weights_bytes=missing))
    try:
        parts = parts_of_shape(shape, storage_of_quant(quant))
    except UserError as error:
        missing = not_found(f"{bare}; by its config.json, {error.message}")
        return overlaid(told, Model(weights_bytes=missing))
    table, output, experts = (
        sum(part.bytes for part in parts if part.role is role) for role in (Role.EMBEDDING, Role.OUTPUT, Role.EXPERTS)
    )
    numbers: dict[str, Any] = {
        "quant": quant,
        "parameters": total_bytes(parts_of_shape(shape, plain_storage(1))),
        "weights_bytes": total_bytes(parts),
        "expert_bytes": experts,
        "token_table_bytes": table,
        "output_bytes": output or table,
        "output_tied": shape.tied,
    }
    return overlaid(told, Model(**{name: estimated_fact(n, f"{source}: config.json") for name, n in numbers.items()}))


def _count(shape: hf_config.Shape, name: str, source: str, absent: int | None = None) -> Fact[Any]:
    value = shape.get(name)
    if isinstance(value, int):
        return reported_fact(value, f"{source}: {name}")
    if absent is not None and shape:
        return reported_fact(absent, f"{source}: no {name}")
    return not_found(f"{source} does not give {name}")


def _sizes(checkpoint: Checkpoint, source: str) -> dict[str, Any]:
    if not checkpoint.tensors:
        names = ("parameters", "weights_bytes", "expert_bytes", "token_table_bytes", "output_bytes", "output_tied")
        return dict.fromkeys(names, not_found(f"{source}: none"))
    count = checkpoint.parameters
    table, output, experts = (
        sum(t.bytes for t in checkpoint.tensors if pattern.search(t.name))
        for pattern in (_TOKEN_TABLE, _OUTPUT, _EXPERT)
    )
    unknown = not_found(f"{source}: packed in an unknown way")
    return {
        "parameters": unknown if count is None else reported_fact(count, source),
        "weights_bytes": reported_fact(checkpoint.weights_bytes, source),
        "expert_bytes": reported_fact(experts, source),
        "token_table_bytes": reported_fact(table, source),
        "output_bytes": reported_fact(output or table, source),
        "output_tied": reported_fact(not output, source),
    }


def parameters_in(tensor: Tensor, quantization: hf_config.Quantization | None, names: Container[str]) -> int | None:
    """The parameters that a tensor holds; None where they are packed and nothing tells how many bits each has."""
    elements = math.prod(tensor.shape)
    if quantization and (tensor.name.endswith(_SCALES) or ".quant_state." in tensor.name):
        return 0
    bits = packed_bits(tensor, quantization, names)
    if bits is None:
        return elements
    return elements * BITS[tensor.type] // bits if bits else None


def packed_bits(tensor: Tensor, quantization: hf_config.Quantization | None, names: Container[str]) -> int | None:
    """The bits of one weight where an element of the tensor is several, 0 where nothing tells; None where it is one."""
    name, declared = tensor.name, quantization is not None
    if tensor.type == _BYTE:  # always holds two
        beside = f"{name}.absmax" in names or f"{name}_scale_2" in names  # bitsandbytes, NVFP4 by ModelOpt
        packed = name.endswith(".weight_packed") or beside or (declared and name.endswith("_blocks"))
        return _NIBBLE if packed else None
    packed = name.endswith(_PACKED) or (declared and tensor.type == "U32" and name.endswith(".weight"))
    if tensor.type not in _WORDS or not packed:
        return None
    bits = quantization.override_bits.get(name.rpartition(".")[0], quantization.bits) if quantization else 0
    return bits if bits <= BITS[tensor.type] else 0
