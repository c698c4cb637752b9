"""The memory of vLLM's V1 engine: weights by rank, the peak it profiles, and the blocks of cache that are left."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from unslow.catalog.runtimes import Release, vllm_kernel, vllm_profile, vllm_release
from unslow.catalog.weight_parts import Part, Role
from unslow.facts.model import HfShape, LayerKind
from unslow.facts.values import GIB, pad_to
from unslow.think.memory.footprint import NOTHING_HELD, DeviceBytes, Spread

LARGE_CARD_BYTES = 70 * GIB
LARGEST_CARD_BYTES = 160 * GIB  # Cards this large get larger batches by default (arg_utils.py get_batch_defaults)
LARGEST_SINCE = (0, 12)
ONE_BYTE = ("fp8", "int8")
KV_BYTES = {"float32": 4.0, "float": 4.0, "nvfp4": 0.5625}
VOCABULARY_STEP = 64  # The token table is padded to a multiple of it before it is divided (vocab_parallel_embedding.py)
HIDDEN_COPIES = 4  # of the hidden state while a feed-forward runs: the stream, the residual, its input and its output
KEPT_COPIES = 2  # of them while the sampler runs
PASSED_COPIES = 2  # of them that a pipeline stage hands to the next
LOGIT_BYTES = 4
CAPTURE_SIZES_USUAL = 51
UNLINKED = 1.5  # Over the least that several cards were seen to hold for exchange: only NVLink takes gigabytes
PEAK_LOW, PEAK_HIGH = 0.85, 1.12  # How far off other kernels and samplers are; 60 published profiles lie within


class VllmSettings(NamedTuple):
    """The settings that decide memory; 0 and None take vLLM's default."""

    max_model_len: int
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    gpu_memory_utilization: float | None = None
    max_num_seqs: int = 0
    max_num_batched_tokens: int = 0
    packing: str = ""  # How the weights are quantised, by the catalog's name; empty where they are not
    kv_cache_dtype: str = "auto"
    kv_cache_memory_bytes: int = 0  # A cache of this size on each device, whatever the profile says
    block_size: int = 16
    dtype_bytes: int = 2  # Of activations, and of the cache where its type is auto
    state_bytes: int = 4  # Of recurrent states (`--mamba-ssm-cache-dtype`)
    enforce_eager: bool = False
    prefix_caching: bool = True
    hybrid_cache: bool = True  # Off with `--disable-hybrid-kv-cache-manager`: windowed layers then keep everything
    small_batches: bool = False  # Whether a card of any size gets the batches of a small one, as the A100 does
    linked: bool = True  # Whether several cards have links of their own (NVLink), for which they hold gigabytes
    version: tuple[int, int] = (0, 28)

    @property
    def release(self) -> Release:
        """How this version counts."""
        return vllm_release(self.version)

    @property
    def utilization(self) -> float:
        """The share of a card's memory that is asked for."""
        return self.release.utilization if self.gpu_memory_utilization is None else self.gpu_memory_utilization

    @property
    def kv_bytes(self) -> float:
        """Bytes of one number in the cache."""
        if self.kv_cache_dtype.startswith(ONE_BYTE):
            return 1.0
        return KV_BYTES.get(self.kv_cache_dtype, float(self.dtype_bytes if self.kv_cache_dtype == "auto" else 2))

    def on_card(self, total_bytes: int) -> "VllmSettings":
        """With the batches that a server has by default on such a card."""
        large = total_bytes >= LARGE_CARD_BYTES and not self.small_batches
        largest = total_bytes >= LARGEST_CARD_BYTES and self.version >= LARGEST_SINCE
        tokens = self.max_num_batched_tokens or (16384 if largest else 8192 if large else 2048)
        requests = self.max_num_seqs or (1024 if large or largest else 256)
        return self._replace(max_num_batched_tokens=tokens, max_num_seqs=min(requests, tokens))


class CacheGroup(NamedTuple):
    """Layers that share a block table."""

    kind: LayerKind
    layers: tuple[int, ...]
    block_tokens: int  # Tokens in a block; of recurrent layers, as many as in an attention block
    page_bytes: int  # What a block takes in one layer

    def blocks(self, tokens: int, shape: HfShape, settings: VllmSettings) -> int:
        """The blocks that one request of so many tokens takes."""
        flying = settings.release.batches_in_flight * settings.max_num_batched_tokens
        match self.kind:
            case LayerKind.RECURRENT:
                return 2 if settings.prefix_caching else 1
            case LayerKind.WINDOW:
                return _round_up(min(shape.window - 1 + flying, tokens), self.block_tokens) + 1
            case LayerKind.CHUNK:
                return _round_up(min(shape.window + flying, tokens), self.block_tokens)
            case _:
                return _round_up(tokens, self.block_tokens)


