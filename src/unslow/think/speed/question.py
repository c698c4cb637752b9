"""One question about speed (a model, where it lies, what runs it, at which depth) and its answer with an interval."""

import math
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from unslow.catalog.devices import Device
from unslow.catalog.learned_speed import Spread, learned_speed, spread_of
from unslow.think.physics import decode, placement
from unslow.think.physics.chip import HALF, Chip, SpeedSetting
from unslow.think.physics.placement import F16_BYTES, SPLIT_BY_LAYER, SPLIT_BY_ROW
from unslow.think.physics.prefill import Prompt, host_prefill_terms, lent_weights_terms, pipelined_gpus, prefill_terms
from unslow.think.physics.served import served_prompt_terms, served_step_terms, serves_many
from unslow.think.physics.terms import Interval, Number, Term, by_part, larger, least_seconds, smaller, total_of_terms
from unslow.think.speed.load import Totals
from unslow.think.speed.report import WallShown

_MATRIX_OVER_PLAIN = {"NVIDIA": 4.0, "AMD": 2.0, "Intel": 8.0, "Apple": 1.0}
"""How much faster 16-bit matrix units are than plain ones, where only one of the two is known."""
_BYTES_PER_FLOP = 0.02  # of a GPU of which only the bandwidth is known: between those of a large and of a small one
_FLOPS_A_CYCLE, _FLOPS_OF_NARROW_CORES = 16.0, 8.0
"""Products and sums in 32 bits by a core's vectors of 256 bits, or of 128: what a product takes is learned in them."""
USUAL_CLOCK_HZ = 3.5e9  # Where nothing is known: servers boost to 3.2 to 3.8 GHz, laptops and desktops to 4 to 5.5
_CLOCKS_HZ = (0.8e9, 6.5e9)  # a clock beyond these is a mistake
CORE_FLOPS_PER_S = _FLOPS_A_CYCLE * USUAL_CLOCK_HZ
_BYTES_PER_S_OF_A_CORE = 8e9  # a platform has about as many cores as its memory can feed: 64 for 460 GB/s, 8 for 60
_FEWEST_CORES = 4.0
_WIDE = re.compile(
    r"Ryzen (?:[3579] )?(?:PRO )?[789]\d[045]\d|Ryzen (?:AI|Z[12])\b|EPYC [489]\d\d[45]|Threadripper (?:PRO )?[79]\d{3}"
    r"|\bi[3579] 11\d{2,3}|\bi[3579] 10\d{2}G|\bi[79] (?:7[89]|9[89]|109)\d\dXE?\b"
    r"|Xeon (?:Gold |Silver |Platinum |W )\d[123]\d\d",
    re.IGNORECASE,
)
"""CPUs with AVX-512 and without AMX: AMD's since Zen 4 (the third figure of a laptop's tells its cores), and Intel's
before Sapphire Rapids."""
_SERVER = re.compile(
    r"Xeon (?:Gold |Silver |Bronze |Platinum |Max |W )?\d[45]\d\d\w?\b|Xeon 6\b|\b6[79]\d\dP\b"
    r"|Sapphire Rapids|Emerald Rapids",
    re.IGNORECASE,
)
"""Intel's servers since Sapphire Rapids, which have AMX."""
_BETWEEN_WORDS = re.compile(r"(?:\((?:R|TM)\)|[\s-])+", re.IGNORECASE)
_BY_VENDOR = {"NVIDIA": "cuda", "Apple": "metal"}
_ROCM = re.compile(r"rdna[34]|cdna\d")
_ROCM_BY_NAME = re.compile(r"RX 6[89]\d\d|PRO W6800", re.IGNORECASE)
_DATE = re.compile(r"(20\d\d)(?:-(\d\d))?")
_BUILD = re.compile(r"\bb(\d{4,5})\b")
_BUILDS = (
    (1300, 2023.75), (1700, 2024.0), (2300, 2024.15), (3000, 2024.4), (3600, 2024.65), (4200, 2024.9), (4800, 2025.15),
    (5300, 2025.35), (5863, 2025.53), (6500, 2025.7), (7300, 2025.93), (7941, 2026.1), (8382, 2026.25), (9187, 2026.4),
    (10586, 2026.8),
)  # fmt: skip
"""Builds by when they were made: releases as they are dated in the table of measurements itself."""
USUAL_YEAR = 2025.5  # where nothing says when a build was made


