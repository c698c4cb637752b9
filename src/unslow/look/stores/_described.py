"""Reads the header of a model that was found: what it is, or why it can't be used."""

import os

import msgspec

from unslow.facts.model import Model
from unslow.facts.stored_model import Kind, StoredFile, StoredModel
from unslow.look.models import gguf, safetensors
from unslow.look.models.hf_config import MOST_CONFIG_BYTES, parse_config
from unslow.look.stores._kinds import checkpoint_kind, gguf_kind
from unslow.look.system import LookError, System

_POINTER = b"version https://git-lfs"


def described(system: System, model: StoredModel) -> StoredModel:
    """The model with what its header tells; a header that can't be read makes it a broken one."""
    if model.broken or model.kind is Kind.REMOTE:
        return model
    try:
        return _gguf(system, model) if model.format == "gguf" else _safetensors(system, model)
    except LookError as error:
        return msgspec.structs.replace(model, broken=_reason(system, model, error))


def _gguf(system: System, model: StoredModel) -> StoredModel:
    header = gguf.read_gguf(system, model.path)
    facts = gguf.model_facts(header)
    tensors = facts.weights_bytes.value_or(0) > 0
    kind = gguf_kind(header.metadata, model.kind, tensors=tensors)
    short = gguf.shortfall(header).removeprefix(f"{header.path} ")
    return msgspec.structs.replace(_with_facts(model, facts), kind=kind, broken=short)


def _safetensors(system: System, model: StoredModel) -> StoredModel:
    checkpoint = _checkpoint(system, model)
    folder = model.path if not model.path.endswith(".safetensors") else os.path.dirname(model.path)  # noqa: PTH120
    beside = frozenset(system.list_dir(folder)) if not model.config else frozenset[str]()
    inodes = {file.path: file.inode for file in model.files}
    told = msgspec.structs.replace(
        model,
        kind=checkpoint_kind(checkpoint.config, beside, model.kind),
        files=tuple(StoredFile(part.path, part.bytes, inodes.get(part.path, "")) for part in checkpoint.parts),
        size_bytes=checkpoint.file_bytes,
    )
    return _with_facts(told, safetensors.model_facts(checkpoint))


def _checkpoint(system: System, model: StoredModel) -> safetensors.Checkpoint:
    """By its folder or file, or, in a store of blobs, by the files that a manifest names."""
    if not model.config:
        return safetensors.read_checkpoint(system, model.path)
    config = parse_config(system.read_bytes(model.config, MOST_CONFIG_BYTES), model.config)
    return safetensors.read_parts(system, model.path, [file.path for file in model.files], config)


def _with_facts(model: StoredModel, facts: Model) -> StoredModel:
    return msgspec.structs.replace(
        model,
        architecture=facts.architecture.value_or(None),
        quant=facts.quant.value_or(None),
        parameters=facts.parameters.value_or(None),
    )


def _reason(system: System, model: StoredModel, error: LookError) -> str:
    """Why it can't be read; the commonest reason is that only a pointer to it was downloaded."""
    for file in model.files:
        try:
            if system.read_head(file.path, len(_POINTER)) == _POINTER:
                return "only its Git LFS pointer is here, not the model: `git lfs pull` fetches it"
        except LookError:
            break
    return error.why.removeprefix(f"{model.path}: ").removeprefix(f"{model.path} ")
