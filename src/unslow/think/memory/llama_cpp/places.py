"""Which backend's memory each tensor goes to when llama.cpp loads a model."""

import re
from bisect import bisect_right
from collections.abc import Hashable, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

from unslow.catalog.quants import quants
from unslow.facts.model import Tensor
from unslow.think.memory.llama_cpp.backends import CUDA
from unslow.think.memory.llama_cpp.graph import Node, four
from unslow.think.memory.llama_cpp.hyperparameters import Hyper
from unslow.think.memory.llama_cpp.settings import Settings

OUTPUT = -1  # the layer that the output counts as
_LAYER = re.compile(r"blk\.(\d+)\.")
_EXPERTS = re.compile(r"\.ffn_(up|down|gate|gate_up)_(ch|)exps")
_INPUT = re.compile(r"(token_embd|position_embd|token_types|per_layer_token_embd)\b")
"""Tables that are only looked up: they stay on the host."""
_FIRST_LAYER = re.compile(r"(token_embd_norm|per_layer_model_proj|per_layer_proj_norm)\b")
"""What comes before the layers, and goes where the first one is."""
_PER_LAYER = re.compile(r"rope_(freqs|factors_long|factors_short)\b")  # what all layers read, each on its own device
_TOKENS, _SEQUENCES = 512, 3  # the sizes of the operations that are tried
_TABLES = frozenset({"ffn_gate_tid2eid.weight", "attn_compressor_ape.weight", "indexer_compressor_ape.weight"})
"""Weights that are looked up."""


class _Name(NamedTuple):
    layer: int | None
    is_per_layer: bool
    is_input: bool
    is_first: bool
    is_of_experts: bool


class Places:
    """The backends by number: GPUs first, the host last."""

    def __init__(self, hyper: Hyper, settings: Settings, shares: Sequence[float]) -> None:
        self._hyper, self._settings = hyper, settings
        self.host = len(shares)
        self._overrides = [(re.compile(pattern), int(backend)) for pattern, backend in settings.overrides]
        self.layers = _layer_places(hyper.all_layers, settings.gpu_layers, shares)
        """Where each layer's weights go, and at the end the output, unless a pattern says otherwise."""
        self._tensors: dict[tuple[str, int | None], int] = {}
        self._usable: dict[tuple[str, str, tuple[int, ...]], bool] = {}

    def cache(self, layer: int) -> int:
        """Where a layer's keys and values go: with the layer, or to the host."""
        return self.layers[layer] if self._settings.cache_on_gpu else self.host

    def tensor(self, name: str, layer: int | None = None) -> int:
        """Where a tensor of this name goes, or the copy of it that is made for a layer."""
        if (name, layer) not in self._tensors:
            # As a pattern says, else where it is used; but to the host if the device there can't compute with it
            place = next((backend for pattern, backend in self._overrides if pattern.search(name)), None)
            if place is None:
                place = self._wanted(name) if layer is None else self.layers[layer]
                tensor = self._hyper.blueprint.by_name.get(name)
                if tensor is not None and place != self.host and not self._is_usable(tensor):
                    place = self.host
            self._tensors[name, layer] = place
        return self._tensors[name, layer]

    def copies(self, name: str) -> list[int]:
        """The place of each copy of a tensor; none where it is not loaded."""
        hyper = self._hyper
        said = _read(name)
        if said.is_per_layer:
            return sorted({self.tensor(name, layer) for layer in range(hyper.layers)})
        is_draft = said.layer is not None and said.layer >= hyper.layers
        if is_draft and not any(part in name for part in hyper.habits.draft_tensors):
            return []
        places = [self.tensor(name)]
        if name == "token_embd.weight" and "output.weight" not in hyper.blueprint.by_name and hyper.habits.copies_table:
            output = self.tensor(name, OUTPUT)
            if output not in places or hyper.habits.copies_table_first:
                places.append(output)
        return places

    @property
    def by_layers(self) -> bool:
        """Whether layers are placed as they are, and no pattern takes single tensors out of them."""
        return not self._overrides

    def group(self, tensor: Tensor) -> Hashable:
        """What this tensor has in common with all that go where it goes, however many layers a GPU has."""
        said = _read(tensor.name)
        if self._overrides or said.layer is None or said.layer >= self._hyper.layers:
            return tensor.name
        return said.layer, said.is_of_experts, self._is_usable(tensor)

    def _is_usable(self, tensor: Tensor) -> bool:
        """Whether a GPU can compute with it; its like in all layers are asked for once."""
        key = tensor.name.split(".", 2)[-1], tensor.type, tensor.shape
        if key not in self._usable:
            unknown = tensor.type not in quants()  # a newer llama.cpp may know it
            self._usable[key] = unknown or CUDA.supports(trial_operation(self._hyper, tensor))
        return self._usable[key]

    def _wanted(self, name: str) -> int:
        """Where it would go if every device could compute with it."""
        said = _read(name)
        if said.is_first and not name.startswith(f"{self._hyper.last_norm}."):
            return self.layers[0]
        if said.layer is None:
            return self.host if said.is_input else self.layers[-1]
        if said.layer < self._settings.experts_on_cpu and said.is_of_experts:
            return self.host
        return self.layers[said.layer] if said.layer < len(self.layers) else self.host


def _layer_places(layers: int, gpu_layers: int, shares: Sequence[float]) -> list[int]:
    """The first layers on the host, the others and the output on the GPUs by their shares."""
    host, total = len(shares), sum(shares)
    wanted = layers + 1 if gpu_layers < 0 else min(gpu_layers, layers + 1)
    if not wanted or not total:
        return [host] * (layers + 1)
    bounds = [part / total for part in accumulate(shares)]
    start = layers + 1 - wanted
    on_gpus = (min(bisect_right(bounds, n / wanted), host - 1) for n in range(wanted))
    return [*[host] * start, *on_gpus]


@lru_cache(maxsize=16384)
def _read(name: str) -> _Name:
    """The same few thousand names are asked for with every placement that is tried."""
    layer = _LAYER.search(name)
    return _Name(
        int(layer[1]) if layer else None,
        bool(_PER_LAYER.match(name)),
        bool(_INPUT.match(name)),
        bool(_FIRST_LAYER.match(name)),
        bool(_EXPERTS.search(name)),
    )


def trial_operation(hyper: Hyper, tensor: Tensor) -> Node:
    """The operation for a weight of this name."""
    weight = Node("none", tensor.type, four(tensor.shape))
    name = tensor.name.split(".", 2)[-1]
    if name in ("ssm_conv1d.weight", "shortconv.conv.weight"):
        inputs = Node("none", "F32", (weight.shape[0] - 1 + _TOKENS, weight.shape[1], _SEQUENCES, 1))
        return Node("ssm_conv", "F32", (weight.shape[1], _TOKENS, _SEQUENCES, 1), (inputs, weight))
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
