"""The settings of Transformers that serve a goal best: all combinations that `generate` takes are priced."""

import math
from collections.abc import Iterator, Sequence
from itertools import product
from operator import attrgetter
from typing import NamedTuple

from unslow.catalog.learned_speed import learned_speed, spread_of
from unslow.catalog.weight_parts import Part
from unslow.facts.knob import Knob, Setting
from unslow.facts.model import HfShape
from unslow.facts.values import GIB
from unslow.think.fit.answers import shown_held
from unslow.think.fit.safetensors import LARGE_HOST
from unslow.think.hardware import Hardware
from unslow.think.memory.footprint import DeviceBytes
from unslow.think.memory.transformers import TransformersSettings, repeated_copies, transformers_memory
from unslow.think.physics.chip import SpeedSetting
from unslow.think.physics.decode import EAGER, launch_s, overlapped_s
from unslow.think.physics.placement import largest_fitting
from unslow.think.physics.terms import Interval, Term, least_seconds, total_of_terms
from unslow.think.plan.pareto_front import FrontAndChoice, Worth, goal_rank, pareto_front, thin_front
from unslow.think.plan.quality import Cost, hf_cost, hf_quality, is_as_good, weight_bits
from unslow.think.plan.report import (
    GoalShown,
    OptionShown,
    RejectedShown,
    SearchedShown,
    changes_of,
    shown_settings,
    shown_speed,
)
from unslow.think.speed import question as speeds
from unslow.think.speed.load import Totals, hf_load, totals
from unslow.think.speed.question import USUAL_LINK, SpeedQuestion, gpu_chip, trust_in, widen_interval
from unslow.think.speed.rows import PREFILL, gpu_group

RECENT = (5, 17)  # the version whose memory was measured: what is planned for where nothing runs yet
AS_STORED_SINCE = (5, 0)
"""From here on weights are loaded as they are stored; before, as float32 unless `dtype` says otherwise."""
BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
ALL_ON_ONE, SPREAD_OUT = "cuda:0", "auto"  # values of `device_map`
CACHES = ("dynamic", "static", "quantized", "offloaded")
NO_BFLOAT16 = frozenset({"turing", "volta", "pascal", "maxwell", "gcn5", "polaris", "rdna1", "rdna2", "m1"})
"""Chips without it, or with one that is made of float32; they have float16."""
NO_FLASH = frozenset({"turing", "volta", "pascal", "maxwell"})
"""Chips that FlashAttention 2 does not take: it wants compute capability 8.0."""
QUANTIZED_SHARE = 4.5 / 16
"""Of the bytes of a plain cache: 4 bits with a scale and a shift of 16 bits for each 64 numbers (`QuantizedCache`)."""
RESIDUAL_TOKENS = 128  # the newest tokens, which a quantised cache keeps as they are
OFFLOADED_LAYERS = 2  # of an offloaded cache on the card: the layer at work and the one that is fetched for it
PYTHON_SPREAD = 1.3
"""On top of what was learned of kernels: the loop around them is the host's pace (as in think.case.physics)."""
COPIES = {"dynamic": 2.0, "static": 0.0, "quantized": 6.0, "offloaded": 2.0}
"""How often the bytes of the plain cache go over the memory for a token beyond being looked at: read and written to be
joined; of a quantised one written in three steps of unpacking and read again."""
UNPACKING_LAYER_S = 250e-6  # more launches in each layer of a quantised cache: a dozen small operations at 20 us each
COMPILING_S = 40
"""What the first answer takes longer (recorded on an H200: 42 s for a model of 6B, 0.5 s from the second one on)."""
THIS_YEAR = 2026.8
_WHY = {
    Knob.WEIGHTS_TYPE.value: "half the bytes per token, and the matrix units support it",
    Knob.ATTENTION.value: "one fused kernel that does not write the scores to memory",
    Knob.CACHE.value: "decides whether the step can be compiled, and how much memory a conversation needs",
    Knob.COMPILE.value: "kernels are recorded once instead of launched one at a time by Python",
    Knob.DEVICE.value: "where the layers are",
}


class Choice(NamedTuple):
    """One setting of every knob."""

    dtype: str
    attention: str
    cache: str
    device_map: str

    @property
    def is_compiled(self) -> bool:
        """Whether `generate` compiles the step, as it does for a cache whose shape stays the same."""
        return self.cache == "static"


