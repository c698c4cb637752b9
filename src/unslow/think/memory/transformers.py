"""The memory of Transformers: weights by device map, the cache it grows or sets aside, and the peaks of its kernels."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from unslow.catalog.runtimes import overheads
from unslow.catalog.weight_parts import Part, Role
from unslow.facts.model import HfShape, LayerKind
from unslow.think.memory.footprint import NOTHING_HELD, DeviceBytes, Spread

LATENTS_SINCE = (5, 15)
"""From here on latents are cached as they are; before, the keys and values of all heads that are made from them."""
LAST_LOGITS_SINCE = (4, 45)
"""From here on `generate` computes the logits of the last position alone; before, of all, and in float32."""
SINGLE_CARD_SHARE = 0.9
HOST_SHARE = 0.9  # of free memory, where the user states no limits; of several cards, all of it
BUFFER = 1.25  # balanced cards get a share and so many layers on top
STATE_BYTES = 4  # recurrent states are kept in float32
FLOAT_BYTES = 4
STREAM_COPIES = 4  # Of the hidden state in a feed-forward: the embeddings, the layer's input, the residual, its norm
ATTENTION_COPIES = 3  # of it in attention, where the layer's input is the residual
PEAK_LOW, PEAK_HIGH = 0.97, 1.05  # how far measured peaks lie from the sum, of kinds of models that were measured
UNMEASURED_HIGH = 1.3  # of latents and recurrent layers, whose kernels were only read
LONGEST = 2**24


class TransformersSettings(NamedTuple):
    """The settings that decide memory."""

    prompt_tokens: int
    new_tokens: int = 1
    batch: int = 1
    cache: str = "dynamic"  # `dynamic` grows with each token; `static` (of `cache_implementation`) is set aside whole
    attention: str = "sdpa"  # `sdpa`, `flash` or `eager` (`attn_implementation`)
    padded: bool = False  # Whether prompts of one batch differ in length, so that attention needs a mask
    dtype_bytes: int = 2  # Of activations and of the cache
    all_logits: bool = False  # Whether the logits of every position are wanted, as a bare call of the model gives them
    device_map: str = "auto"  # `auto` (balanced), `sequential`, or `single` for all on the first device
    version: tuple[int, int] = (5, 17)

    @property
    def tokens(self) -> int:
        """The length of a sequence at the end."""
        return self.prompt_tokens + self.new_tokens


class Module(NamedTuple):
    """What is placed as one: the table, a layer, the last norm, the output."""

    layer: int  # -1 for the table; the number of layers for what comes after them
    bytes: int


class TransformersMemory(NamedTuple):
    """The answer."""

    devices: tuple[DeviceBytes, ...]
    host: DeviceBytes
    disk_bytes: int
    places: tuple[int, ...]  # For each module (table, layers, norm, output) its card; then the host; then the disk
    fits: bool  # Whether every card has room for what it is to hold


def transformers_memory(
    shape: HfShape,
    parts: Sequence[Part],
    settings: TransformersSettings,
    free_bytes: Sequence[int],
    host_free_bytes: int = 0,
) -> TransformersMemory:
    """The memory of Transformers on cards with so much free memory, and a host; without a card, on the host."""
    modules = modules_of(shape, parts)
    if settings.device_map == "single" or not free_bytes:
        places = [0] * len(modules)
    else:
        limits = card_limits(settings.device_map, modules, free_bytes)
        places = place_modules(modules, limits, int(host_free_bytes * HOST_SHARE))
    by_device = [[m for m, p in zip(modules, places, strict=True) if p == n] for n in range(len(free_bytes) + 2)]
    *cards, on_host, on_disk = by_device
    # Offloaded modules visit the first card, and their cache stays there.
    offloaded = [on_host + on_disk if not number else [] for number in range(len(cards))]
    context = Spread(*overheads().context).plus(Spread(*overheads().workspace))
    devices = tuple(
        _device_memory(shape, settings, own, away, context) if own or away else DeviceBytes()
        for own, away in zip(cards, offloaded, strict=True)
    )
    host = DeviceBytes(_size(on_host)) if cards else _device_memory(shape, settings, on_host, [], NOTHING_HELD)
    room = all(device.total.mid <= free for device, free in zip(devices, free_bytes, strict=True))
    fits = room if cards else host.total.mid <= host_free_bytes
    return TransformersMemory(devices, host, _size(on_disk), tuple(places), fits)


def longest_transformers_context(
    shape: HfShape,
    parts: Sequence[Part],
    settings: TransformersSettings,
    free_bytes: Sequence[int],
    host_free_bytes: int = 0,
) -> int:
    """The most tokens, prompt and answer together, that fit with this batch; 0 where not even one does."""

    def is_too_long(tokens: int) -> bool:
        asked = settings._replace(prompt_tokens=max(1, tokens - settings.new_tokens))
        return not transformers_memory(shape, parts, asked, free_bytes, host_free_bytes).fits

    return bisect_left(range(1, LONGEST + 1), True, key=is_too_long)  # noqa: FBT003 (the first that is)


def modules_of(shape: HfShape, parts: Sequence[Part]) -> list[Module]:
    """The modules in the order that they are placed in; a tied output goes with the table."""
    sizes = [0] * (shape.layers + 2)
    output = 0
    for part in parts:
        if part.role is Role.OUTPUT:
            output += part.bytes
        else:
            sizes[part.layer + 1] += part.bytes
    modules = [Module(number - 1, size) for number, size in enumerate(sizes)]
    return [*modules, Module(shape.layers, output)] if output else modules


def card_limits(how: str, modules: Sequence[Module], free_bytes: Sequence[int]) -> list[int]:
    """The most bytes of modules for each card, where the user states none."""
    single = len(free_bytes) == 1 and how != "sequential"
    return balanced_limits(how, modules, [int(free * SINGLE_CARD_SHARE) if single else free for free in free_bytes])


def balanced_limits(how: str, modules: Sequence[Module], cards: Sequence[int]) -> list[int]:
    """The cards' limits, lowered to a fair share for all but the last one unless they are filled one after another."""
    if how == "sequential" or not cards:
        return list(cards)
    total = sum(module.bytes for module in modules)
    layer = max((module.bytes for module in modules[1:] if module.layer < modules[-1].layer), default=0)
    share = total // len(cards) + int(BUFFER * layer)
    return [*(min(card, share) for card in cards[:-1]), cards[-1]]


