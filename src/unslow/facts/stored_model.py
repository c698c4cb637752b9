"""Models on a machine's disks, in the stores of the tools that use them."""

from enum import StrEnum
from typing import Any

import msgspec

SCHEMA = "unslow.models/1"


class Kind(StrEnum):
    """What a file is for."""

    MODEL = "model"
    EMBEDDING = "embedding"
    RERANKER = "reranker"
    PROJECTOR = "projector"  # Turns images or sound into what a language model reads (`mmproj`)
    ADAPTER = "adapter"
    DRAFT = "draft"  # Made to guess the tokens of another model
    REMOTE = "remote"  # A name only: it runs elsewhere
    OTHER = "other"  # An importance matrix, a vocabulary: no weights to run


RUNNABLE = (Kind.MODEL, Kind.EMBEDDING, Kind.RERANKER)  # The kinds that run by themselves


class StoredFile(msgspec.Struct, frozen=True):
    """One file of a model; `inode` is the same wherever the same bytes are linked from."""

    path: str
    bytes: int
    inode: str = ""


class StoredModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model that a store holds, by the name that its tool has for it; None for what its files do not say."""

    name: str
    tool: str
    kind: Kind = Kind.MODEL
    format: str = ""  # gguf or safetensors
    architecture: str | None = None
    quant: str | None = None
    parameters: int | None = None
    size_bytes: int = 0
    path: str = ""  # What a reader is given: a GGUF file, or the folder or file of a safetensors model
    place: str = ""  # The store's folder
    files: tuple[StoredFile, ...] = ()
    projectors: tuple[str, ...] = ()
    adapters: tuple[str, ...] = ()
    drafts: tuple[str, ...] = ()
    config: str = ""  # The file with its config, where that is not beside its weights
    settings: dict[str, Any] = {}  # What the store has set for it, such as `num_ctx`
    modified_at: str = ""
    superseded: bool = False  # Whether the store has a newer revision of it
    broken: str = ""  # Why it can't be used; empty for a sound one


class Place(msgspec.Struct, frozen=True):
    """Somewhere that was looked for models, and why nothing could be seen there."""

    tool: str
    path: str
    why: str = ""


class Inventory(msgspec.Struct, frozen=True, kw_only=True):
    """All models that were found, and where was looked."""

    schema: str = SCHEMA
    models: tuple[StoredModel, ...]
    places: tuple[Place, ...]
    total_bytes: int  # Of all files, those that several models share counted once
    notices: tuple[str, ...] = ()
