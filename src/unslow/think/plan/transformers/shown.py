"""A point as the report shows it, and what people try that is not worth it."""

from collections.abc import Iterator, Sequence

from unslow.facts.knob import Knob, Setting
from unslow.think.physics.interval import Interval
from unslow.think.plan.hf_quality import hf_quality
from unslow.think.plan.report import ChangeShown, OptionShown, RejectedShown, SpeedShown
from unslow.think.plan.transformers.memory import shown_devices
from unslow.think.plan.transformers.question import Choice, Question
from unslow.think.plan.transformers.search import NO_BFLOAT16, Point, can_flash, is_taken
from unslow.think.speed.report import RateShown

COMPILING_S = 40
"""What the first answer takes longer (recorded on an H200: 42 s for a model of 6B, 0.5 s from the second one on)."""
_WHY = {
    Knob.WEIGHTS_TYPE.value: "half the bytes for every token, and the matrix units take it",
    Knob.ATTENTION.value: "one kernel that writes no scores out",
    Knob.CACHE.value: "decides whether the step can be compiled, and what memory a conversation takes",
    Knob.COMPILE.value: "kernels are recorded once instead of launched by Python one by one",
    Knob.DEVICE.value: "where the layers lie",
}


def shown(question: Question, point: Point, before: Point | None = None) -> OptionShown:
    """The option; `before` is what runs now."""
    choice, goal = point.choice, question.goal
    was = dict(settings_of(question.now))
    set_ = settings_of(choice)
    devices, host = shown_devices(question, choice, min(goal.context, question.trained))
    return OptionShown(
        name=f"{choice.dtype}, {choice.attention}, {choice.cache} cache{', compiled' if choice.compiled else ''}"
        f"{'' if choice.device_map == 'auto' else ', one card'}",
        quant=question.quant,
        context=point.context,
        changes=tuple(
            ChangeShown(knob=knob, value=value, was=was[knob], why=_WHY[knob])
            for knob, value in set_
            if value != was[knob]
        ),
        settings=tuple(ChangeShown(knob=knob, value=value, was=was[knob]) for knob, value in set_),
        speed=SpeedShown(
            decode_tokens_per_s=rate(point.paced.decode),
            prefill_tokens_per_s=rate(point.paced.prefill),
            request_s=rate(point.paced.request_s),
            together_tokens_per_s=point.paced.decode.mid * question.goal.users if question.goal.users > 1 else None,
        ),
        quality=hf_quality(question.quant, question.types, choice.cache, question.parameters, question.architecture),
        devices=devices,
        host=host,
        costs=tuple(costs(question, point, before)),
        risk=risk(choice),
        speedup=before.paced.request_s.mid / point.paced.request_s.mid if before else None,
    )


def settings_of(choice: Choice) -> list[tuple[str, Setting]]:
    """Every knob with its value."""
    return [
        (Knob.WEIGHTS_TYPE.value, choice.dtype),
        (Knob.ATTENTION.value, choice.attention),
        (Knob.CACHE.value, choice.cache),
        (Knob.COMPILE.value, choice.compiled),
        (Knob.DEVICE.value, choice.device_map),
    ]


def rate(interval: Interval) -> RateShown:
    """As the report has it."""
    return RateShown(low=interval.low, mid=interval.mid, high=interval.high)


def costs(question: Question, point: Point, before: Point | None) -> Iterator[str]:
    """What it gives up."""
    if point.choice.compiled:
        yield f"the first answer comes about {COMPILING_S} s later: the step is compiled, and again for other lengths"
    if point.laid.spilled_bytes:
        gib = point.laid.spilled_bytes / 2**30
        yield f"{gib:.1f} GiB of weights lie on the host and come over the link with every token"
    if question.goal.kept_tokens:
        yield f"`generate` reads the {question.goal.kept_tokens:,} tokens of before again unless given their cache"
    if before and point.context < before.context:
        yield f"room for {point.context:,} tokens, where it was {before.context:,}"


def risk(choice: Choice) -> str:
    """What may go wrong."""
    if choice.cache == "quantized":
        return "needs the package hqq or optimum-quanto; answers change with 4 bits for keys and values"
    return "a model with code of its own may not compile" if choice.compiled else ""


def rejected(question: Question, chosen: Point, points: Sequence[Point]) -> Iterator[RejectedShown]:
    """What people try, one knob turned at a time."""
    if not can_flash(question):
        because = "it was not found installed; sdpa has a fused kernel too, and prompts of equal length need no more"
        yield RejectedShown(what='attn_implementation="flash_attention_2"', because=because)
    device = question.hardware.device
    if device.family in NO_BFLOAT16:
        yield RejectedShown(what="dtype=torch.bfloat16", because=f"the {device.name} has none: float16 it is")
    known = {point.choice: point for point in points}
    for what, choice in _tries(chosen.choice):
        point = known.get(choice)
        if point is None:
            taken = is_taken(question, choice)
            because = "does not fit" if taken else "`generate` does not take it with the other settings"
            yield RejectedShown(what=what, because=because)
        elif point.worth.speed <= chosen.worth.speed:
            seconds = f"{point.paced.request_s.mid:.2f} s a request instead of {chosen.paced.request_s.mid:.2f} s"
            yield RejectedShown(what=what, because=f"not faster: {seconds}")


def _tries(choice: Choice) -> Iterator[tuple[str, Choice]]:
    for cache in ("dynamic", "static", "quantized", "offloaded"):
        if cache != choice.cache:
            yield f'cache_implementation="{cache}"', choice._replace(cache=cache)
    if choice.attention != "eager":
        yield 'attn_implementation="eager"', choice._replace(attention="eager")
    if choice.dtype != "float32":
        yield "dtype=torch.float32", choice._replace(dtype="float32")
