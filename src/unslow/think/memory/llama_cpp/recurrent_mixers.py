"""The kinds of layers that keep a state, and the tensors that tell them apart."""

from collections.abc import Callable

from unslow.think.memory.llama_cpp.build import Build
from unslow.think.memory.llama_cpp.delta_net import delta_net
from unslow.think.memory.llama_cpp.kimi_delta import kimi_delta
from unslow.think.memory.llama_cpp.lightning import lightning
from unslow.think.memory.llama_cpp.mamba import mamba
from unslow.think.memory.llama_cpp.node import Node
from unslow.think.memory.llama_cpp.recurrent import StateRows
from unslow.think.memory.llama_cpp.short_convolution import short_convolution

Mixer = Callable[[Build, int, Node, StateRows], Node]

_BY_TENSOR: tuple[tuple[str, Mixer], ...] = (
    ("ssm_conv1d_q.weight", kimi_delta),
    ("ssm_ba.weight", delta_net),
    ("ssm_beta.weight", delta_net),
    ("shortconv.conv.weight", short_convolution),
    ("attn_norm_2.weight", lightning),
)
"""The first tensor that a layer has tells; one with none of them is a state-space layer."""


def recurrent_mixer(build: Build, layer: int) -> Mixer:
    """What a layer that keeps a state computes."""
    return next((mixer for tensor, mixer in _BY_TENSOR if build.has(f"{build.block(layer)}.{tensor}")), mamba)