class CacheCapacity(NamedTuple):
    """What blocks hold."""

    blocks: int
    tokens: int  # As vLLM reports them
    concurrency: float  # Requests of the longest length at once


class VllmMemory(NamedTuple):
    """The answer; what follows from the profile is its most likely figure, with a range beside."""

    devices: tuple[DeviceBytes, ...]  # For each rank, stage by stage
    available: Spread  # What the profile leaves for the cache on the tightest rank; below 0 where weights exceed it
    needed_bytes: int  # What one request of `max_model_len` takes there
    kv_blocks: int
    kv_tokens: int  # As vLLM reports them
    kv_tokens_range: tuple[int, int]  # At the least and at the most available memory
    max_concurrency: float  # Requests of `max_model_len` at once
    max_model_len: int  # The longest request that the cache serves, up to the one asked for; 0 where none
    max_model_len_low: int = 0  # The same at the least available memory: what surely starts

    @property
    def fits(self) -> bool:
        """Whether vLLM starts: it can serve one request of the length asked for."""
        return self.max_concurrency >= 1


class _Stage(NamedTuple):
    weights: int
    block_bytes: int
    peak: Spread
    available: Spread

    def blocks(self, available: int) -> int:
        """The blocks that so much memory makes."""
        return max(0, available // self.block_bytes) if self.block_bytes else 0


def vllm_memory(shape: HfShape, parts: Sequence[Part], settings: VllmSettings, total_bytes: int) -> VllmMemory:
    """The memory of vLLM on equal cards of so many bytes each, as the driver tells programs."""
    settings = settings.on_card(total_bytes)
    groups = cache_groups(shape, settings)
    weights = stage_weight_bytes(shape, parts, settings)
    last = settings.pipeline_parallel - 1
    stages = []
    for number, layers in enumerate(stage_layers(shape.layers, settings.pipeline_parallel)):
        peak = activation_peak(shape, settings, first=not number, last=number == last)
        room = _room(shape, settings, total_bytes, weights[number], peak)
        stages.append(_Stage(weights[number], block_bytes(groups, layers), peak, room))
    tightest = min(stages, key=lambda stage: stage.blocks(stage.available.mid))
    least, usual, most = (cache_capacity(shape, settings, groups, tightest.blocks(room)) for room in tightest.available)
    other = driver_context(settings).plus(beside_torch(settings)).plus(captured_graphs(shape, settings))
    devices = (DeviceBytes(stage.weights, usual.blocks * stage.block_bytes, stage.peak, other) for stage in stages)
    return VllmMemory(
        devices=tuple(device for device in devices for _ in range(settings.tensor_parallel)),
        available=tightest.available,
        needed_bytes=request_blocks(shape, settings, groups, settings.max_model_len) * tightest.block_bytes,
        kv_blocks=usual.blocks,
        kv_tokens=usual.tokens,
        kv_tokens_range=(least.tokens, most.tokens),
        max_concurrency=usual.concurrency,
        max_model_len=longest_request(shape, settings, groups, usual.blocks),
        max_model_len_low=longest_request(shape, settings, groups, least.blocks),
    )


def _room(shape: HfShape, settings: VllmSettings, total_bytes: int, weights: int, peak: Spread) -> Spread:
    if stated := settings.kv_cache_memory_bytes:
        return Spread(stated, stated, stated)
    budget = round(total_bytes * settings.utilization) - weights
    taken = peak.plus(beside_torch(settings))
    if settings.release.graphs_in_budget:
        taken = taken.plus(captured_graphs(shape, settings))
    return Spread(budget - taken.high, budget - taken.mid, budget - taken.low)


def stage_layers(layers: int, stages: int) -> list[range]:
    """The layers of each pipeline stage: evenly, what is left over to the stages before the last."""
    sizes = [layers // stages] * stages
    for left in range(layers % stages):
        sizes[-(left + 2)] += 1
    starts = [sum(sizes[:n]) for n in range(stages)]
    return [range(start, start + size) for start, size in zip(starts, sizes, strict=True)]


def stage_weight_bytes(shape: HfShape, parts: Sequence[Part], settings: VllmSettings) -> list[int]:
    """For each pipeline stage, the weights of one of its ranks."""
    stages = stage_layers(shape.layers, settings.pipeline_parallel)
    last = len(stages) - 1
    rotated = shape.rope_length or shape.rotated or shape.key_length
    rotations = (shape.rotations or shape.positions) * rotated * settings.dtype_bytes
    # A second copy of the matrices that lead out of latents
    latent = shape.kv_rank * shape.heads * (shape.key_length - shape.rope_length + shape.value_length)
    sums = [
        rotations + (latent * settings.dtype_bytes * len(layers) // settings.tensor_parallel if shape.kv_rank else 0)
        for layers in stages
    ]
    for part in parts:
        size = round(part.bytes * _share(shape, settings, part))
        for number, layers in enumerate(stages):
            before_all, after_all = part.layer < 0 and not number, part.layer >= shape.layers and number == last
            if part.layer in layers or before_all or after_all:
                sums[number] += size
    if shape.tied and last:
        sums[last] += sum(round(p.bytes * _share(shape, settings, p)) for p in parts if p.role is Role.EMBEDDING)
    return sums


def _share(shape: HfShape, settings: VllmSettings, part: Part) -> float:
    ranks = settings.tensor_parallel
    match part.role:
        case Role.EMBEDDING | Role.OUTPUT:
            return pad_to(shape.vocabulary, VOCABULARY_STEP) / max(1, shape.vocabulary) / ranks
        case Role.KEY_VALUE:
            heads = max(1, shape.kv_heads_of(part.layer))
            return max(1, heads // ranks) / heads
        case Role.EXPERTS:
            # How much larger the experts of one rank become where the kernel wants rounder lengths
            outer, inner = vllm_kernel(settings.packing).padding
            length = max(1, -(-shape.expert_width // settings.tensor_parallel))
            return pad_to(shape.width, outer) / max(1, shape.width) * pad_to(length, inner) / length / ranks
        case Role.WHOLE:
            return 1.0
        case _:
            return 1 / ranks


def activation_peak(shape: HfShape, settings: VllmSettings, *, first: bool, last: bool) -> Spread:
    """The peak of the profiling run on one rank of a pipeline stage."""
    # The run pushes `max_num_batched_tokens` through the model and then samples for `max_num_seqs` requests. On large
    # cards, where 1024 requests are the default, it is the logits in several copies that peak, not the layers.
    batch = settings.max_num_batched_tokens * settings.dtype_bytes
    passed = 0 if first and last else PASSED_COPIES * shape.width * batch
    sampled = 0
    if last:  # the sampler's copies of the logits, beside the batch that they come from
        requests = min(settings.max_num_seqs, settings.max_num_batched_tokens)
        copies = settings.release.sampler_copies * LOGIT_BYTES + settings.dtype_bytes
        sampled = (
            round(requests * pad_to(shape.vocabulary, VOCABULARY_STEP) * copies) + KEPT_COPIES * shape.width * batch
        )
    # The largest layer's activations for a full batch
    dense = 0 if all(shape.has_experts(layer) for layer in range(shape.layers)) else shape.feed_forward
    inner = (3 if shape.gated else 2) * max(dense, shape.shared_width)
    projected = 3 * shape.heads * max(shape.key_length, shape.full_key_length)
    widest = max(inner, projected) // settings.tensor_parallel
    forward = (HIDDEN_COPIES * shape.width + widest) * batch
    peak = max(forward + passed, sampled) + vllm_profile().buffers
    if vllm_kernel(settings.packing).workspace and shape.experts:
        # What the experts' kernel keeps: each token as often as it has experts, before and between their matrices
        rows = settings.max_num_batched_tokens * shape.experts_used
        peak += rows * (shape.width + 2 * shape.expert_width // settings.tensor_parallel) * settings.dtype_bytes
    tower = vllm_profile().tower if shape.other_parameters else 0
    return Spread(round(peak * PEAK_LOW), peak + tower, round(peak * PEAK_HIGH) + 2 * tower)


def captured_graphs(shape: HfShape, settings: VllmSettings) -> Spread:
    """The captured graphs of one rank."""
    if settings.enforce_eager:
        return NOTHING_HELD
    known = vllm_profile()
    layers = shape.layers // settings.pipeline_parallel
    # They are captured for batches of 1, 2, 4, then of every 8th size, from 256 on of every 16th
    largest = min(settings.max_num_seqs * 2, 512, settings.max_num_batched_tokens)
    small = sum(size <= largest for size in (1, 2, 4))
    sizes = small + len(range(8, min(largest + 1, 256), 8)) + len(range(256, largest + 1, 16))
    mid = sizes / CAPTURE_SIZES_USUAL * (known.graphs + known.graphs_layer * layers)
    return Spread(round(mid / known.graphs_factor), round(mid), round(mid * known.graphs_factor))


def beside_torch(settings: VllmSettings) -> Spread:
    """What the run leaves beside PyTorch's memory, within the budget."""
    known = vllm_profile()
    if settings.tensor_parallel > 1:
        return _exchange_buffers(Spread(*known.beside_parallel), settings)
    return Spread(*(known.beside_pipeline if settings.pipeline_parallel > 1 else known.beside))


def driver_context(settings: VllmSettings) -> Spread:
    """What the driver and the library for exchange hold before anything is loaded, on top of the budget."""
    if settings.tensor_parallel * settings.pipeline_parallel > 1:
        return _exchange_buffers(Spread(*vllm_profile().context_parallel), settings)
    return Spread(*vllm_profile().context)


def _exchange_buffers(seen: Spread, settings: VllmSettings) -> Spread:
    """What several cards hold for exchange: without links of their own the least that was seen, and half of it more."""
    if settings.linked:
        return seen
    most = min(seen.high, round(seen.low * UNLINKED))
    return Spread(seen.low, min(seen.mid, most), most)


def cache_groups(shape: HfShape, settings: VllmSettings) -> list[CacheGroup]:
    """The groups of all layers that keep something."""
    # All groups take blocks from one pool, so that a page must be equally large in every layer: recurrent states
    # stretch the attention block until its page holds a state, and kinds of layers with smaller pages have longer ones.
    kinds: dict[LayerKind, list[int]] = {}
    for layer in range(shape.layers):
        kind = shape.kind(layer)
        if shape.keeps(layer) or kind is LayerKind.RECURRENT:
            kept = kind if settings.hybrid_cache or kind is LayerKind.RECURRENT else LayerKind.FULL
            kinds.setdefault(kept, []).append(layer)
    if not kinds:
        return []
    keyed = {kind: layers for kind, layers in kinds.items() if kind not in {LayerKind.RECURRENT, LayerKind.BARE}}
    pages: dict[LayerKind, float] = {kind: _token_bytes(shape, settings, layers[0]) for kind, layers in keyed.items()}
    past = shape.convolution * (shape.convolution_length - 1)
    state = (shape.state * settings.state_bytes + past * settings.dtype_bytes) // settings.tensor_parallel
    block, token_bytes = settings.block_size, max(pages.values(), default=0)
    if LayerKind.RECURRENT in kinds and token_bytes:
        # The shortest block of attention whose page holds a recurrent state
        step = max(block, settings.release.latent_alignment) if shape.kv_rank else block
        block = max(block, pad_to(_round_up(state, round(token_bytes)), step))
    page = max((round(block * size) for size in pages.values()), default=state)
    # As many layers in a group as the rarest kind has, or as the commonest where they hardly differ
    least, most = min(map(len, kinds.values())), max(map(len, kinds.values()))
    size = most if most < least * settings.release.group_slack else least
    groups: list[CacheGroup] = []
    for kind, layers in kinds.items():
        own = round(pages.get(kind, 0.0) * block)  # a page that is not a multiple is padded instead
        tokens = block * (page // own) if own and page % own == 0 else block
        count = _round_up(len(layers), size)
        groups += (CacheGroup(kind, tuple(layers[n::count]), tokens, page) for n in range(count))
    return groups


def _token_bytes(shape: HfShape, settings: VllmSettings, layer: int) -> float:
    if shape.kv_rank:
        return (shape.kv_rank + shape.rope_length) * settings.kv_bytes
    heads = max(1, shape.kv_heads_of(layer) // settings.tensor_parallel)
    return heads * (shape.key_length_of(layer) + shape.value_length_of(layer)) * settings.kv_bytes


def block_bytes(groups: Sequence[CacheGroup], layers: range) -> int:
    """What one block takes on a rank that has these layers: the largest group's pages."""
    return max((g.page_bytes * sum(layer in layers for layer in g.layers) for g in groups), default=0)


def cache_capacity(shape: HfShape, settings: VllmSettings, groups: Sequence[CacheGroup], blocks: int) -> CacheCapacity:
    """What so many blocks hold."""
    request = request_blocks(shape, settings, groups, settings.max_model_len)
    concurrency = blocks / request if request else 0.0
    by_block = blocks // max(1, len(groups)) * min((g.block_tokens for g in groups), default=0)
    tokens = int(concurrency * settings.max_model_len) if settings.release.tokens_by_request else by_block
    return CacheCapacity(blocks, tokens, concurrency)


def request_blocks(shape: HfShape, settings: VllmSettings, groups: Sequence[CacheGroup], tokens: int) -> int:
    """The blocks that one request of so many tokens takes from the pool."""
    return sum(group.blocks(tokens, shape, settings) for group in groups)


def longest_request(shape: HfShape, settings: VllmSettings, groups: Sequence[CacheGroup], blocks: int) -> int:
    """The largest `--max-model-len` up to the one asked for that so many blocks serve; 0 where none does."""
    usable = blocks - (1 if settings.release.null_block else 0)
    lengths = range(1, settings.max_model_len + 1)
    return bisect_right(lengths, usable, key=lambda tokens: request_blocks(shape, settings, groups, tokens))


def _round_up(size: int, step: int) -> int:
    return -(-size // step)
