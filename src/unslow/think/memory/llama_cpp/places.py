"""Which backend's memory each tensor goes to when llama.cpp loads a model."""

import re
from bisect import bisect_right
from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from itertools import accumulate
from operator import attrgetter
from typing import NamedTuple

from unslow.catalog.quants import quants
from unslow.facts.model import Tensor
from unslow.facts.values import pad_to
from unslow.think.memory.llama_cpp.graph import Node, block_of, four, row_bytes
from unslow.think.memory.llama_cpp.hyperparameters import Hyper, Settings

_HOST_ALIGNMENT = 32
_CUDA_ALIGNMENT = 128
_CUDA_ROW_PADDING = 512
_VECTOR_ROWS = 2
_OFFLOAD_MIN_BATCH = 32  # from so many rows on a GPU computes with weights that lie on the host, copying them first
_HEAD_LENGTHS = frozenset({40, 64, 72, 80, 96, 112, 128, 256})
_ATTENTION_TYPES = frozenset({"F32", "F16", "BF16", "Q4_0", "Q8_0"})
_CACHE_TYPES = _ATTENTION_TYPES | {"Q4_1", "Q5_0", "Q5_1", "IQ4_NL"}
_NO_MATRIX_TYPES = frozenset({"TQ1_0", "TQ2_0", "Q8_1", "I32", "I64"})
_NO_ROW_TYPES = _NO_MATRIX_TYPES - {"I32"} | {"NVFP4"}
_SHORT_BLOCK_TYPES = frozenset({"IQ4_NL", "MXFP4"})
UNUSUAL_TYPES = _NO_MATRIX_TYPES | _NO_ROW_TYPES | _SHORT_BLOCK_TYPES  # Of weights: what a kernel is particular about


class Backend(NamedTuple):
    """A device, or the CPU: the last one of a list."""

    is_cpu: bool
    alignment: int
    bytes_of: Callable[[Node], int]
    supports: Callable[[Node], bool]

    def stored_bytes(self, node: Node) -> int:
        """What a tensor takes in a buffer of many, where each begins at an aligned place."""
        return pad_to(self.bytes_of(node), self.alignment)


def wants_offload(node: Node) -> bool:
    """Whether a GPU takes over an operation whose weight lies on the host: from a batch of 32 on."""
    if node.op == "get_rows":
        return False
    if node.op == "mul_mat":
        return node.shape[1] >= _OFFLOAD_MIN_BATCH
    if node.op in ("mul_mat_id", "rope"):
        return node.shape[2] >= _OFFLOAD_MIN_BATCH
    return node.elements // max(1, node.shape[0]) >= _OFFLOAD_MIN_BATCH


def _cuda_bytes(node: Node) -> int:
    """Quantised rows are padded, and flash attention keeps 16-bit copies of keys and values of other types."""
    size = node.bytes
    if node.op == "flash_attn":
        query, key, value = node.sources[:3]
        shared = value.view_of is not None and value.view_of is key.view_of
        copied = () if query.shape[1] <= _VECTOR_ROWS and block_of(key.kind)[0] > 1 else (key, value)
        for cached in copied[:1] if shared else copied:  # the kernel for single tokens reads them as they are
            if cached.kind != "F16":
                size = pad_to(size, _CUDA_ALIGNMENT) + 2 * cached.elements
    if block_of(node.kind)[0] > 1 and node.shape[0] % _CUDA_ROW_PADDING:
        size += row_bytes(node.kind, _CUDA_ROW_PADDING - node.shape[0] % _CUDA_ROW_PADDING)
    return size


_SUPER_BLOCK = 256
_KQ_STRIDE = 256
_MAMBA_2_STATES = frozenset({128, 256})
_MAMBA_1_STATE = 16
_SSM_THREADS = 128
_INDEX_LENGTH = 128
_INDEX_HEADS = frozenset({32, 64})


def _supports_attention(node: Node) -> bool:
    """Whether a flash-attention kernel exists for these lengths of heads and these types of the cache."""
    query, key, value, mask = node.sources[:4]
    if key.kind != value.kind or key.kind not in _ATTENTION_TYPES:
        return False
    ratio = query.shape[2] // max(1, key.shape[2])
    grouped = ratio > 1 and key.shape[1] % _KQ_STRIDE == 0 and _is_aligned(query, key, value, mask)
    match key.shape[0], value.shape[0]:
        case (192, 128):
            return grouped and ratio % 8 == 0
        case (320, 256):
            return grouped and ratio % 32 == 0
        case (512, 512) | (576, 512):
            return grouped
        case (key_length, value_length):
            return key_length == value_length and key_length in _HEAD_LENGTHS


def _is_aligned(*tensors: Node) -> bool:
    return all(s % 16 == 0 for t in tensors if block_of(t.kind)[0] == 1 for s in t.strides[1:])


def _supports_rows(node: Node) -> bool:
    table = node.sources[0]
    if table.kind in _SHORT_BLOCK_TYPES:
        return table.shape[0] % _SUPER_BLOCK == 0
    return table.kind not in _NO_ROW_TYPES


def _supports_indexer(node: Node) -> bool:
    query, key = node.sources[:2]
    return query.shape[0] == _INDEX_LENGTH and query.shape[1] in _INDEX_HEADS and _is_aligned(query, key)


def _supports_scan(node: Node) -> bool:
    """The state-space kernels exist for the sizes that published models have."""
    state, decay, into = node.sources[0], node.sources[3], node.sources[4]
    if decay.shape[0] == 1:
        return state.shape[0] in _MAMBA_2_STATES and state.shape[1] % 16 == 0
    one_group = state.shape[1] == into.shape[1] == 1
    return state.shape[0] == _MAMBA_1_STATE and one_group and state.shape[2] % _SSM_THREADS == 0


