"""`config.json`, as Transformers writes it beside the weights: what a model is, in the dialect of its family."""

from unslow.look.models.hf_config.decoder import shape_of_config
from unslow.look.models.hf_config.quantization import Quantization, named_quant, parse_quantization
from unslow.look.models.hf_config.read import MOST_CONFIG_BYTES, Config, parse_config, read_config
from unslow.look.models.hf_config.shape import Shape, hf_shape, text_config

__all__ = [
    "MOST_CONFIG_BYTES",
    "Config",
    "Quantization",
    "Shape",
    "hf_shape",
    "named_quant",
    "parse_config",
    "parse_quantization",
    "read_config",
    "shape_of_config",
    "text_config",
]
