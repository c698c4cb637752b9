"""One question about speed: a model, where it lies, what runs it, and at which depth."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from unslow.think.physics.chip import Chip, Setting
from unslow.think.physics.decoding import decode_terms
from unslow.think.physics.host_decoding import host_decode_terms
from unslow.think.physics.host_prefill import host_prefill_terms, lent_weights_terms
from unslow.think.physics.interconnect import (
    LAYER,
    ROW,
    layer_split_terms,
    offload_terms,
    tensor_split_terms,
    ways_between,
)
from unslow.think.physics.kinds import HALF
from unslow.think.physics.kv_cache import F16_BYTES
from unslow.think.physics.numbers import larger, smaller
from unslow.think.physics.prefill import Prompt, pipelined, prefill_terms
from unslow.think.speed.totals import Totals

if TYPE_CHECKING:
    from unslow.think.physics.numbers import Number
    from unslow.think.physics.terms import Term

USUAL_MICRO_BATCH = 512
USUAL_LINK = 12e9
"""PCIe 3.0 or 4.0 with 16 lanes, as copies from ordinary memory reach it."""
MAPPED_BYTES_PER_S = 9e9
"""Copies from a mapped file, however fast the link: a core of the host moves them to pinned memory first. Beside an
H200 with 50 GB/s, prompts were read as if at 8 to 11 GB/s with mmap and at 42 without (lab/plan_gpu)."""
PIPELINES_SINCE = 2024.2
"""llama.cpp began to work on several micro-batches at once, one on each GPU, in March 2024."""


class Host(NamedTuple):
    """The part of the model that the CPU computes."""

    totals: Totals
    chip: Chip
    setting: Setting
    crossings: Number = 0.0
    """How often a token changes between CPU and GPU."""
    link_bytes_per_s: Number = USUAL_LINK
    """Of the way between the two."""


class Question(NamedTuple):
    """What decides the speed; every number may be an array, what is looked up is one for all."""

    totals: Totals | None
    """The part that lies on GPUs, all of them together."""
    chip: Chip
    """One of the GPUs."""
    setting: Setting
    year: Number = 2026.0
    """When the build was made."""
    depth: Number = 0.0
    element_bytes: Number = F16_BYTES
    """Of a key or a value."""
    tokens: Number = 1.0
    """Conversations that are brought forward at once."""
    gpus: Number = 1.0
    split: str = LAYER
    peers: bool = True
    """Whether the GPUs can read each other's memory."""
    host: Host | None = None


def step_terms(q: Question) -> Iterator[Term]:
    """What one step costs, which generates a token for each conversation."""
    if q.totals is not None:
        yield from _gpu_terms(q, q.totals)
    if q.host is not None:
        amounts = q.host.totals.step(q.depth, q.element_bytes, q.tokens)
        yield from host_decode_terms(amounts, q.host.chip, q.host.setting)
        yield from offload_terms(q.host.crossings, q.setting.backend)


def _gpu_terms(q: Question, totals: Totals) -> Iterator[Term]:
    amounts = totals.step(q.depth, q.element_bytes, q.tokens)
    if q.split == LAYER:
        weights_s = (amounts.dense_bytes + amounts.expert_bytes) / q.chip.bytes_per_s
        crossing = layer_split_terms(q.gpus, q.setting.backend, weights_s)
        return chain(decode_terms(amounts, q.chip, q.setting, q.year), crossing)
    shared = amounts.shared(q.gpus)
    if q.split == ROW:  # attention is not split by rows
        shared = shared._replace(cache_bytes=amounts.cache_bytes)
    ways = ways_between(peers=q.peers, linked=q.setting.linked)
    gather = tensor_split_terms(q.gpus, amounts.layers, amounts.width, q.split, ways)
    return chain(decode_terms(shared, q.chip, q.setting, q.year), gather)


def prompt_terms(q: Question, tokens: Number, micro_batch: Number = USUAL_MICRO_BATCH) -> Iterator[Term]:
    """What a token of a prompt costs on average; `depth` is where the prompt begins."""
    each = smaller(micro_batch, tokens)
    depth = q.depth + tokens / 2
    if q.totals is not None:
        yield from prefill_terms(_prompt(q, q.totals, tokens, each), q.chip, q.setting, q.year)
    if q.host is None:
        return
    host = _shared_prompt(q.host.totals, each, depth)
    if q.totals is None:
        yield from host_prefill_terms(host, q.host.chip, q.host.setting)
    else:
        yield from lent_weights_terms(host, q.host.link_bytes_per_s, q.setting)


def _prompt(q: Question, totals: Totals, tokens: Number, each: Number) -> Prompt:
    """What a prompt asks of GPUs: they also compute what the host lends them."""
    at_once: Number = 1.0
    if q.split == LAYER and not _is_before(q.year, PIPELINES_SINCE):
        at_once = pipelined(q.gpus, larger(tokens / each, 1.0))
    own = _shared_prompt(totals, each, q.depth + tokens / 2)
    if q.host is not None:
        lent = _shared_prompt(q.host.totals, each, q.depth + tokens / 2)
        own = own._replace(
            token_weights=own.token_weights + lent.token_weights,
            token_expert_weights=own.token_expert_weights + lent.token_expert_weights,
            attention_products=own.attention_products + lent.attention_products,
        )
    return own._replace(
        is_quantised=q.setting.types != HALF, gpus=q.gpus, split=q.split, pipelined=at_once, peers=q.peers
    )


def _shared_prompt(totals: Totals, each: Number, depth: Number) -> Prompt:
    used = totals.experts_used / totals.experts
    return Prompt(
        amounts=totals.micro_batch(each),
        token_weights=larger(totals.dense_weights - totals.output_weights, 0.0),
        token_expert_weights=totals.expert_weights * used,
        attention_products=totals.attention_products(depth),
        micro_batch=each,
    )


def _is_before(year: Number, limit: float) -> bool:
    """Whether the builds are older; of many, whether all are."""
    return year < limit if isinstance(year, (int, float)) else bool((year < limit).all())