_CHECKS: dict[str, Callable[[Node], bool]] = {
    "flash_attn": _supports_attention,
    "get_rows": _supports_rows,
    "mul_mat": lambda n: n.sources[0].kind not in _NO_MATRIX_TYPES,
    "mul_mat_id": lambda n: n.sources[0].kind not in _NO_MATRIX_TYPES,
    "set_rows": lambda n: n.kind in _CACHE_TYPES,
    "scale": lambda n: n.kind in ("F32", "BF16"),
    "unary": lambda n: n.sources[0].is_contiguous,
    "lightning_indexer": _supports_indexer,
    "ssm_scan": _supports_scan,
    "ssm_conv": lambda n: n.sources[0].shape[1] % _SSM_THREADS == 0,
}
"""What a kernel is particular about; every other operation that llama.cpp's graphs use runs on CUDA."""
CPU = Backend(is_cpu=True, alignment=_HOST_ALIGNMENT, bytes_of=attrgetter("bytes"), supports=lambda _: True)
CUDA = Backend(
    is_cpu=False, alignment=_CUDA_ALIGNMENT, bytes_of=_cuda_bytes, supports=lambda n: _CHECKS.get(n.op, CPU.supports)(n)
)
"""An NVIDIA GPU with tensor cores (Turing and later)."""
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
        # The first layers on the host, the others and the output on the GPUs by their shares
        places, total = hyper.all_layers + 1, sum(shares)
        wanted = places if settings.gpu_layers < 0 else min(settings.gpu_layers, places)
        self.layers = [self.host] * places
        """Where each layer's weights go, and at the end the output, unless a pattern says otherwise."""
        if wanted and total:
            bounds = [part / total for part in accumulate(shares)]
            on_gpus = (min(bisect_right(bounds, n / wanted), self.host - 1) for n in range(wanted))
            self.layers[places - wanted :] = on_gpus
        self.by_layers = not self._overrides  # Whether no pattern takes single tensors out of their layers
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
                place = self._preferred_device(name) if layer is None else self.layers[layer]
                tensor = self._hyper.blueprint.by_name.get(name)
                if tensor is not None and place != self.host and not self._is_usable(tensor):
                    place = self.host
            self._tensors[name, layer] = place
        return self._tensors[name, layer]

    def copies(self, name: str) -> list[int]:
        """The place of each copy of a tensor; none where it is not loaded."""
        hyper = self._hyper
        said = _parse_name(name)
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

    def group(self, tensor: Tensor) -> Hashable:
        """What this tensor has in common with all that go where it goes, however many layers a GPU has."""
        said = _parse_name(tensor.name)
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

    def _preferred_device(self, name: str) -> int:
        """Where it would go if every device could compute with it."""
        said = _parse_name(name)
        if said.is_first and not name.startswith(f"{self._hyper.last_norm}."):
            return self.layers[0]
        if said.layer is None:
            return self.host if said.is_input else self.layers[-1]
        if said.layer < self._settings.experts_on_cpu and said.is_of_experts:
            return self.host
        return self.layers[said.layer] if said.layer < len(self.layers) else self.host


@lru_cache(maxsize=16384)
def _parse_name(name: str) -> _Name:
    """The same few thousand names are asked for with every placement that is tried."""
    layer = _LAYER.search(name)
    per_layer, input_, first = (bool(pattern.match(name)) for pattern in (_PER_LAYER, _INPUT, _FIRST_LAYER))
    return _Name(int(layer[1]) if layer else None, per_layer, input_, first, bool(_EXPERTS.search(name)))


def trial_operation(hyper: Hyper, tensor: Tensor) -> Node:
    """The operation for a weight of this name."""
    weight = Node("none", tensor.type, four(tensor.shape))
    name = tensor.name.split(".", 2)[-1]
    if name in ("ssm_conv1d.weight", "shortconv.conv.weight"):
        inputs = Node("none", "F32", (weight.shape[0] - 1 + _TOKENS, weight.shape[1], _SEQUENCES, 1))
        return Node("ssm_conv", "F32", (weight.shape[1], _TOKENS, _SEQUENCES, 1), (inputs, weight))
    block, tensors = tensor.name.removesuffix(".ssm_a"), hyper.blueprint.by_name
    # The decays of gated delta networks are only multiplied with (not those of Kimi's)
    is_factor = f"{block}.ssm_conv1d.weight" in tensors and f"{block}.ssm_d" not in tensors
    if name == "ssm_a" and not is_factor:
        number, (state, heads) = hyper.blueprint.count, weight.shape[:2]
        state = number("ssm.state_size") if state == 1 else state
        length, groups = number("ssm.inner_size") // max(1, heads), max(1, number("ssm.group_count"))
        states = Node("none", "F32", (state, length, heads, _SEQUENCES))
        x = Node("none", "F32", (length, heads, _TOKENS, _SEQUENCES))
        step = Node("none", "F32", (heads, _TOKENS, _SEQUENCES, 1))
        way = Node("none", "F32", (state, groups, _TOKENS, _SEQUENCES))
        scanned = four((x.elements + states.elements,))
        return Node("ssm_scan", "F32", scanned, (states, x, step, weight, way, way))
    if name in _TABLES:
        rows = Node("none", "I32", (_TOKENS, 1, 1, 1))
        return Node("get_rows", "F32", (weight.shape[0], _TOKENS, 1, 1), (weight, rows))
    if len(tensor.shape) == 1 or not name.endswith(".weight"):
        return Node("mul", "F32", weight.shape, (Node("none", "F32", weight.shape), weight))
    inputs = Node("none", "F32", (weight.shape[0], _TOKENS, *weight.shape[2:]))
    return Node("mul_mat", "F32", (weight.shape[1], *inputs.shape[1:]), (weight, inputs))
