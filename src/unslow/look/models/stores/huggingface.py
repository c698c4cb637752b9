"""Hugging Face's cache, where Transformers, vLLM, SGLang, MLX and newer builds of llama.cpp keep their models."""

from unslow.look.models.stores import Surroundings
from unslow.look.models.stores._folders import Contents, is_hub, read_hub, read_tree
from unslow.look.system import System

TOOL = "Hugging Face"
claims = is_hub


def places(system: System, around: Surroundings) -> list[str]:  # noqa: ARG001 (one signature for all stores)
    """Where the variables say, and the usual place: a service may not have them set."""
    named = around.variable("HF_HUB_CACHE") or around.variable("HUGGINGFACE_HUB_CACHE")
    home = around.variable("HF_HOME")
    return [p for p in (named or (home and f"{home}/hub"), f"{around.cache}/huggingface/hub") if p]


def find(system: System, place: str) -> Contents:
    """The models of the cache."""
    return read_hub(system, place, read_tree(system, place), TOOL)
