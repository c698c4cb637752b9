"""vLLM's paged cache: layers in groups that share block tables, the blocks that fit, and the tokens they hold.

All groups take blocks from one pool, so that a page must be equally large in every layer: recurrent states stretch the
attention block until a page of it holds a state, and kinds of layers with smaller pages get longer blocks.
"""

from collections.abc import Sequence
from typing import NamedTuple

from unslow.facts.hf_shape import HfShape, LayerKind
from unslow.facts.units import padded
from unslow.think.memory.vllm.settings import Settings


class Group(NamedTuple):
    """Layers that share a block table."""

    kind: LayerKind
    layers: tuple[int, ...]
    block_tokens: int
    """Tokens in a block; of recurrent layers, as many as in an attention block."""
    page_bytes: int
    """What a block takes in one layer."""

    def blocks(self, tokens: int, shape: HfShape, settings: Settings) -> int:
        """The blocks that one request of so many tokens takes."""
        flying = settings.release.batches_in_flight * settings.max_num_batched_tokens
        match self.kind:
            case LayerKind.RECURRENT:
                return 2 if settings.prefix_caching else 1
            case LayerKind.WINDOW:
                return _whole(min(shape.window - 1 + flying, tokens), self.block_tokens) + 1
            case LayerKind.CHUNK:
                return _whole(min(shape.window + flying, tokens), self.block_tokens)
            case _:
                return _whole(tokens, self.block_tokens)


class Capacity(NamedTuple):
    """What blocks hold."""

    blocks: int
    tokens: int
    """As vLLM reports them."""
    concurrency: float
    """Requests of the longest length at once."""


def cache_groups(shape: HfShape, settings: Settings) -> list[Group]:
    """The groups of all layers that keep something."""
    kinds = _layers_by_kind(shape, settings)
    if not kinds:
        return []
    pages = {kind: _token_bytes(shape, settings, layers[0]) for kind, layers in kinds.items() if _attends(kind)}
    block = _attention_block(shape, settings, max(pages.values(), default=0)) if _recurs(kinds) else settings.block_size
    page = max((round(block * size) for size in pages.values()), default=_state_bytes(shape, settings))
    size = _group_size([len(layers) for layers in kinds.values()], settings.release.group_slack)
    groups: list[Group] = []
    for kind, layers in kinds.items():
        tokens = _block_tokens(page, pages.get(kind, 0.0), block)
        count = _whole(len(layers), size)
        groups += (Group(kind, tuple(layers[n::count]), tokens, page) for n in range(count))
    return groups


def _layers_by_kind(shape: HfShape, settings: Settings) -> dict[LayerKind, list[int]]:
    """The layers that keep something, by what they keep."""
    found: dict[LayerKind, list[int]] = {}
    for layer in range(shape.layers):
        kind = shape.kind(layer)
        if shape.keeps(layer) or kind is LayerKind.RECURRENT:
            known = kind if settings.hybrid_cache or kind is LayerKind.RECURRENT else LayerKind.FULL
            found.setdefault(known, []).append(layer)
    return found


def _group_size(counts: Sequence[int], slack: float) -> int:
    """Layers in a group: as many as the rarest kind has, or as the commonest where they hardly differ."""
    least, most = min(counts), max(counts)
    return most if most < least * slack else least


def _token_bytes(shape: HfShape, settings: Settings, layer: int) -> float:
    """What one token takes in one attention layer of one rank."""
    if shape.kv_rank:
        return (shape.kv_rank + shape.rope_length) * settings.kv_bytes
    heads = max(1, shape.kv_heads_of(layer) // settings.tensor_parallel)
    return heads * (shape.key_length_of(layer) + shape.value_length_of(layer)) * settings.kv_bytes


def _state_bytes(shape: HfShape, settings: Settings) -> int:
    """What one sequence takes in one recurrent layer of one rank."""
    past = shape.convolution * (shape.convolution_length - 1)
    return (shape.state * settings.state_bytes + past * settings.dtype_bytes) // settings.tensor_parallel


def _attention_block(shape: HfShape, settings: Settings, token_bytes: float) -> int:
    """The shortest block of attention whose page holds a recurrent state."""
    step = max(settings.block_size, settings.release.latent_alignment) if shape.kv_rank else settings.block_size
    if not token_bytes:
        return settings.block_size
    return max(settings.block_size, padded(_whole(_state_bytes(shape, settings), round(token_bytes)), step))


def _block_tokens(page_bytes: int, token_bytes: float, block: int) -> int:
    """Tokens in a block of this page size; a page that is no multiple is padded instead."""
    own = round(token_bytes * block)
    return block * (page_bytes // own) if own and page_bytes % own == 0 else block


def block_bytes(groups: Sequence[Group], layers: range) -> int:
    """What one block takes on a rank that has these layers: the largest group's pages."""
    return max((g.page_bytes * sum(layer in layers for layer in g.layers) for g in groups), default=0)


def capacity(shape: HfShape, settings: Settings, groups: Sequence[Group], blocks: int) -> Capacity:
    """What so many blocks hold."""
    request = request_blocks(shape, settings, groups, settings.max_model_len)
    concurrency = blocks / request if request else 0.0
    by_block = blocks // max(1, len(groups)) * min((g.block_tokens for g in groups), default=0)
    tokens = int(concurrency * settings.max_model_len) if settings.release.tokens_by_request else by_block
    return Capacity(blocks, tokens, concurrency)


def request_blocks(shape: HfShape, settings: Settings, groups: Sequence[Group], tokens: int) -> int:
    """The blocks that one request of so many tokens takes from the pool."""
    return sum(group.blocks(tokens, shape, settings) for group in groups)


def longest_request(shape: HfShape, settings: Settings, groups: Sequence[Group], blocks: int) -> int:
    """The largest `--max-model-len` up to the one asked for that so many blocks serve; 0 where none does."""
    usable = blocks - (1 if settings.release.null_block else 0)
    low, high = 0, settings.max_model_len
    while low < high:
        middle = (low + high + 1) // 2
        if request_blocks(shape, settings, groups, middle) <= usable:
            low = middle
        else:
            high = middle - 1
    return low


def _attends(kind: LayerKind) -> bool:
    """Whether a kind of layers keeps keys and values."""
    return kind not in {LayerKind.RECURRENT, LayerKind.BARE}


def _recurs(kinds: dict[LayerKind, list[int]]) -> bool:
    """Whether there are recurrent layers."""
    return LayerKind.RECURRENT in kinds


def _whole(size: int, step: int) -> int:
    """How many steps cover a size."""
    return -(-size // step)