def place_modules(modules: Sequence[Module], cards: Sequence[int], host_bytes: int) -> list[int]:
    """For each module its device: the cards from 0 on, then the host, then the disk."""
    # The first card and the host keep room for the largest module still to come, since offloaded ones visit them.
    room = [*cards, host_bytes]
    host = len(cards)
    used, device, places = 0, 0, []
    for number, module in enumerate(modules):
        later = max((other.bytes for other in modules[number + 1 :]), default=0)
        while device <= host and used + module.bytes > room[device] - (later if device in {0, host} else 0):
            device, used = device + 1, 0
        used += module.bytes
        places.append(device)
    return places


def _device_memory(
    shape: HfShape, settings: TransformersSettings, own: Sequence[Module], offloaded: Sequence[Module], other: Spread
) -> DeviceBytes:
    layers = [module.layer for module in (*own, *offloaded) if 0 <= module.layer < shape.layers]
    kept = cache_bytes(shape, settings, layers)
    prompt = cache_bytes(shape, settings, layers, after_prompt=True) + prompt_peak(shape, settings)
    visiting = max((module.bytes for module in offloaded), default=0)
    peak = max(prompt, kept + token_peak(shape, settings)) - kept + visiting
    high = UNMEASURED_HIGH if shape.kv_rank or shape.state else PEAK_HIGH
    return DeviceBytes(_size(own), kept, Spread(round(peak * PEAK_LOW), peak, round(peak * high)), other)


def _size(modules: Sequence[Module]) -> int:
    return sum(module.bytes for module in modules)


def cache_bytes(
    shape: HfShape, settings: TransformersSettings, layers: Iterable[int], *, after_prompt: bool = False
) -> int:
    """The cache of these layers when the last token has been made, or right after the prompt."""
    if after_prompt and settings.cache != "static":  # a growing window is a slice that keeps all of the prompt alive
        return sum(_layer(shape, settings, layer, settings.prompt_tokens) for layer in layers)
    # The last token made is not put into a growing cache any more
    tokens = settings.tokens if settings.cache == "static" else max(settings.prompt_tokens, settings.tokens - 1)
    short = {LayerKind.WINDOW, LayerKind.CHUNK}
    lengths = ((n, min(tokens, shape.window) if shape.kind(n) in short else tokens) for n in layers)
    return sum(_layer(shape, settings, n, length) for n, length in lengths)


def _layer(shape: HfShape, settings: TransformersSettings, layer: int, tokens: int) -> int:
    """The keys and values of so many tokens, or the state that stands for them, for the whole batch."""
    if shape.kind(layer) is LayerKind.RECURRENT:
        past = shape.convolution * shape.convolution_length
        return settings.batch * (shape.state * STATE_BYTES + past * settings.dtype_bytes)
    if not shape.keeps(layer):
        return 0
    return settings.batch * tokens * token_numbers(shape, settings, layer) * settings.dtype_bytes


def token_numbers(shape: HfShape, settings: TransformersSettings, layer: int) -> int:
    """How many numbers a layer keeps of one token."""
    if shape.kv_rank and settings.version >= LATENTS_SINCE:
        return shape.kv_rank + shape.rope_length
    return shape.kv_heads_of(layer) * (shape.key_length_of(layer) + shape.value_length_of(layer))


