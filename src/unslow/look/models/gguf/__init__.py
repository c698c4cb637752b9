"""GGUF, the format of llama.cpp, Ollama and LM Studio: what a model is, from the header of its file or files."""

from unslow.look.models.gguf.facts import model_facts
from unslow.look.models.gguf.model import Gguf, blueprint, shortfall
from unslow.look.models.gguf.parts import part_paths
from unslow.look.models.gguf.read import read_gguf, read_gguf_pipe, read_gguf_url

__all__ = [
    "Gguf",
    "blueprint",
    "model_facts",
    "part_paths",
    "read_gguf",
    "read_gguf_pipe",
    "read_gguf_url",
    "shortfall",
]
