"""One file for each tool that keeps models on a machine.

A store is a module with `TOOL`, `places(system, around)` (where it keeps them), `claims(names)` (whether a folder
with these names in it is one of its kind) and `find(system, place)`. Modules are found by presence; each place fails
alone. Finding reads names only; `described` reads a model's header.
"""

import importlib
import os
import pkgutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from unslow.facts.model import Model
from unslow.facts.stored_model import Kind, Place, StoredFile, StoredModel
from unslow.look.models import gguf, safetensors
from unslow.look.models.hf_config import MOST_CONFIG_BYTES, parse_config
from unslow.look.models.stores._folders import Contents, NamedFile, NamedFolder
from unslow.look.system import LookError, System, convert_answer, try_look

_TYPES = {"adapter": Kind.ADAPTER, "imatrix": Kind.OTHER, "mmproj": Kind.PROJECTOR}  # gguf-py, constants.py, GGUFType
_GGUF_ENCODERS = ("bert", "t5encoder", "gemma-embedding", "llama-embed")  # or with a prefix or suffix: nomic-bert-moe
_GGUF_DRAFTS = ("eagle3", "dflash", "gemma4-assistant")
_POOLING_RANK = 4  # llama.h, llama_pooling_type
_HF_ENCODERS = ("bert", "roberta", "xlm-roberta", "mpnet", "distilbert", "modernbert", "nomic_bert", "new", "eurobert")
_SENTENCES = ("modules.json", "config_sentence_transformers.json")  # Sentence Transformers
_POINTER = b"version https://git-lfs"
VARIABLES = (
    "OLLAMA_MODELS", "LLAMA_CACHE", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME",
    "LOCALAPPDATA",
)  # fmt: skip


class Surroundings(msgspec.Struct, frozen=True):
    """Absolute paths: the home folder, and the variables that are set."""

    home: str
    variables: dict[str, str] = {}

    def variable(self, name: str) -> str:
        """A folder that a variable names; empty where it is not set."""
        return self.variables.get(name, "")

    @property
    def cache(self) -> str:
        return self.variable("XDG_CACHE_HOME") or f"{self.home}/.cache"


class VisitedPlaces:
    """What was found at each place; a place that two stores share is looked at once."""

    def __init__(self) -> None:
        self.models: list[StoredModel] = []
        self.places: list[Place] = []
        self.notices: list[str] = []
        self._looked: set[str] = set()

    def look(self, system: System, place: str, store: Any) -> None:
        place = place.rstrip("/") or "/"
        real = try_look(place, system.read_link, place)
        if real in self._looked:
            return
        self._looked.add(real)
        try:
            contents: Contents = store.find(system, place)
        except LookError as error:
            self.places.append(Place(store.TOOL, place, error.why))
            return
        self.places.append(Place(store.TOOL, place))
        known = {(model.path, model.name) for model in self.models}
        self.models += [m for m in contents.models if (m.path, m.name) not in known]
        self.notices += contents.notices


def find_everywhere(system: System, more: Sequence[str] = ()) -> VisitedPlaces:
    """The models in every store of this machine and in further folders or files, before their headers are read."""
    around, seen = read_surroundings(system), VisitedPlaces()
    for store in all_stores():
        for place in store.places(system, around):
            seen.look(system, place, store)
    for path in more:
        _look_at(system, path, seen)
    return seen


def find_at(system: System, path: str) -> list[StoredModel]:
    """The models in one folder or file, before their headers are read; LookError where there is no such thing."""
    seen = VisitedPlaces()
    _look_at(system, path, seen)
    if seen.places and seen.places[0].why and not seen.models:
        raise LookError(seen.places[0].why)
    return seen.models


def _look_at(system: System, path: str, seen: VisitedPlaces) -> None:
    try:
        names = system.list_dir(path)
    except LookError:
        folder, name = os.path.split(path)
        seen.look(system, path, NamedFile(folder or ".", name))
        return
    seen.look(system, path, next((store for store in all_stores() if store.claims(names)), NamedFolder()))


def all_stores() -> list[Any]:
    """Every store's module, by the name of its tool: a folder that two share is given to the first."""
    names = [info.name for info in pkgutil.iter_modules(__path__) if not info.name.startswith("_")]
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    return sorted(modules, key=lambda store: store.TOOL.casefold())


