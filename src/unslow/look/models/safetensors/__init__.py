"""safetensors, the format of Transformers, vLLM and MLX: what a model is, from the headers of its files."""

from unslow.look.models.safetensors.checkpoint import Checkpoint, Part
from unslow.look.models.safetensors.facts import config_facts, model_facts
from unslow.look.models.safetensors.parts import checkpoint_sets, main_set
from unslow.look.models.safetensors.read import read_checkpoint, read_config_alone, read_parts

__all__ = [
    "Checkpoint",
    "Part",
    "checkpoint_sets",
    "config_facts",
    "main_set",
    "model_facts",
    "read_checkpoint",
    "read_config_alone",
    "read_parts",
]
