"""One question about speed (a model, where it lies, what runs it, at which depth) and its answer with an interval."""

import math
from collections.abc import Iterator
from typing import NamedTuple

from unslow.catalog.devices import Device
from unslow.catalog.learned_speed import Spread, learned_speed, spread_of
from unslow.think.physics.chip import Chip, SpeedSetting
from unslow.think.physics.decode import (
    EAGER,
    LAUNCHED_ONE_BY_ONE,
    PLAIN,
    SERVED,
    decode_terms,
    host_decode_terms,
    launch_s,
    overlapped,
    ridge_tokens,
)
from unslow.think.physics.links import (
    SPLIT_BY_LAYER,
    SPLIT_BY_ROW,
    layer_split_terms,
    offload_terms,
    tensor_split_terms,
    ways_between,
)
from unslow.think.physics.placement import F16_BYTES
from unslow.think.physics.prefill import Prompt, host_prefill_terms, lent_weights_terms, pipelined, prefill_terms
from unslow.think.physics.terms import Interval, Number, Term, by_part, larger, least_seconds, smaller, total_of_terms
from unslow.think.physics.weight_types import HALF
from unslow.think.speed.load import Totals
from unslow.think.speed.report import WallShown

USUAL_MICRO_BATCH = 512
USUAL_LINK = 12e9  # PCIe 3.0 or 4.0 with 16 lanes, as copies from ordinary memory reach it
MAPPED_BYTES_PER_S = 9e9
"""Copies from a mapped file, however fast the link: a core of the host moves them to pinned memory first. Beside an
H200 with 50 GB/s, prompts were read as if at 8 to 11 GB/s with mmap and at 42 without (lab/plan_gpu)."""
PIPELINES_SINCE = 2024.2  # llama.cpp began to work on several micro-batches at once, one on each GPU, in March 2024
CONVERSATIONS = (1, 2, 4, 8, 16, 32, 64)
WIDER = 1.5  # how much wider an interval gets, in logarithms, for each thing that nobody measured


class Host(NamedTuple):
    """The part of the model that the CPU computes."""

    totals: Totals
    chip: Chip
    setting: SpeedSetting
    crossings: Number = 0.0  # How often a token changes between CPU and GPU
    link_bytes_per_s: Number = USUAL_LINK  # Of the way between the two


class SpeedQuestion(NamedTuple):
    """What decides the speed; every number may be an array, what is looked up is one for all."""

    totals: Totals | None  # The part that lies on GPUs, all of them together
    chip: Chip  # One of the GPUs
    setting: SpeedSetting
    year: Number = 2026.0  # When the build was made
    depth: Number = 0.0
    element_bytes: Number = F16_BYTES  # Of a key or a value
    tokens: Number = 1.0  # Conversations that are brought forward at once
    gpus: Number = 1.0
    split: str = SPLIT_BY_LAYER
    peers: bool = True  # Whether the GPUs can read each other's memory
    host: Host | None = None


class Outcome(NamedTuple):
    """Of one question: seconds of a step or of a prompt token, by part, and the rate in tokens per second."""

    seconds: float
    parts: dict[str, float]
    rate: Interval
    ceiling: float  # What bandwidth alone would allow


class Trust(NamedTuple):
    """How much wider the learned interval has to be, and why."""

    wider: float = 1.0
    reasons: tuple[str, ...] = ()


def decode_outcome(q: SpeedQuestion, group: str) -> Outcome:
    """Tokens per second that all conversations of a step get together."""
    launches = host_launch_s(q)
    spread = spread_of(group, q.setting.backend)
    return _outcome(tuple(step_terms(q)), float(q.tokens), spread, 0.0 if launches is None else float(launches))


def prefill_outcome(q: SpeedQuestion, tokens: float, micro_batch: float = USUAL_MICRO_BATCH) -> Outcome:
    """Prompt tokens per second."""
    return _outcome(tuple(prompt_terms(q, tokens, micro_batch)), 1.0, spread_of("prefill", q.setting.backend))


def _outcome(terms: tuple[Term, ...], tokens: float, spread: Spread, launches: float = 0.0) -> Outcome:
    factors = learned_speed().factors
    alone = float(total_of_terms(terms, factors))
    seconds = float(overlapped(alone, launches)) if launches else alone
    shortest = float(least_seconds(terms))
    ceiling = tokens / shortest if shortest else float("inf")
    rate = tokens / seconds
    parts = {name: float(s) for name, s in by_part(terms, factors).items() if s}
    if launches:
        parts[LAUNCHED_ONE_BY_ONE] = seconds - alone
    likely = Interval(rate * spread.low, rate, min(rate * spread.high, max(ceiling, rate)))
    return Outcome(seconds, parts, likely, ceiling)


def step_seconds(q: SpeedQuestion) -> Number:
    """Seconds of a step; of many questions at once where the numbers are arrays."""
    alone = total_of_terms(step_terms(q), learned_speed().factors)
    launches = host_launch_s(q)
    return alone if launches is None else overlapped(alone, launches)


def prompt_token_seconds(q: SpeedQuestion, tokens: Number, micro_batch: Number = USUAL_MICRO_BATCH) -> Number:
    """Seconds of a prompt token; of many questions at once where the numbers are arrays."""
    return total_of_terms(prompt_terms(q, tokens, micro_batch), learned_speed().factors)


def host_launch_s(q: SpeedQuestion) -> Number | None:
    """What launching takes on the processor, where it is not recorded; None where it is."""
    if q.totals is None or (q.setting.graphs and q.setting.runtime != "transformers"):
        return None
    how = {"transformers": EAGER, "vllm": SERVED}.get(q.setting.runtime, PLAIN)
    return launch_s(how, q.totals.layers, q.totals.expert_layers)