def gpu_chip(device: Device) -> Chip:
    """A GPU; what its datasheet leaves open is taken from what is usual of its maker."""
    ratio = _MATRIX_OVER_PLAIN.get(device.vendor, 2.0)
    plain = device.fp32_flops_per_s or device.fp16_flops_per_s / ratio
    plain = plain or device.memory_bytes_per_s / _BYTES_PER_FLOP
    matrix = max(device.fp16_flops_per_s, plain)
    return Chip(
        bytes_per_s=device.memory_bytes_per_s,
        flops_per_s=plain,
        matrix_flops_per_s=matrix if device.fp16_flops_per_s else plain * ratio,
        watts=device.tdp_w,
        cache_bytes=float(device.l2_bytes),
    )


def cpu_chip(device: Device, threads: float = 0.0) -> Chip:
    """A CPU with its memory."""
    core = core_flops_per_s(device.clock_hz, narrow=device.narrow_cores)
    return host_chip(device.memory_bytes_per_s, core_count(device, threads), core)


def core_count(device: Device, threads: float = 0.0) -> float:
    """The cores of a CPU that compute: as asked for, as the catalog has them, or as its memory can feed."""
    fed = max(_FEWEST_CORES, round(device.memory_bytes_per_s / _BYTES_PER_S_OF_A_CORE))
    return threads or float(device.units) or fed


def core_flops_per_s(clock_hz: float, *, narrow: bool = False) -> float:
    """What a core computes at its boost clock; at the usual one where that is not known."""
    return (_FLOPS_OF_NARROW_CORES if narrow else _FLOPS_A_CYCLE) * sound_clock_hz(clock_hz)


def sound_clock_hz(clock_hz: float) -> float:
    """The boost clock; the usual one where that is not known, or can't be."""
    return clock_hz if _CLOCKS_HZ[0] <= clock_hz <= _CLOCKS_HZ[1] else USUAL_CLOCK_HZ


def host_chip(bytes_per_s: float, threads: float, core_flops: float = CORE_FLOPS_PER_S) -> Chip:
    """A CPU of which the memory's speed and the threads are known."""
    flops = threads * core_flops
    return Chip(bytes_per_s=bytes_per_s, flops_per_s=flops, matrix_flops_per_s=flops, threads=threads)


USUAL_HOST = host_chip(70e9, 8.0, core_flops_per_s(5e9))  # A desktop with two channels of DDR5, if nothing is known


def has_wide_vectors(name: str) -> bool:
    """Whether a CPU of this name multiplies vectors of 512 bits."""
    return bool(_WIDE.search(_BETWEEN_WORDS.sub(" ", name)))


def is_server_by_name(name: str) -> bool:
    """Whether a CPU of this name is a server with matrix units."""
    return bool(_SERVER.search(_BETWEEN_WORDS.sub(" ", name)))


def has_peers(device: Device) -> bool:
    """Whether such GPUs read each other's memory directly: GeForce cards since Ampere may not."""
    return not (device.vendor == "NVIDIA" and device.name.startswith(("RTX 3", "RTX 4090", "RTX 40", "RTX 50")))


def has_links(device: Device) -> bool:
    """Whether several of them are joined on a board by links of their own."""
    return bool(device.link_bytes_per_s) and "SXM" in device.name


def usual_backend(device: Device) -> str:
    """What people run llama.cpp on such a device with."""
    # Of AMD's those that ROCm supports: Instinct, RDNA 3 and 4, and the largest of RDNA 2 (gfx1030), by AMD's list
    # for Linux (https://rocm.docs.amd.com/projects/install-on-linux/en/latest/reference/system-requirements.html);
    # GPUs inside a processor and older cards run with Vulkan.
    if device.vendor == "AMD" and not device.is_unified:
        rocm = _ROCM.fullmatch(device.family) or _ROCM_BY_NAME.search(device.name)
        return "rocm" if rocm else "vulkan"
    return _BY_VENDOR.get(device.vendor, "vulkan")


