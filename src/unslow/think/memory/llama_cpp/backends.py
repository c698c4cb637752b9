"""What a backend of ggml can compute, and what a tensor takes in its memory."""

from collections.abc import Callable
from operator import attrgetter
from typing import NamedTuple

from unslow.facts.values import padded
from unslow.think.memory.llama_cpp.graph import Node, block_of, row_bytes

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
UNUSUAL_TYPES = _NO_MATRIX_TYPES | _NO_ROW_TYPES | _SHORT_BLOCK_TYPES
"""Of weights: those that a kernel is particular about."""


class Backend(NamedTuple):
    """A device, or the CPU: the last one of a list."""

    is_cpu: bool
    alignment: int
    bytes_of: Callable[[Node], int]
    supports: Callable[[Node], bool]

    def stored_bytes(self, node: Node) -> int:
        """What a tensor takes in a buffer of many, where each begins at an aligned place."""
        return padded(self.bytes_of(node), self.alignment)


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
                size = padded(size, _CUDA_ALIGNMENT) + 2 * cached.elements
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


def _cuda_supports(node: Node) -> bool:
    check = _CUDA_CHECKS.get(node.op)
    return check is None or check(node)


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


_CUDA_CHECKS: dict[str, Callable[[Node], bool]] = {
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
CUDA = Backend(is_cpu=False, alignment=_CUDA_ALIGNMENT, bytes_of=_cuda_bytes, supports=_cuda_supports)
"""An NVIDIA GPU with tensor cores (Turing and later)."""