def step_terms(q: SpeedQuestion) -> Iterator[Term]:
    """What one step costs, which generates a token for each conversation."""
    if q.totals is not None:
        amounts = q.totals.step(q.depth, q.element_bytes, q.tokens)
        if q.split == SPLIT_BY_LAYER:
            weights_s = (amounts.dense_bytes + amounts.expert_bytes) / q.chip.bytes_per_s
            yield from decode_terms(amounts, q.chip, q.setting, q.year)
            yield from layer_split_terms(q.gpus, q.setting.backend, weights_s)
        else:
            shared = amounts.shared(q.gpus)
            if q.split == SPLIT_BY_ROW:  # attention is not split by rows
                shared = shared._replace(cache_bytes=amounts.cache_bytes)
            ways = ways_between(peers=q.peers, linked=q.setting.linked)
            yield from decode_terms(shared, q.chip, q.setting, q.year)
            yield from tensor_split_terms(q.gpus, amounts.layers, amounts.width, q.split, ways)
    if q.host is not None:
        amounts = q.host.totals.step(q.depth, q.element_bytes, q.tokens)
        yield from host_decode_terms(amounts, q.host.chip, q.host.setting)
        yield from offload_terms(q.host.crossings, q.setting.backend)


def prompt_terms(q: SpeedQuestion, tokens: Number, micro_batch: Number = USUAL_MICRO_BATCH) -> Iterator[Term]:
    """What a token of a prompt costs on average; `depth` is where the prompt begins."""
    each = smaller(micro_batch, tokens)
    depth = q.depth + tokens / 2
    lent = _shared_prompt(q.host.totals, each, depth) if q.host is not None else None
    if q.totals is not None:
        at_once: Number = 1.0
        older = q.year < PIPELINES_SINCE  # of many builds, whether all are
        if q.split == SPLIT_BY_LAYER and not (older if isinstance(older, bool) else older.all()):
            at_once = pipelined(q.gpus, larger(tokens / each, 1.0))
        own = _shared_prompt(q.totals, each, depth)._replace(
            is_quantised=q.setting.types != HALF, gpus=q.gpus, split=q.split, pipelined=at_once, peers=q.peers
        )
        if lent is not None:  # GPUs also compute what the host lends them
            own = own._replace(
                token_weights=own.token_weights + lent.token_weights,
                token_expert_weights=own.token_expert_weights + lent.token_expert_weights,
                attention_products=own.attention_products + lent.attention_products,
            )
        yield from prefill_terms(own, q.chip, q.setting, q.year)
    if lent is None or q.host is None:
        return
    if q.totals is None:
        yield from host_prefill_terms(lent, q.host.chip, q.host.setting)
    else:
        yield from lent_weights_terms(lent, q.host.link_bytes_per_s, q.setting)


def _shared_prompt(totals: Totals, each: Number, depth: Number) -> Prompt:
    used = totals.experts_used / totals.experts
    return Prompt(
        amounts=totals.micro_batch(each),
        token_weights=larger(totals.dense_weights - totals.output_weights, 0.0),
        token_expert_weights=totals.expert_weights * used,
        attention_products=totals.attention_products(depth),
        micro_batch=each,
    )


def walls(outcome: Outcome, tokens: float = 1.0) -> tuple[WallShown, ...]:
    """Every part of the step, the largest first: the one that is worth working on first binds."""
    parts = sorted(outcome.parts.items(), key=lambda part: -part[1])
    return tuple(
        WallShown(
            part=name,
            seconds=seconds,
            share=seconds / outcome.seconds,
            binds=n == 0,
            halved_tokens_per_s=tokens / (outcome.seconds - seconds / 2),
        )
        for n, (name, seconds) in enumerate(parts)
        if seconds > 0
    )


def batching_curve(question: SpeedQuestion, group: str) -> dict[int, float]:
    """Tokens per second of all together, for one to 64 conversations at the same depth."""
    return {n: decode_outcome(question._replace(tokens=float(n)), group).rate.mid for n in CONVERSATIONS}


def ridge(question: SpeedQuestion) -> float | None:
    """From how many conversations on arithmetic takes as long as reading; None where a CPU computes."""
    step = question.totals.step(0.0) if question.totals else None
    if step is None or not step.dense_weights + step.expert_weights:
        return None
    bytes_per_weight = (step.dense_bytes + step.expert_bytes) / (step.dense_weights + step.expert_weights)
    return float(ridge_tokens(bytes_per_weight, question.chip))


def trust_in(device: Device, setting: SpeedSetting) -> Trust:
    """What is known of such a device under such software."""
    found = []
    if setting.backend != "cpu" and device.family not in learned_speed().chips.get(setting.backend, []):
        family = f"the {device.family} family" if device.family else f"devices like the {device.name}"
        found.append(f"no measurement of {family} under {setting.backend} was learned from")
    factors = (f"{kind}/runtime/{setting.runtime}" for kind in ("launch", "waste"))
    if setting.runtime and not any(factor in learned_speed().factors for factor in factors):
        found.append(f"{setting.runtime} was measured on one machine at most")
    if not device.verified:
        found.append(f"the numbers of the {device.name} were not checked against a second source")
    return Trust(WIDER ** len(found), tuple(found))


def widened(rate: Interval, wider: float, ceiling: float = math.inf) -> Interval:
    """The interval with both distances from its middle as many times larger, in logarithms; never above the ceiling."""
    low, mid, high = rate
    if wider == 1.0 or mid <= 0:
        return rate
    top = max(mid, min(mid * (high / mid) ** wider, ceiling))
    return Interval(mid * (low / mid) ** wider, mid, top)


def rounded_rate(rate: float) -> str:
    """A speed with three digits."""
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"  # noqa: PLR2004 (three digits)