class TransformersPlanQuestion(NamedTuple):
    """A plan to be made."""

    shape: HfShape
    parts: tuple[Part, ...]  # As they are stored
    quant: str
    types: str  # The class of the weights' types: f16, q8, q4
    hardware: Hardware  # Cards of one kind, and the host
    goal: GoalShown
    stored: str = "bfloat16"  # The type of numbers that are not packed
    packed: bool = False
    version: tuple[int, int] = RECENT
    has_flash: bool | None = None  # Whether the package flash-attn is there; None where not checked
    parameters: int = 0
    architecture: str = ""
    margin_bytes: int = 0
    current: Choice | None = None

    @property
    def trained_context(self) -> int:
        """The longest context that the model was made for."""
        return self.shape.positions or self.goal.context

    @property
    def now(self) -> Choice:
        """What changes are counted against: what runs, else what people write first."""
        dtype = self.stored if self.version >= AS_STORED_SINCE or self.packed else "float32"
        return self.current or Choice(dtype, "sdpa", "dynamic", SPREAD_OUT)

    def parts_as(self, dtype: str) -> tuple[Part, ...]:
        """The weights as they lie in memory: plain ones in the type that is asked for."""
        factor = 1.0 if self.packed else BYTES[dtype] / BYTES[self.stored]
        return self.parts if factor == 1.0 else tuple(p._replace(bytes=round(p.bytes * factor)) for p in self.parts)

    def settings(self, choice: Choice, tokens: int) -> TransformersSettings:
        """The choice as the memory of Transformers takes it, for conversations of so many tokens."""
        answer = min(self.goal.answer_tokens, max(1, tokens - 1))
        return TransformersSettings(
            prompt_tokens=max(1, tokens - answer),
            new_tokens=answer,
            batch=self.goal.users,
            cache="static" if choice.cache == "static" else "dynamic",
            attention="flash" if choice.attention.startswith("flash") else choice.attention,
            padded=self.goal.users > 1,
            dtype_bytes=BYTES[choice.dtype],
            device_map="single" if choice.device_map == ALL_ON_ONE else "auto",
            version=self.version,
        )


class Laid(NamedTuple):
    """Where everything lies."""

    devices: tuple[DeviceBytes, ...]
    host: DeviceBytes
    spilled_bytes: int  # Weights that no card has room for: they come over the link for every token
    cards: int  # That hold some of the weights
    left_bytes: int  # On the fullest of the devices; below 0 where it has too little


class ConversationSpeed(NamedTuple):
    """What one conversation gets."""

    decode: Interval
    prefill: Interval
    request_s: Interval


class Point(NamedTuple):
    """A choice with what it gives."""

    choice: Choice
    laid: Laid
    context: int
    paced: ConversationSpeed
    worth: Worth


def transformers_options(question: TransformersPlanQuestion) -> FrontAndChoice:
    """Every combination looked at, the front of them, and the best for the goal."""
    every = choices(question)
    priced = [point for choice in every if (point := priced_point(question, choice))]
    searched = SearchedShown(combinations=len(every), priced=len(priced), laid_out=len(every))
    before = priced_point(question, question.current) if question.current else None
    current = shown_option(question, before, before) if before else None
    fine = [point for point in priced if _is_fine(question, point)]
    if not fine:
        reason, hint = _why_nothing(question, priced)
        return FrontAndChoice((), None, (), searched, current=current, reason=reason, hint=hint)
    points = pareto_front(fine, attrgetter("worth"), lambda point: (-point.worth.ease,))
    good = points
    if question.goal.worst_perplexity_increase is None:  # output that cannot be told from the plain one
        plain = hf_cost(question.quant, question.types, "dynamic", question.parameters, question.architecture)
        good = [point for point in points if is_as_good(_cost(question, point), plain)] or points
    chosen = max(good, key=lambda p: (goal_rank(question.goal, p.worth), p.worth.ease))
    options = [p for p in thin_front(points, attrgetter("worth"), chosen) if p is chosen or p.worth.ease or not before]
    return FrontAndChoice(
        tuple(shown_option(question, point, before) for point in options),
        options.index(chosen),
        tuple(rejected_options(question, chosen, priced)),
        searched,
        current=current,
    )


def _is_fine(question: TransformersPlanQuestion, point: Point) -> bool:
    """Whether it keeps the floors; an unpublished cost does not meet one of quality."""
    goal = question.goal
    if goal.least_tokens_per_s is not None and point.paced.decode.mid < goal.least_tokens_per_s:
        return False
    if goal.worst_perplexity_increase is None or point.choice.cache != "quantized":
        return True
    increase = _cost(question, point).perplexity_increase
    return increase is not None and increase <= goal.worst_perplexity_increase


def _cost(question: TransformersPlanQuestion, point: Point) -> Cost:
    return hf_cost(question.quant, question.types, point.choice.cache, question.parameters, question.architecture)


