"""A model as its header gives it, or the headers of its parts together."""

import msgspec

from unslow.facts.blueprint import Blueprint, Tensor, Value
from unslow.facts.tensor_table import MOST_TENSORS, Table, packed, unpacked
from unslow.facts.values import Absence
from unslow.look.models.gguf.header import Header
from unslow.look.models.gguf.summary import Tensors, summary
from unslow.look.system import LookError

MOST_ITEMS = 16_000_000  # ten times what the largest vocabulary takes


class Gguf(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The header of a model in one file or in several parts."""

    path: str
    file_bytes: int
    """Of all parts; 0 where only the end would tell, as with a pipe."""
    metadata: dict[str, Value]
    array_lengths: dict[str, int]
    tensors: Tensors
    table: Table | None = None
    """None in recordings from before it was kept."""
    missing_bytes: int = 0
    """What the tensors take beyond the end of the file: its download broke off, or it is a header alone."""
    cut_tensor: str = ""
    """The first tensor that is not whole."""


class Assembly:
    """Puts the parts of a model together, each as soon as it is read, so that nothing is kept twice."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._first: Header | None = None
        self._tensors: dict[str, Tensor] = {}
        self._items, self._file_bytes, self._missing_bytes, self._cut_tensor = 0, 0, 0, ""

    def add(self, header: Header, file_bytes: int | None) -> None:
        """The next part; LookError where it can't be a part of the same model."""
        self._first = self._first or header
        self._items += sum(header.array_lengths.values())
        if self._items > MOST_ITEMS or len(self._tensors) + len(header.tensors) > MOST_TENSORS:
            raise LookError(f"makes the header larger than {MOST_ITEMS} items or {MOST_TENSORS} tensors")
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
            tensors=summary(tensors),
            table=packed(tensors),
            missing_bytes=self._missing_bytes,
            cut_tensor=self._cut_tensor,
        )


def shortfall(gguf: Gguf) -> str:
    """A sentence on a file that ends too soon; empty for a whole one."""
    if not gguf.missing_bytes:
        return ""
    return f"{gguf.path} is not whole: {gguf.missing_bytes} bytes are missing, from the tensor {gguf.cut_tensor} on"


def blueprint(gguf: Gguf) -> Blueprint:
    """The model down to its tensors, in the order of the file; LookError where it can't run, or they are missing."""
    if gguf.table is None:
        raise LookError(f"{gguf.path}: the recording has no list of tensors", Absence.NOT_LOOKED, "record it again")
    architecture = gguf.metadata.get("general.architecture")
    try:
        plan = Blueprint(
            architecture=architecture if isinstance(architecture, str) else "",
            metadata=gguf.metadata,
            tensors=unpacked(gguf.table),
            vocabulary=_vocabulary(gguf),
            file_bytes=gguf.file_bytes,
        )
        plan.check()
    except ValueError as error:
        raise LookError(f"{gguf.path} {error}") from error
    return plan


def _vocabulary(gguf: Gguf) -> int:
    """As llama.cpp counts: the tokens, and the number of them only in a file without any."""
    size = gguf.metadata.get(f"{gguf.metadata.get('general.architecture')}.vocab_size", 0)
    return gguf.array_lengths.get("tokenizer.ggml.tokens") or (size if isinstance(size, int) and size > 0 else 0)
