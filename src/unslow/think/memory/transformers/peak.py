"""The peak of Transformers' activations: which tensors of a layer are alive at once, counted from its source.

Every sum here was compared with PyTorch's own count on a GPU (lab/compare_transformers_memory.py). The prompt peaks in
the feed-forward of the last layer, or in attention where scores are written out; a token made peaks where the cache is
copied, where keys are repeated for all heads, in the logits, or in the weights of the experts it gathers.
"""

from unslow.facts.hf_shape import HfShape, LayerKind
from unslow.think.memory.transformers.cache import token_numbers
from unslow.think.memory.transformers.settings import LAST_LOGITS_SINCE, Settings

STREAM_COPIES = 4
"""Of the hidden state in a feed-forward: the embeddings, the layer's input, the residual, the normalised one."""
ATTENTION_COPIES = 3
"""Of it in attention, where the layer's input is the residual."""
FLOAT_BYTES = 4


def prompt_peak(shape: HfShape, settings: Settings) -> int:
    """Bytes at the peak of the prompt, beside weights and cache."""
    fed = _feed_forward(shape, settings) + _kept(shape, settings)
    attended = _attention(shape, settings) + _kept(shape, settings)
    return max(fed, attended, _logits(shape, settings))


def _feed_forward(shape: HfShape, settings: Settings) -> int:
    """The widest feed-forward; scores that were written out live on beside it, since attention returns them."""
    numbers = settings.batch * settings.prompt_tokens * (STREAM_COPIES * shape.width + _widest(shape))
    scores = _pairs(shape, settings) if settings.attention == "eager" else 0
    return (numbers + scores) * settings.dtype_bytes


def _widest(shape: HfShape) -> int:
    """Numbers of one token within the widest feed-forward."""
    matrices = 3 if shape.gated else 2
    dense = 0 if all(shape.has_experts(layer) for layer in range(shape.layers)) else matrices * shape.feed_forward
    if not shape.experts:
        return dense
    width, inner = shape.width, shape.expert_width
    # The gathered rows; then with them the upward product twice, the downward product twice, or it weighted and sorted.
    chosen = shape.experts_used * max(width + 4 * inner, 3 * width + inner, 4 * width)
    return max(dense, chosen, width + matrices * shape.shared_width)


def _kept(shape: HfShape, settings: Settings) -> int:
    """What lives through all layers: cosines and sines, and masks."""
    kinds = {shape.kind(layer) for layer in range(shape.layers)}
    tables = 2 if {LayerKind.WINDOW, LayerKind.FULL} <= kinds else 1
    rotated = shape.rope_length or shape.rotated or shape.key_length
    rotations = tables * 2 * rotated * settings.batch * settings.prompt_tokens * settings.dtype_bytes
    return rotations + _masks(shape, settings, kinds)


def _masks(shape: HfShape, settings: Settings, kinds: set[LayerKind]) -> int:
    """A number for each pair of tokens, a mask for each kind of attention that needs one."""
    eager = settings.attention == "eager"
    windows = LayerKind.WINDOW in kinds and settings.prompt_tokens > shape.window
    full = LayerKind.FULL in kinds
    count = full + (LayerKind.WINDOW in kinds) if eager else windows + (full and settings.padded)
    if settings.attention == "flash":
        count = 0
    size = settings.dtype_bytes if eager else 1
    return count * size * settings.batch * settings.prompt_tokens * _keys_seen(settings)


def _pairs(shape: HfShape, settings: Settings) -> int:
    """Queries times keys, for every head."""
    return settings.batch * shape.heads * settings.prompt_tokens * _keys_seen(settings)


def _keys_seen(settings: Settings) -> int:
    """The keys that a prompt's queries are held against."""
    return settings.tokens if settings.cache == "static" and settings.attention == "eager" else settings.prompt_tokens


def _attention(shape: HfShape, settings: Settings) -> int:
    """Attention for the whole prompt: queries, keys repeated for all heads, and scores where they are written out."""
    tokens = settings.batch * settings.prompt_tokens
    queries = shape.heads * max(shape.key_length, shape.full_key_length)
    pairs = _pairs(shape, settings)
    size = settings.dtype_bytes
    stream = ATTENTION_COPIES * shape.width
    if settings.attention == "eager":
        # The scores, the scores in float32 and their softmax; float32 needs no copy of its own.
        score = 2 * size if size == FLOAT_BYTES else size + 2 * FLOAT_BYTES
        return pairs * score + tokens * size * (stream + 3 * queries)
    if _writes_scores(shape, settings):
        # The plain kernel: scores, softmax, and a flag for rows that are masked whole; its mask is shared by the batch.
        mask = FLOAT_BYTES * settings.prompt_tokens**2
        return pairs * (2 * size + 1) + mask + tokens * size * (stream + 4 * queries)
    keys = shape.kv_heads * (shape.key_length + shape.value_length)
    return tokens * size * (stream + 4 * queries + 2 * keys)


def _writes_scores(shape: HfShape, settings: Settings) -> bool:
    """Whether sdpa falls back to its plain kernel: no other one takes float32 with shared keys and no mask."""
    shared = shape.kv_heads != shape.heads and not shape.kv_rank
    return settings.attention == "sdpa" and settings.dtype_bytes == FLOAT_BYTES and shared and not settings.padded


def _logits(shape: HfShape, settings: Settings) -> int:
    """The logits of the prompt: of its last positions, or of all."""
    every = settings.all_logits or settings.version < LAST_LOGITS_SINCE
    positions = settings.batch * (settings.prompt_tokens if every else 1)
    copies = settings.dtype_bytes + (FLOAT_BYTES if settings.version < LAST_LOGITS_SINCE or not every else 0)
    return (
        positions * shape.vocabulary * copies
        + settings.batch * settings.prompt_tokens * shape.width * settings.dtype_bytes
    )


def token_peak(shape: HfShape, settings: Settings) -> int:
    """Bytes at the peak of making one token, beside weights and cache."""
    batch, size = settings.batch, settings.dtype_bytes
    queries = shape.heads * max(shape.key_length, shape.full_key_length)
    repeated = _repeats(shape, settings) * batch * settings.tokens * queries * size
    largest = max((token_numbers(shape, settings, n) for n in range(shape.layers) if shape.keeps(n)), default=0)
    grown = 0 if settings.cache == "static" else batch * settings.tokens * largest // 2 * size
    logits = batch * shape.vocabulary * (size + FLOAT_BYTES)
    # `generate` gathers the weights of the chosen experts for each sequence, the upward and the downward ones.
    gathered = batch * shape.experts_used * 3 * shape.expert_width * shape.width * size
    return max(repeated, grown, logits, gathered)


def _repeats(shape: HfShape, settings: Settings) -> int:
    """Copies of the keys and values for all heads; only an attention without a mask can share them."""
    if shape.kv_heads == shape.heads or shape.kv_rank or settings.attention == "flash":
        return 0
    if settings.padded or settings.cache == "static" or settings.attention == "eager":
        return 2
    return 3 if _writes_scores(shape, settings) else 0