def _why_nothing(question: TransformersPlanQuestion, points: Sequence[Point]) -> tuple[str, str]:
    goal = question.goal
    if points and goal.least_tokens_per_s is not None:
        fastest = max(point.paced.decode.mid for point in points)
        return f"the fastest combination gives {fastest:.1f} tok/s per conversation", "ask for less speed"
    tried = question.now._replace(cache="dynamic")
    laid = laid_out(question, tried, min(goal.context, question.trained_context))
    needs = max((held.total.high for held in laid.devices), default=0) / GIB
    free = max((room.usable_bytes for room in question.hardware.rooms), default=0) / GIB
    needed = f"a card needs {needs:.1f} GiB for {goal.context:,} tokens of {goal.users} at a time"
    hint = "use a shorter context, fewer users, a quantized checkpoint"
    return f"{needed}, and has {free:.1f}", f"{hint}, or keep fewer weights on the card with max_memory"


def choices(question: TransformersPlanQuestion) -> list[Choice]:
    """Every combination that loads and runs at all."""
    half = "float16" if question.hardware.device.family in NO_BFLOAT16 else "bfloat16"  # what the device computes in
    now = question.now
    plain = dict.fromkeys((half, question.stored, "float32", now.dtype))
    types = [question.stored if question.stored in BYTES else half] if question.packed else list(plain)
    flash = ["flash_attention_2"] if can_flash(question) else []
    maps = [ALL_ON_ONE, SPREAD_OUT]
    every = [Choice(*c) for c in product(types, ["sdpa", "eager", *flash], CACHES, maps)]
    return [c for c in every if is_taken(question, c)]


def can_flash(question: TransformersPlanQuestion) -> bool:
    """Whether the kernels of flash-attn are there and take this chip."""
    known = bool(question.has_flash) or question.now.attention.startswith("flash")
    return known and question.hardware.device.vendor == "NVIDIA" and question.hardware.device.family not in NO_FLASH


def is_taken(question: TransformersPlanQuestion, choice: Choice) -> bool:
    """Whether Transformers takes this combination."""
    if choice.attention.startswith("flash") and (choice.dtype == "float32" or choice.cache == "static"):
        return False
    if choice.dtype == "bfloat16" and question.hardware.device.family in NO_BFLOAT16:
        return False
    latent = bool(question.shape.kv_rank or question.shape.state)
    return not (latent and choice.cache == "quantized")  # such layers have caches of their own


def priced_point(question: TransformersPlanQuestion, choice: Choice) -> Point | None:
    """The point of a choice; None where it has no room for the goal, or would be compiled and can't be."""
    laid = laid_out(question, choice, min(question.goal.context, question.trained_context))
    if laid.left_bytes < 0 or (choice.is_compiled and (laid.cards > 1 or laid.spilled_bytes)):
        return None  # `generate` compiles only for one device that holds everything
    paced = paced_choice(question, choice, laid)
    context, goal = longest_fitting(question, choice), question.goal
    worth = Worth(
        speed=1 / paced.request_s.mid,
        context=float(context),
        weight_bits=weight_bits(question.types),
        cache_bits=4.0 if choice.cache == "quantized" else 16.0,
        aggregate=goal.users * goal.answer_tokens / paced.request_s.mid,
        left=1.0,
        ease=-float(sum(one != other for one, other in zip(choice, question.now, strict=True))),
    )
    return Point(choice, laid, context, paced, worth)


def laid_out(question: TransformersPlanQuestion, choice: Choice, tokens: int) -> Laid:
    """The memory for conversations of so many tokens."""
    free = [max(0, room.usable_bytes - question.margin_bytes) for room in question.hardware.rooms]
    host_free = question.hardware.host_room.usable_bytes if question.hardware.host_room else LARGE_HOST
    used = free[:1] if choice.device_map == "cuda:0" else free
    settings = question.settings(choice, tokens)
    found = transformers_memory(question.shape, question.parts_as(choice.dtype), settings, used, host_free)
    # With the cache that was chosen; activations stay as they are
    share = 1.0
    if choice.cache == "quantized":
        plain = min(1.0, RESIDUAL_TOKENS / max(1, tokens))
        share = plain + (1 - plain) * QUANTIZED_SHARE
    elif choice.cache == "offloaded":
        share = min(1.0, OFFLOADED_LAYERS / max(1, question.shape.layers))
    kept = tuple(held._replace(kv_bytes=round(held.kv_bytes * share)) for held in found.devices)
    moved = sum(held.kv_bytes - less.kv_bytes for held, less in zip(found.devices, kept, strict=True))
    host = found.host._replace(kv_bytes=moved if choice.cache == "offloaded" else 0)
    spilled = found.host.weights_bytes + found.disk_bytes
    left = [space - held.total.high for held, space in zip(kept, used, strict=True)]
    least = -found.disk_bytes if found.disk_bytes else min(*left, host_free - host.total.high)
    return Laid(kept, host, spilled, sum(held.weights_bytes > 0 for held in kept), least)


