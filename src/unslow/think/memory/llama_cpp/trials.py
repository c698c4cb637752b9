"""What llama.cpp asks a device before it puts a weight there: to compute a small operation with it."""

from unslow.facts.blueprint import Tensor
from unslow.think.memory.llama_cpp.hyper import Hyper
from unslow.think.memory.llama_cpp.node import Node, four

_TOKENS, _SEQUENCES = 512, 3
"""The sizes of the operations that are tried."""

_TABLES = frozenset({"ffn_gate_tid2eid.weight", "attn_compressor_ape.weight", "indexer_compressor_ape.weight"})
"""Weights that are looked up."""


def trial(hyper: Hyper, tensor: Tensor) -> Node:
    """The operation for a weight of this name."""
    weight = Node("none", tensor.type, four(tensor.shape))
    name = tensor.name.split(".", 2)[-1]
    if name in ("ssm_conv1d.weight", "shortconv.conv.weight"):
        return _convolution(weight)
    if name == "ssm_a" and not _is_factor(hyper, tensor.name):
        return _scan(hyper, weight)
    if name in _TABLES:
        rows = Node("none", "I32", (_TOKENS, 1, 1, 1))
        return Node("get_rows", "F32", (weight.shape[0], _TOKENS, 1, 1), (weight, rows))
    if len(tensor.shape) == 1 or not name.endswith(".weight"):
        return Node("mul", "F32", weight.shape, (Node("none", "F32", weight.shape), weight))
    inputs = Node("none", "F32", (weight.shape[0], _TOKENS, *weight.shape[2:]))
    return Node("mul_mat", "F32", (weight.shape[1], *inputs.shape[1:]), (weight, inputs))


def _is_factor(hyper: Hyper, name: str) -> bool:
    """Whether a layer's decays are only multiplied with, as in gated delta networks (not in Kimi's)."""
    block, tensors = name.removesuffix(".ssm_a"), hyper.blueprint.by_name
    return f"{block}.ssm_conv1d.weight" in tensors and f"{block}.ssm_d" not in tensors


def _convolution(kernel: Node) -> Node:
    inputs = Node("none", "F32", (kernel.shape[0] - 1 + _TOKENS, kernel.shape[1], _SEQUENCES, 1))
    return Node("ssm_conv", "F32", (kernel.shape[1], _TOKENS, _SEQUENCES, 1), (inputs, kernel))


def _scan(hyper: Hyper, decay: Node) -> Node:
    number = hyper.blueprint.count
    state = number("ssm.state_size") if decay.shape[0] == 1 else decay.shape[0]
    heads, groups = decay.shape[1], max(1, number("ssm.group_count"))
    length = number("ssm.inner_size") // max(1, heads)
    states = Node("none", "F32", (state, length, heads, _SEQUENCES))
    x = Node("none", "F32", (length, heads, _TOKENS, _SEQUENCES))
    step = Node("none", "F32", (heads, _TOKENS, _SEQUENCES, 1))
    into = out_of = Node("none", "F32", (state, groups, _TOKENS, _SEQUENCES))
    return Node("ssm_scan", "F32", four((x.elements + states.elements,)), (states, x, step, decay, into, out_of))
