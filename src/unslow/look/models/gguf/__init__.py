"""GGUF, the format of llama.cpp, Ollama and LM Studio: what a model is, from the header of its file or files."""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from math import prod
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import msgspec

from unslow.catalog.quants import file_types
from unslow.facts import model
from unslow.facts.values import Absence, Fact, Known, estimated_fact, not_found, reported_fact
from unslow.look.models import is_file, named_failures, opened_file
from unslow.look.models.gguf.header import Header, read_header
from unslow.look.models.gguf.window import FileSource, PipeSource, Source
from unslow.look.system import LookError, System, convert_answer

_EXPERT = re.compile(r"_(?:ch)?exps\.|\.ffn_(?:gate|up|down)\.\d+\.")  # all in one tensor, or one tensor each (2024)
MOST_ITEMS = 16_000_000  # ten times what the largest vocabulary takes
LARGEST_COUNT = 2**53
_GUESSED = 1024  # llama.h, LLAMA_FTYPE_GUESSED: a flag on top of the file type
MOST_PARTS = 512
_PART = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.gguf")
STANDARD_INPUT = 0
WEB_TIMEOUT_S = 120.0


class Tensors(msgspec.Struct, frozen=True, kw_only=True):
    """The bytes of a model's tensors by what they are for."""

    count: int
    elements: int
    bytes: int
    layer_bytes: list[int]
    expert_bytes: int
    token_table_bytes: int
    layer_table_bytes: int  # A second table that is only looked up, such as Gemma 3n's
    output_bytes: int  # 0 where the token table is the output matrix too
    type_bytes: dict[str, int]