def longest_fitting(question: TransformersPlanQuestion, choice: Choice) -> int:
    """The longest conversation, up to the model's own limit, that fits; 0 where none does."""
    return largest_fitting(1, question.trained_context, lambda n: laid_out(question, choice, n).left_bytes) or 0


def paced_choice(question: TransformersPlanQuestion, choice: Choice, laid: Laid) -> ConversationSpeed:
    """The speed of all users in one batch; `generate` reads the whole conversation anew each time."""
    goal, parts = question.goal, question.parts_as(choice.dtype)
    whole = totals(hf_load(question.shape, parts, question.types))
    launches = float(launch_s(EAGER, whole.layers, whole.expert_layers))
    launches += UNPACKING_LAYER_S * float(whole.layers) if choice.cache == "quantized" else 0.0
    read = goal.kept_tokens + goal.prompt_tokens
    # Tokens per second of each conversation
    depth = read + goal.answer_tokens / 2
    q = _ask(question, choice, laid, whole)._replace(depth=depth, tokens=float(goal.users))
    terms = tuple(speeds.step_terms(q))
    alone = float(total_of_terms(terms, learned_speed().factors)) + _copy_seconds(question, choice, laid, whole, depth)
    seconds = alone + EAGER.step_s if choice.is_compiled else float(overlapped_s(alone, launches))
    step = _interval(question, 1 / seconds, gpu_group(question.shape, laid.cards, depth), q, terms)
    # Prompt tokens per second; the whole prompt is one batch
    q = _ask(question, choice, laid, whole)
    terms = tuple(speeds.prompt_terms(q, float(read), float(read)))
    alone = float(total_of_terms(terms, learned_speed().factors)) * read + laid.spilled_bytes / USUAL_LINK
    prompt = _interval(question, read / float(overlapped_s(alone, launches)), PREFILL, q, terms)
    ends = [goal.users * read / fast + goal.answer_tokens / each for fast, each in zip(prompt, step, strict=True)]
    return ConversationSpeed(step, prompt, Interval(ends[2], ends[1], ends[0]))


def _ask(question: TransformersPlanQuestion, choice: Choice, laid: Laid, whole: Totals) -> SpeedQuestion:
    device = question.hardware.device
    setting = SpeedSetting(
        backend={"AMD": "rocm", "Apple": "metal"}.get(device.vendor, "cuda"), family=device.family,
        device=device.name, types=question.types, runtime="transformers", fused=choice.attention != "eager",
        graphs=choice.is_compiled,
    )  # fmt: skip
    chip = gpu_chip(device)
    if choice.dtype == "float32":  # which the matrix units do not take
        chip = chip._replace(matrix_flops_per_s=chip.flops_per_s)
    element_bytes, cards = float(BYTES[choice.dtype]), float(laid.cards or 1)
    return SpeedQuestion(whole, chip, setting, THIS_YEAR, element_bytes=element_bytes, gpus=cards)


def _copy_seconds(question: TransformersPlanQuestion, choice: Choice, laid: Laid, whole: Totals, depth: float) -> float:
    """Seconds of a token for copies of the cache, and for what comes over the link."""
    # A growing cache is copied whole at every token, since it is joined with the new keys and values; keys that several
    # heads share are written out for each head where attention needs a mask or is not fused; a quantised cache is
    # unpacked whole at every token, an offloaded one comes over the link
    goal, shape, size = question.goal, question.shape, float(BYTES[choice.dtype])
    everything = float(goal.kept_tokens + goal.prompt_tokens + goal.answer_tokens)
    held = everything if choice.cache == "static" else depth
    kept = float(whole.cache_elements(held)) * size * goal.users
    looked = float(whole.cache_elements(depth)) * size * goal.users
    repeats = repeated_copies(shape, question.settings(choice, int(everything))) > 0
    repeated = 2 * shape.heads / max(1, shape.kv_heads) if repeats else 0.0
    moved = (COPIES[choice.cache] + repeated) * kept + kept - looked
    link = laid.spilled_bytes + (kept if choice.cache == "offloaded" else 0.0)
    return moved / float(gpu_chip(question.hardware.device).bytes_per_s) + link / USUAL_LINK


