"""All combinations that `generate` takes: a few dozen, each priced, so the best of them is the best there is."""

from itertools import product
from typing import NamedTuple

from unslow.think.plan.frontier import Worth
from unslow.think.plan.report import SearchedShown
from unslow.think.plan.transformers.memory import Laid, laid_out, longest
from unslow.think.plan.transformers.question import ALL_ON_ONE, BYTES, SPREAD_OUT, Choice, Question
from unslow.think.plan.transformers.speed import Pace, Paced

CACHES = ("dynamic", "static", "quantized", "offloaded")
NO_BFLOAT16 = frozenset({"turing", "volta", "pascal", "maxwell", "gcn5", "polaris", "rdna1", "rdna2", "m1"})
"""Chips without it, or with one that is made of float32; they have float16."""
NO_FLASH = frozenset({"turing", "volta", "pascal", "maxwell"})
"""Chips that FlashAttention 2 does not take: it wants compute capability 8.0."""


class Point(NamedTuple):
    """A choice with what it gives."""

    choice: Choice
    laid: Laid
    context: int
    paced: Paced
    worth: Worth


class Searched(NamedTuple):
    """All that fit, and how many were looked at."""

    points: tuple[Point, ...]
    seen: SearchedShown


def half_type(question: Question) -> str:
    """The type of 16 bits that the device computes in."""
    return "float16" if question.hardware.device.family in NO_BFLOAT16 else "bfloat16"


def choices(question: Question) -> list[Choice]:
    """Every combination that loads and runs at all."""
    half, now = half_type(question), question.now
    plain = dict.fromkeys((half, question.stored, "float32", now.dtype))
    types = [question.stored if question.stored in BYTES else half] if question.packed else list(plain)
    flash = ["flash_attention_2"] if can_flash(question) else []
    maps = [ALL_ON_ONE, SPREAD_OUT]
    every = [Choice(*c) for c in product(types, ["sdpa", "eager", *flash], CACHES, maps)]
    return [c for c in every if is_taken(question, c)]


def can_flash(question: Question) -> bool:
    """Whether the kernels of flash-attn are there and take this chip."""
    known = bool(question.has_flash) or question.now.attention.startswith("flash")
    return known and question.hardware.device.vendor == "NVIDIA" and question.hardware.device.family not in NO_FLASH


def is_taken(question: Question, choice: Choice) -> bool:
    """Whether Transformers takes this combination."""
    if choice.attention.startswith("flash") and (choice.dtype == "float32" or choice.cache == "static"):
        return False
    if choice.dtype == "bfloat16" and question.hardware.device.family in NO_BFLOAT16:
        return False
    latent = bool(question.shape.kv_rank or question.shape.state)
    return not (latent and choice.cache == "quantized")  # such layers have caches of their own


def search(question: Question) -> Searched:
    """Every combination that has room for the goal, priced."""
    pace, every = Pace(question), choices(question)
    found = [point for choice in every if (point := priced(question, pace, choice))]
    return Searched(tuple(found), SearchedShown(combinations=len(every), priced=len(found), laid_out=len(every)))


def priced(question: Question, pace: Pace, choice: Choice) -> Point | None:
    """The point of a choice; None where it has no room for the goal, or would be compiled and can't be."""
    laid = laid_out(question, choice, min(question.goal.context, question.trained))
    if not laid.fits or (choice.compiled and (laid.cards > 1 or laid.spilled_bytes)):
        return None  # `generate` compiles only for one device that holds everything
    paced = pace.paced(choice, laid)
    context = longest(question, choice)
    return Point(choice, laid, context, paced, _worth(question, choice, context, paced))


def _worth(question: Question, choice: Choice, context: int, paced: Paced) -> Worth:
    goal, changes = question.goal, differing(choice, question.now)
    bits = {"f16": 16.0, "q8": 8.0}.get(question.types, 4.0)
    return Worth(
        speed=1 / paced.request_s.mid,
        context=float(context),
        weight_bits=bits,
        cache_bits=4.0 if choice.cache == "quantized" else 16.0,
        aggregate=goal.users * goal.answer_tokens / paced.request_s.mid,
        left=1.0,
        ease=-float(len(changes)),
    )


def differing(choice: Choice, now: Choice) -> tuple[str, ...]:
    """The knobs that differ."""
    return tuple(name for name in Choice._fields if getattr(choice, name) != getattr(now, name))