@lru_cache(maxsize=4096)
def year_of_build(text: str) -> float:
    """When a build was made, in years, by a date or by its number; the usual year where neither is."""
    date, build = _DATE.search(text), _BUILD.search(text)
    if date and date[2]:
        return int(date[1]) + (int(date[2]) - 0.5) / 12
    if not build:
        return int(date[1]) + 0.5 if date else USUAL_YEAR
    number = float(build[1])
    earlier, later = [b for b in _BUILDS if b[0] <= number], [b for b in _BUILDS if b[0] > number]
    if not earlier or not later:
        return (later or earlier)[0 if later else -1][1]
    (low, start), (high, end) = earlier[-1], later[0]
    return start + (end - start) * (number - low) / (high - low)


def is_numbered(text: str) -> bool:
    """Whether it names a build by its number."""
    return bool(_BUILD.search(text))


USUAL_MICRO_BATCH = 512
USUAL_LINK = 12e9  # PCIe 3.0 or 4.0 with 16 lanes, as copies from ordinary memory reach it
MAPPED_BYTES_PER_S = 9e9
"""Copies from a mapped file, however fast the link: a core of the host moves them to pinned memory first. Beside an
H200 with 50 GB/s, prompts were read as if at 8 to 11 GB/s with mmap and at 42 without (lab/plan_gpu)."""
PIPELINES_SINCE = 2024.2  # llama.cpp began to work on several micro-batches at once, one on each GPU, in March 2024
CONVERSATIONS = (1, 2, 4, 8, 16, 32, 64)
WIDER = 1.5  # how much wider an interval gets, in logarithms, for each thing that was not measured


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


def prefill_outcome(
    q: SpeedQuestion, tokens: float, micro_batch: float = USUAL_MICRO_BATCH, prompts: float = 1.0
) -> Outcome:
    """Prompt tokens per second."""
    terms = tuple(prompt_terms(q, tokens, micro_batch, prompts))
    return _outcome(terms, 1.0, spread_of("prefill", q.setting.backend))


def _outcome(terms: tuple[Term, ...], tokens: float, spread: Spread, launches: float = 0.0) -> Outcome:
    factors = learned_speed().factors
    alone = float(total_of_terms(terms, factors))
    seconds = float(decode.overlapped_s(alone, launches)) if launches else alone
    shortest = float(least_seconds(terms))
    ceiling = tokens / shortest if shortest else float("inf")
    rate = tokens / seconds
    parts = {name: float(s) for name, s in by_part(terms, factors).items() if s}
    if launches:
        parts[decode.LAUNCHED_ONE_BY_ONE] = seconds - alone
    likely = Interval(rate * spread.low, rate, min(rate * spread.high, max(ceiling, rate)))
    return Outcome(seconds, parts, likely, ceiling)


def step_seconds(q: SpeedQuestion) -> Number:
    """Seconds of a step; of many questions at once where the numbers are arrays."""
    alone = total_of_terms(step_terms(q), learned_speed().factors)
    launches = host_launch_s(q)
    return alone if launches is None else decode.overlapped_s(alone, launches)


def prompt_token_seconds(q: SpeedQuestion, tokens: Number, micro_batch: Number = USUAL_MICRO_BATCH) -> Number:
    """Seconds of a prompt token; of many questions at once where the numbers are arrays."""
    return total_of_terms(prompt_terms(q, tokens, micro_batch), learned_speed().factors)


def host_launch_s(q: SpeedQuestion) -> Number | None:
    """What launching takes on the processor, where it is not recorded; None where it is."""
    if q.totals is None or (q.setting.graphs and not q.setting.pieces and q.setting.runtime != "transformers"):
        return None
    how = {"transformers": decode.EAGER, "vllm": decode.SERVED}.get(q.setting.runtime, decode.PLAIN)
    how = decode.PIECES if q.setting.graphs and q.setting.pieces else how
    return decode.launch_s(how, q.totals.layers, q.totals.expert_layers)