def _interval(
    question: TransformersPlanQuestion, rate: float, group: str, q: SpeedQuestion, terms: tuple[Term, ...]
) -> Interval:
    shortest = float(least_seconds(terms))  # of a prompt nothing is certain
    ceiling = 1 / shortest if shortest else math.inf
    spread = spread_of(group, q.setting.backend)
    found = Interval(rate * spread.low / PYTHON_SPREAD, rate, rate * spread.high * PYTHON_SPREAD)
    return widen_interval(found, trust_in(question.hardware.device, q.setting).wider, max(ceiling, rate))


def shown_option(question: TransformersPlanQuestion, point: Point, before: Point | None = None) -> OptionShown:
    """The option; `before` is what runs now."""
    choice, users, rooms = point.choice, question.goal.users, question.hardware.rooms
    risk = "a model with custom code may not compile" if choice.is_compiled else ""
    settings = shown_settings(settings_of(choice), dict(settings_of(question.now)))
    if choice.cache == "quantized":
        risk = "needs the package hqq or optimum-quanto; output changes with 4-bit keys and values"
    return OptionShown(
        name=f"{choice.dtype}, {choice.attention}, {choice.cache} cache{', compiled' if choice.is_compiled else ''}"
        f"{'' if choice.device_map == 'auto' else ', one card'}",
        quant=question.quant,
        context=point.context,
        changes=changes_of(settings, _WHY.__getitem__),
        settings=settings,
        speed=shown_speed(*point.paced, point.paced.decode.mid * users if users > 1 else None),
        quality=hf_quality(question.quant, question.types, choice.cache, question.parameters, question.architecture),
        devices=tuple(map(shown_held, point.laid.devices, rooms)),
        host=shown_held(point.laid.host, question.hardware.host_room),
        costs=tuple(option_costs(question, point, before)),
        risk=risk,
        speedup=before.paced.request_s.mid / point.paced.request_s.mid if before else None,
    )


def settings_of(choice: Choice) -> list[tuple[str, Setting]]:
    """Every knob with its value."""
    return [
        (Knob.WEIGHTS_TYPE.value, choice.dtype),
        (Knob.ATTENTION.value, choice.attention),
        (Knob.CACHE.value, choice.cache),
        (Knob.COMPILE.value, choice.is_compiled),
        (Knob.DEVICE.value, choice.device_map),
    ]


def option_costs(question: TransformersPlanQuestion, point: Point, before: Point | None) -> Iterator[str]:
    """What it gives up."""
    if point.choice.is_compiled:
        yield f"the first request takes about {COMPILING_S} s longer: the step is compiled, and again for other lengths"
    if point.laid.spilled_bytes:
        gib = point.laid.spilled_bytes / 2**30
        yield f"{gib:.1f} GiB of weights are in host memory and cross the link for every token"
    if question.goal.kept_tokens:
        yield f"`generate` reprocesses the {question.goal.kept_tokens:,} earlier tokens unless it is given their cache"
    if before and point.context < before.context:
        yield f"room for {point.context:,} tokens instead of {before.context:,}"


def rejected_options(
    question: TransformersPlanQuestion, chosen: Point, points: Sequence[Point]
) -> Iterator[RejectedShown]:
    """What people try, one knob turned at a time."""
    if not can_flash(question):
        because = "not installed; sdpa has a fused kernel too, which is enough for prompts of equal length"
        yield RejectedShown(what='attn_implementation="flash_attention_2"', because=because)
    device = question.hardware.device
    if device.family in NO_BFLOAT16:
        because = f"the {device.name} does not support it: float16 is used"
        yield RejectedShown(what="dtype=torch.bfloat16", because=because)
    known = {point.choice: point for point in points}
    for what, choice in _tries(chosen.choice):
        point = known.get(choice)
        if point is None:
            taken = is_taken(question, choice)
            because = "does not fit" if taken else "`generate` does not accept it with the other settings"
            yield RejectedShown(what=what, because=because)
        elif point.worth.speed <= chosen.worth.speed:
            seconds = f"{point.paced.request_s.mid:.2f} s per request instead of {chosen.paced.request_s.mid:.2f} s"
            yield RejectedShown(what=what, because=f"not faster: {seconds}")


def _tries(choice: Choice) -> Iterator[tuple[str, Choice]]:
    for cache in CACHES:
        if cache != choice.cache:
            yield f'cache_implementation="{cache}"', choice._replace(cache=cache)
    if choice.attention != "eager":
        yield 'attn_implementation="eager"', choice._replace(attention="eager")
    if choice.dtype != "float32":
        yield "dtype=torch.float32", choice._replace(dtype="float32")