def read_surroundings(system: System) -> Surroundings:
    """The surroundings of this process."""

    def ask() -> dict[str, Any]:
        set_ones = {name: value for name in VARIABLES if (value := os.environ.get(name))}
        return {"home": _absolute("~"), "variables": {name: _absolute(value) for name, value in set_ones.items()}}

    raw = system.ask("surroundings of model stores", ask)
    return convert_answer(raw, Surroundings, "the recorded surroundings are not valid")


def _absolute(path: str) -> str:
    return os.path.abspath(os.path.expandvars(os.path.expanduser(path)))  # noqa: PTH100, PTH111 (as the tools do it)


def with_header(system: System, model: StoredModel) -> StoredModel:
    """The model with what its header tells; a header that can't be read makes it a broken one."""
    if model.broken or model.kind is Kind.REMOTE:
        return model
    try:
        if model.format == "gguf":
            header = gguf.read_gguf(system, model.path)
            facts = gguf.model_facts(header)
            kind = gguf_kind(header.metadata, model.kind, tensors=facts.weights_bytes.value_or(0) > 0)
            short = gguf.shortfall(header).removeprefix(f"{header.path} ")
            told = msgspec.structs.replace(model, kind=kind, broken=short)
        else:
            told, facts = _read_safetensors(system, model)
    except LookError as error:
        return msgspec.structs.replace(model, broken=_reason(system, model, error))
    known = {name: getattr(facts, name).value_or(None) for name in ("architecture", "quant", "parameters")}
    return msgspec.structs.replace(told, **known)


def _read_safetensors(system: System, model: StoredModel) -> tuple[StoredModel, Model]:
    if model.config:  # in a store of blobs, a manifest names its files
        config = parse_config(system.read_bytes(model.config, MOST_CONFIG_BYTES), model.config)
        checkpoint = safetensors.read_parts(system, model.path, [file.path for file in model.files], config)
        beside = frozenset[str]()
    else:
        checkpoint = safetensors.read_checkpoint(system, model.path)
        folder = os.path.dirname(model.path) if model.path.endswith(".safetensors") else model.path  # noqa: PTH120
        beside = frozenset(system.list_dir(folder))
    inodes = {file.path: file.inode for file in model.files}
    told = msgspec.structs.replace(
        model,
        kind=checkpoint_kind(checkpoint.config, beside, model.kind),
        files=tuple(StoredFile(part.path, part.bytes, inodes.get(part.path, "")) for part in checkpoint.parts),
        size_bytes=checkpoint.file_bytes,
    )
    return told, safetensors.model_facts(checkpoint)


def _reason(system: System, model: StoredModel, error: LookError) -> str:
    """Why it can't be read; the commonest reason is that only a pointer to it was downloaded."""
    with suppress(LookError):
        if any(system.read_head(file.path, len(_POINTER)) == _POINTER for file in model.files):
            return "only its Git LFS pointer is here, not the model: `git lfs pull` fetches it"
    return error.why.removeprefix(f"{model.path}: ").removeprefix(f"{model.path} ")


def gguf_kind(metadata: Mapping[str, Any], named: Kind, *, tensors: bool) -> Kind:
    """What a GGUF file is; `named` is what its name suggests."""
    architecture = str(metadata.get("general.architecture", ""))
    if kind := _TYPES.get(str(metadata.get("general.type"))):
        return kind
    if architecture == "clip" or "adapter.type" in metadata:
        return Kind.PROJECTOR if architecture == "clip" else Kind.ADAPTER
    if not tensors:
        return Kind.OTHER
    if architecture in _GGUF_DRAFTS or named is Kind.DRAFT:
        return Kind.DRAFT
    pooling = metadata.get(f"{architecture}.pooling_type", 0)
    if pooling == _POOLING_RANK:
        return Kind.RERANKER
    encoder = any(word in architecture for word in _GGUF_ENCODERS)
    return Kind.EMBEDDING if encoder or (isinstance(pooling, int) and pooling > 0) else Kind.MODEL


def checkpoint_kind(config: Mapping[str, Any], beside: frozenset[str], named: Kind) -> Kind:
    """What a safetensors model is; `beside` are the names of the files in its folder."""
    if named is Kind.ADAPTER or "adapter_config.json" in beside:
        return Kind.ADAPTER
    classes = config.get("architectures")
    heads = [c for c in classes if isinstance(c, str)] if isinstance(classes, list) else []
    if any(c.endswith("ForSequenceClassification") for c in heads):
        return Kind.RERANKER
    if any(name in beside for name in _SENTENCES) or config.get("model_type") in _HF_ENCODERS:
        return Kind.EMBEDDING
    return named