class Gguf(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The header of a model in one file or in several parts."""

    path: str
    file_bytes: int  # Of all parts; 0 where only the end would tell, as with a pipe
    metadata: dict[str, model.MetadataValue]
    array_lengths: dict[str, int]
    tensors: Tensors
    table: model.Table | None = None  # None in recordings from before it was kept
    missing_bytes: int = 0  # What tensors take beyond the end of the file: a broken download, or a header alone
    cut_tensor: str = ""  # The first tensor that is not whole


def read_gguf(system: System, path: str) -> Gguf:
    """The header of the model at `path`, with all of its parts; the weights stay where they are."""
    return _ask_gguf(system, path, lambda: _read_parts(path, part_paths(path), _open_source))


def read_gguf_pipe(system: System, descriptor: int = STANDARD_INPUT) -> Gguf:
    """The header of what is piped in, which is read no farther than that."""
    return _ask_gguf(system, "-", lambda: _read_parts("-", ["standard input"], lambda _: _pipe(descriptor)))


def read_gguf_url(system: System, url: str) -> Gguf:
    """The header of the model at a URL that the user gave, with all of its parts; only their headers are fetched."""
    from unslow.look.system.web_file import WebFile  # noqa: PLC0415 (as heavy as all the rest: sockets, TLS)

    try:
        address = urlsplit(url)
    except ValueError as error:
        raise LookError(f"{url!r} is not a URL: {error}") from error
    parts = [urlunsplit(address._replace(path=path)) for path in part_paths(address.path)]
    return _ask_gguf(system, url, lambda: _read_parts(url, parts, lambda part: closing(WebFile(part, WEB_TIMEOUT_S))))


def _ask_gguf(system: System, name: str, look: Callable[[], Gguf]) -> Gguf:
    raw = system.ask(f"gguf {name}", lambda: msgspec.to_builtins(look()))
    gguf = convert_answer(raw, Gguf, f"{name}: the recorded header is not valid")
    try:
        model.check_metadata(gguf.metadata.get("general.architecture"), gguf.metadata)
    except ValueError as error:
        raise LookError(f"{name} {error}") from error
    return gguf


def _read_parts(path: str, names: Sequence[str], opening: Callable[[str], AbstractContextManager[Source]]) -> Gguf:
    assembly = Assembly(path)
    for number, name in enumerate(names):
        hint = "the model needs all of its parts in one folder" if _PART.fullmatch(name) else ""
        with named_failures(name, hint), opening(name) as source:
            header = read_header(source)
            check_part(header, number, len(names))
            assembly.add(header, source.size)
    return assembly.gguf()


class Assembly:
    """Puts the parts of a model together, each as soon as it is read, so that nothing is kept twice."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._first: Header | None = None
        self._tensors: dict[str, model.Tensor] = {}
        self._items, self._file_bytes, self._missing_bytes, self._cut_tensor = 0, 0, 0, ""

    def add(self, header: Header, file_bytes: int | None) -> None:
        """The next part; LookError where it can't be a part of the same model."""
        self._first = self._first or header
        self._items += sum(header.array_lengths.values())
        if self._items > MOST_ITEMS or len(self._tensors) + len(header.tensors) > model.MOST_TENSORS:
            raise LookError(f"makes the header larger than {MOST_ITEMS} items or {model.MOST_TENSORS} tensors")
        for tensor in header.tensors:
            if self._tensors.setdefault(tensor.name, tensor) is not tensor:
                raise LookError(f"has the tensor {tensor.name[:64]!r}, as an earlier part does")
        self._file_bytes += file_bytes or 0
        if header.cut:
            self._missing_bytes += header.cut.missing_bytes
            self._cut_tensor = self._cut_tensor or header.cut.tensor

    def gguf(self) -> Gguf:
        """The model; its metadata are those of the first part, which are the ones that llama.cpp reads."""
        first, tensors = self._first, list(self._tensors.values())
        return Gguf(
            path=self._path,
            file_bytes=self._file_bytes,
            metadata=first.metadata if first else {},
            array_lengths=first.array_lengths if first else {},
            tensors=tensor_summary(tensors),
            table=model.packed_tensors(tensors),
            missing_bytes=self._missing_bytes,
            cut_tensor=self._cut_tensor,
        )


def tensor_summary(tensors: Sequence[model.Tensor]) -> Tensors:
    """The tensors by what they are for."""
    sizes = {t.name: t.bytes for t in tensors}
    types, layers = Counter[str](), Counter[int]()
    for tensor in tensors:
        types[tensor.type] += tensor.bytes
        if 0 <= (layer := model.layer_of(tensor.name)) < model.MOST_LAYERS:
            layers[layer] += tensor.bytes
    return Tensors(
        count=len(tensors),
        elements=sum(prod(t.shape) for t in tensors),
        bytes=sum(t.bytes for t in tensors),
        layer_bytes=[layers[n] for n in range(max(layers, default=-1) + 1)],
        expert_bytes=sum(t.bytes for t in tensors if _EXPERT.search(t.name)),
        token_table_bytes=sizes.get("token_embd.weight", 0),
        layer_table_bytes=sizes.get("per_layer_token_embd.weight", 0),
        output_bytes=sizes.get("output.weight", 0),
        type_bytes=dict(types),
    )


def check_part(header: Header, number: int, count: int) -> None:
    """LookError where the header tells of another part, or of another number of parts, than the name does."""
    of, says = header.metadata.get("split.count"), header.metadata.get("split.no")
    if isinstance(of, int) and of > 1 and of != count:
        unnamed = "its name does not say which, so the others can't be found"
        raise LookError(f"is one of {of} parts, but {f'its name says {count}' if count > 1 else unnamed}")
    if count > 1 and isinstance(says, int) and says != number:
        raise LookError(f"is named as part {number + 1}, but says that it is part {says + 1}")


def part_paths(path: str) -> list[str]:
    """The files of a model, from the path of any of them."""
    match = _PART.fullmatch(path)
    if not match:
        return [path]
    stem, count = match[1], int(match[3])
    if not 0 < int(match[2]) <= count <= MOST_PARTS:
        raise LookError(f"{path}: part {int(match[2])} of {count} is out of range (at most {MOST_PARTS} parts)")
    return [f"{stem}-{n:05}-of-{count:05}.gguf" for n in range(1, count + 1)]


@contextmanager
def _open_source(path: str) -> Iterator[Source]:
    with opened_file(path) as file:
        yield FileSource(file, os.fstat(file.fileno()).st_size)


@contextmanager
def _pipe(descriptor: int) -> Iterator[Source]:
    # A file where the shell was told `< model.gguf`, and a person where it was told nothing
    if os.isatty(descriptor):
        raise LookError("is a terminal; pipe a model into it")
    if is_file(descriptor):
        with open(descriptor, "rb", buffering=0, closefd=False) as file:
            yield FileSource(file, os.fstat(descriptor).st_size)
    else:
        yield PipeSource(descriptor)


def model_facts(gguf: Gguf, source: str = "") -> model.Model:
    """The model that the header describes; `source` names the file, by default its path."""
    keys = _Keys(gguf, source or gguf.path)
    heads, width = keys.count("attention.head_count"), keys.count("embedding_length")
    head_length = _quotient(width, heads)
    experts = keys.count("expert_count", reported_fact(0, f"{keys.source}: no expert_count"))
    expert_width = keys.count("expert_feed_forward_length", keys.count("feed_forward_length"))
    if experts.value_or(0) == 0:
        expert_width = reported_fact(0, experts.source) if isinstance(experts, Known) else experts
    # The architecture's own keys; others name people and paths, and say nothing about memory
    prefix = f"{gguf.metadata.get('general.architecture')}."
    metadata = reported_fact(
        {k: v for k, v in gguf.metadata.items() if k.startswith(prefix)}, f"{keys.source}: metadata"
    )
    tokens = gguf.array_lengths.get("tokenizer.ggml.tokens")
    listed = None if tokens is None else reported_fact(tokens, f"{keys.source}: tokenizer.ggml.tokens")
    no_table = not_found(f"{keys.source}: the recording has no list of tensors", "record it again")
    return model.Model(
        name=keys.text("general.name"),
        path=reported_fact(gguf.path, keys.source),
        architecture=keys.text("general.architecture"),
        quant=_quant(keys),
        layers=keys.count("block_count"),
        context_trained=keys.count("context_length"),
        width=width,
        heads=heads,
        kv_heads=keys.count("attention.head_count_kv", heads),
        key_length=keys.count("attention.key_length", head_length),
        value_length=keys.count("attention.value_length", head_length),
        vocabulary=keys.count("vocab_size", listed),
        experts=experts,
        experts_used=keys.count("expert_used_count", reported_fact(0, f"{keys.source}: no expert_used_count")),
        expert_width=expert_width,
        made_up=reported_fact(gguf.metadata.get("unslow.made_up") is True, f"{keys.source}: unslow.made_up"),
        tensors=no_table if gguf.table is None else reported_fact(gguf.table, f"{keys.source}: tensors"),
        metadata=metadata,
        **_sizes(gguf.tensors, f"{keys.source}: tensors"),
    )


class _Keys:
    """Metadata as facts; keys without a dot in front belong to the architecture."""

    def __init__(self, gguf: Gguf, source: str) -> None:
        self.gguf, self.source = gguf, source
        self._architecture = gguf.metadata.get("general.architecture")

    def count(self, key: str, default: Fact[int] | None = None) -> Fact[int]:
        """A whole number; of a list with one for each layer, the largest."""
        return self.number(f"{self._architecture}.{key}", default)

    def number(self, key: str, default: Fact[int] | None = None) -> Fact[int]:
        value = self.gguf.metadata.get(key)
        if isinstance(value, list):
            value = max(value, default=None)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST_COUNT:
            return reported_fact(value, f"{self.source}: {key}")
        return default if default is not None else not_found(f"{self.source} has no {key}")

    def text(self, key: str) -> Fact[str]:
        value = self.gguf.metadata.get(key)
        if isinstance(value, str) and value:
            return reported_fact(value, f"{self.source}: {key}")
        return not_found(f"{self.source} has no {key}")


def _quant(keys: _Keys) -> Fact[str]:
    file_type = keys.number("general.file_type")
    if isinstance(file_type, Known) and (pair := file_types().get(file_type.value & ~_GUESSED)):
        return reported_fact(pair[0].name, file_type.source)
    types = keys.gguf.tensors.type_bytes
    if not types:
        return not_found(f"{keys.source} has no tensors")
    return estimated_fact(max(types, key=lambda t: types[t]), f"{keys.source}: the type of most tensors")


def _quotient(width: Fact[int], heads: Fact[int]) -> Fact[int]:
    """A head's share of the width, which is its length where the header gives none."""
    if isinstance(width, Known) and isinstance(heads, Known) and heads.value:
        return estimated_fact(width.value // heads.value, f"{width.source} / {heads.source.rpartition(' ')[2]}")
    return not_found("the header gives neither the length of a head nor width and heads")


def _sizes(tensors: Tensors, source: str) -> dict[str, Any]:
    names = ("parameters", "weights_bytes", "expert_bytes", "token_table_bytes", "output_bytes", "output_tied")
    if not tensors.count:
        return dict.fromkeys(names, not_found(f"{source}: none"))
    values = (
        tensors.elements,
        tensors.bytes,
        tensors.expert_bytes,
        tensors.token_table_bytes + tensors.layer_table_bytes,
        tensors.output_bytes or tensors.token_table_bytes,
        not tensors.output_bytes,
    )
    return {name: reported_fact(value, source) for name, value in zip(names, values, strict=True)}


def blueprint(gguf: Gguf) -> model.Blueprint:
    """The model down to its tensors, in the order of the file; LookError where it can't run, or they are missing."""
    if gguf.table is None:
        raise LookError(f"{gguf.path}: the recording has no list of tensors", Absence.NOT_LOOKED, "record it again")
    architecture = gguf.metadata.get("general.architecture")
    try:
        # As llama.cpp counts: the tokens, and the number of them only in a file without any.
        size = gguf.metadata.get(f"{architecture}.vocab_size", 0)
        counted = size if isinstance(size, int) and size > 0 else 0
        plan = model.Blueprint(
            architecture=architecture if isinstance(architecture, str) else "",
            metadata=gguf.metadata,
            tensors=model.unpacked_tensors(gguf.table),
            vocabulary=gguf.array_lengths.get("tokenizer.ggml.tokens") or counted,
            file_bytes=gguf.file_bytes,
        )
        plan.check()
    except ValueError as error:
        raise LookError(f"{gguf.path} {error}") from error
    return plan


def shortfall(gguf: Gguf) -> str:
    """A sentence on a file that ends too soon; empty for a whole one."""
    if not gguf.missing_bytes:
        return ""
    return f"{gguf.path} is incomplete: {gguf.missing_bytes} bytes are missing, from the tensor {gguf.cut_tensor} on"