def step_terms(q: SpeedQuestion) -> Iterator[Term]:
    """What one step costs, which generates a token for each conversation."""
    if q.totals is not None:
        amounts = q.totals.step(q.depth, q.element_bytes, q.tokens)
        if q.split == SPLIT_BY_LAYER:
            weights_s = (amounts.dense_bytes + amounts.expert_bytes) / q.chip.bytes_per_s
            yield from _gpu_step_terms(amounts, q)
            yield from placement.layer_split_terms(q.gpus, q.setting.backend, weights_s)
        else:
            shared = amounts.share(q.gpus)
            if q.split == SPLIT_BY_ROW:  # attention is not split by rows
                shared = shared._replace(cache_bytes=amounts.cache_bytes)
            yield from _gpu_step_terms(shared, q)
            yield from placement.tensor_split_terms(
                q.gpus, amounts.layers, amounts.width, q.split, peers=q.peers, linked=q.setting.linked
            )
    if q.host is not None:
        amounts = q.host.totals.step(q.depth, q.element_bytes, q.tokens)
        yield from decode.host_decode_terms(amounts, q.host.chip, q.host.setting)
        yield from placement.offload_terms(q.host.crossings, q.setting.backend)


def _gpu_step_terms(amounts: decode.Amounts, q: SpeedQuestion) -> Iterator[Term]:
    if serves_many(q.setting):
        return served_step_terms(amounts, q.chip, q.setting)
    return decode.decode_terms(amounts, q.chip, q.setting, q.year)


def prompt_terms(
    q: SpeedQuestion, tokens: Number, micro_batch: Number = USUAL_MICRO_BATCH, prompts: Number = 1.0
) -> Iterator[Term]:
    """What a token of a prompt costs on average, beside others as long; `depth` is where the prompt begins."""
    each = smaller(micro_batch, tokens * prompts)
    depth = q.depth + tokens / 2
    lent = _shared_prompt(q.host.totals, each, depth) if q.host is not None else None
    if q.totals is not None:
        at_once: Number = 1.0
        older = q.year < PIPELINES_SINCE  # of many builds, whether all are
        if q.split == SPLIT_BY_LAYER and not (older if isinstance(older, bool) else older.all()):
            at_once = pipelined_gpus(q.gpus, larger(tokens / each, 1.0))
        own = _shared_prompt(q.totals, each, depth)._replace(
            is_quantised=q.setting.types != HALF, gpus=q.gpus, split=q.split, pipelined=at_once, peers=q.peers
        )
        if lent is not None:  # GPUs also compute what the host lends them
            own = own._replace(
                token_weights=own.token_weights + lent.token_weights,
                token_expert_weights=own.token_expert_weights + lent.token_expert_weights,
                attention_products=own.attention_products + lent.attention_products,
            )
        if serves_many(q.setting):
            yield from served_prompt_terms(own, q.chip, q.setting)
        else:
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
    # As many as keep the matrix units as busy as the memory
    return float(bytes_per_weight / question.chip.bytes_per_s * question.chip.matrix_flops_per_s / 2)


def trust_in(device: Device, setting: SpeedSetting) -> Trust:
    """What is known of such a device under such software."""
    found = []
    if setting.backend != "cpu" and device.family not in learned_speed().chips.get(setting.backend, []):
        family = f"the {device.family} family" if device.family else f"devices like the {device.name}"
        found.append(f"no measurements of {family} with {setting.backend} are in the fitted data")
    factors = (f"{kind}/runtime/{setting.runtime}" for kind in ("launch", "waste"))
    if setting.runtime and not any(factor in learned_speed().factors for factor in factors):
        found.append(f"{setting.runtime} was measured on at most one machine")
    if not device.is_verified:
        found.append(f"the specifications of the {device.name} have a single source")
    return Trust(WIDER ** len(found), tuple(found))


def widen_interval(rate: Interval, wider: float, ceiling: float = math.inf) -> Interval:
    """The interval with both distances from its middle as many times larger, in logarithms; never above the ceiling."""
    low, mid, high = rate
    if wider == 1.0 or mid <= 0:
        return rate
    top = max(mid, min(mid * (high / mid) ** wider, ceiling))
    return Interval(mid * (low / mid) ** wider, mid, top)


def rounded_rate(rate: float) -> str:
    """A speed with three digits."""
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"  # noqa: PLR2004 (three digits)