def prompt_peak(shape: HfShape, settings: TransformersSettings) -> int:
    """Bytes at the peak of the prompt, beside weights and cache: of the tensors of a layer that are alive at once."""
    # They are counted from Transformers' source, and every sum was compared with PyTorch's own count on a GPU
    # (lab/compare_transformers_memory.py). The prompt peaks in the feed-forward of the last layer, or in attention
    # where scores are written out.
    # The widest feed-forward; scores that were written out live on beside it, since attention returns them
    matrices, width, inner = 3 if shape.gated else 2, shape.width, shape.expert_width
    widest = 0 if all(shape.has_experts(layer) for layer in range(shape.layers)) else matrices * shape.feed_forward
    if shape.experts:
        # The gathered rows; then with them the upward product twice, the downward one twice, or it weighted and sorted
        chosen = shape.experts_used * max(width + 4 * inner, 3 * width + inner, 4 * width)
        widest = max(widest, chosen, width + matrices * shape.shared_width)
    numbers = settings.batch * settings.prompt_tokens * (STREAM_COPIES * width + widest)
    scores = shape.heads * _pairs(settings) if settings.attention == "eager" else 0
    fed = ((numbers + scores) * settings.dtype_bytes) + _persistent_bytes(shape, settings)
    attended = _attention(shape, settings) + _persistent_bytes(shape, settings)
    # The logits of the prompt: of its last positions, or of all
    every = settings.all_logits or settings.version < LAST_LOGITS_SINCE
    positions = settings.batch * (settings.prompt_tokens if every else 1)
    copies = settings.dtype_bytes + (FLOAT_BYTES if settings.version < LAST_LOGITS_SINCE or not every else 0)
    logits = (
        positions * shape.vocabulary * copies
        + settings.batch * settings.prompt_tokens * shape.width * settings.dtype_bytes
    )
    return max(fed, attended, logits)


def _persistent_bytes(shape: HfShape, settings: TransformersSettings) -> int:
    """What lives through all layers: cosines and sines, and masks."""
    kinds = {shape.kind(layer) for layer in range(shape.layers)}
    tables = 2 if {LayerKind.WINDOW, LayerKind.FULL} <= kinds else 1
    rotated = shape.rope_length or shape.rotated or shape.key_length
    rotations = tables * 2 * rotated * settings.batch * settings.prompt_tokens * settings.dtype_bytes
    # A number for each pair of tokens, a mask for each kind of attention that needs one
    eager = settings.attention == "eager"
    windows = LayerKind.WINDOW in kinds and settings.prompt_tokens > shape.window
    full = LayerKind.FULL in kinds
    count = full + (LayerKind.WINDOW in kinds) if eager else windows + (full and settings.padded)
    if settings.attention == "flash":
        count = 0
    size = settings.dtype_bytes if eager else 1
    return rotations + count * size * _pairs(settings)


def _pairs(settings: TransformersSettings) -> int:
    """Pairs of a token and one that it is compared with, of the whole batch."""
    all_seen = settings.cache == "static" and settings.attention == "eager"
    return settings.batch * settings.prompt_tokens * (settings.tokens if all_seen else settings.prompt_tokens)


def _attention(shape: HfShape, settings: TransformersSettings) -> int:
    """Attention for the whole prompt: queries, keys repeated for all heads, and scores where they are written out."""
    tokens = settings.batch * settings.prompt_tokens
    queries = shape.heads * max(shape.key_length, shape.full_key_length)
    pairs = shape.heads * _pairs(settings)
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


def _writes_scores(shape: HfShape, settings: TransformersSettings) -> bool:
    """Whether sdpa falls back to its plain kernel: no other one takes float32 with shared keys and no mask."""
    shared = shape.kv_heads != shape.heads and not shape.kv_rank
    return settings.attention == "sdpa" and settings.dtype_bytes == FLOAT_BYTES and shared and not settings.padded


def token_peak(shape: HfShape, settings: TransformersSettings) -> int:
    """Bytes at the peak of making one token, beside weights and cache."""
    # It peaks where the cache is copied, where keys are repeated for all heads, in the logits, or in the weights of the
    # experts that it gathers.
    batch, size = settings.batch, settings.dtype_bytes
    queries = shape.heads * max(shape.key_length, shape.full_key_length)
    repeated = repeated_copies(shape, settings) * batch * settings.tokens * queries * size
    largest = max((token_numbers(shape, settings, n) for n in range(shape.layers) if shape.keeps(n)), default=0)
    grown = 0 if settings.cache == "static" else batch * settings.tokens * largest // 2 * size
    logits = batch * shape.vocabulary * (size + FLOAT_BYTES)
    # `generate` gathers the weights of the chosen experts for each sequence, the upward and the downward ones.
    gathered = batch * shape.experts_used * 3 * shape.expert_width * shape.width * size
    return max(repeated, grown, logits, gathered)


def repeated_copies(shape: HfShape, settings: TransformersSettings) -> int:
    """Copies of the keys and values for all heads; only an attention without a mask can share them."""
    if shape.kv_heads == shape.heads or shape.kv_rank or settings.attention == "flash":
        return 0
    if settings.padded or settings.cache == "static" or settings.attention == "eager":
        return 2
    return 3 if _writes_scores(shape, settings) else 0
