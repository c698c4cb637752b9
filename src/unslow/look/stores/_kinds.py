"""What a model is for, by what its header or its config says."""

from collections.abc import Mapping
from typing import Any

from unslow.facts.stored_model import Kind

_TYPES = {"adapter": Kind.ADAPTER, "imatrix": Kind.OTHER, "mmproj": Kind.PROJECTOR}  # gguf-py, constants.py, GGUFType
_GGUF_ENCODERS = ("bert", "t5encoder", "gemma-embedding", "llama-embed")  # or with a prefix or suffix: nomic-bert-moe
_GGUF_DRAFTS = ("eagle3", "dflash", "gemma4-assistant")
_POOLING_RANK = 4  # llama.h, llama_pooling_type
_HF_ENCODERS = ("bert", "roberta", "xlm-roberta", "mpnet", "distilbert", "modernbert", "nomic_bert", "new", "eurobert")
_SENTENCES = ("modules.json", "config_sentence_transformers.json")  # Sentence Transformers


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
