"""A point in knobs: every setting that a start must be told, and those that differ from what is now."""

from collections.abc import Iterator
from typing import NamedTuple

from unslow.facts.knob import Knob, Setting
from unslow.think.plan.llama_cpp.found import Found
from unslow.think.plan.llama_cpp.placing import patterns
from unslow.think.plan.llama_cpp.point import DEFAULT_CACHE, DEFAULT_MICRO_BATCH, Point
from unslow.think.plan.llama_cpp.variants import Variant
from unslow.think.plan.report import ChangeShown

_USUAL_BATCH = 2048


class Turned(NamedTuple):
    """A knob, its value, and why it is turned so."""

    knob: Knob
    value: Setting
    why: str = ""


class Usual(NamedTuple):
    """What a runtime does where nobody says, and what the machine allows."""

    threads: int
    slots: int | None = None
    """None where one cache is shared by several, which no number of slots with a cache of their own is."""
    micro_batch: int | None = DEFAULT_MICRO_BATCH
    """None where it depends on the memory that is free."""
    pinned: bool = False
    """Whether weights with the host may lie in memory that a GPU copies from directly."""


def settings_of(point: Point, usual: Usual) -> tuple[ChangeShown, ...]:
    """All that a start must be told."""
    return tuple(
        ChangeShown(knob=knob.value, value=value, why=why)
        for knob, value, why in _turned(point.variant, point.found, usual)
    )


def changes_of(point: Point, now: tuple[ChangeShown, ...], usual: Usual) -> tuple[ChangeShown, ...]:
    """What differs from what is set now, with what it was; what is only set now is taken away."""
    was = {change.knob: change.value for change in now}
    wanted = settings_of(point, usual)
    turned = [
        ChangeShown(knob=c.knob, value=c.value, was=was.get(c.knob), why=c.why)
        for c in wanted
        if c.knob not in was or was[c.knob] != c.value
    ]
    names = {change.knob for change in wanted}
    gone = [
        ChangeShown(knob=knob, value=None, was=value, why="not needed any more")
        for knob, value in was.items()
        if knob not in names
    ]
    return (*turned, *gone)


def _turned(variant: Variant, found: Found, usual: Usual) -> Iterator[Turned]:
    settings = found.settings
    if not variant.given:
        yield Turned(Knob.MODEL_FILE, variant.file or variant.quant, f"the same model as {variant.quant}")
    yield Turned(Knob.CONTEXT_LENGTH, settings.context, "tokens of all conversations")
    if not settings.unified and settings.slots != usual.slots:
        yield Turned(Knob.PARALLEL, settings.slots, "conversations at a time")
    yield from _cache(found)
    yield from _where(variant, found)
    if settings.micro_batch != usual.micro_batch:
        yield Turned(Knob.BATCH, settings.micro_batch, _why_micro_batch(settings.micro_batch))
    if settings.batch != _USUAL_BATCH:
        yield Turned(Knob.LOGICAL_BATCH, settings.batch, "a micro-batch is part of a batch")
    if found.threads != usual.threads:
        yield Turned(Knob.THREADS, found.threads, "one for each core")
    if usual.pinned and found.placing.first_complete and any(found.split):
        yield Turned(Knob.LOAD_MODE, "none", "the GPU copies weights for prompts from memory, not from a mapped file")


def _cache(found: Found) -> Iterator[Turned]:
    settings = found.settings
    if settings.key_type != DEFAULT_CACHE:
        yield Turned(Knob.KV_CACHE_TYPE, settings.key_type.lower(), "a smaller cache leaves room for weights")
    if settings.value_type != settings.key_type:
        yield Turned(Knob.VALUE_CACHE_TYPE, settings.value_type.lower(), "")
    if settings.value_type != DEFAULT_CACHE:
        yield Turned(Knob.FLASH_ATTENTION, value=True, why="a cache of a smaller type needs it")
    if not settings.cache_on_gpu:
        yield Turned(Knob.KV_OFFLOAD, value=False, why="the cache lies with the host")


def _where(variant: Variant, found: Found) -> Iterator[Turned]:
    """Where everything goes, exactly: llama.cpp's own fit would leave a larger margin and move whole layers."""
    if not found.split:
        return
    settings, pieces = found.settings, variant.pieces
    used = [n for n, count in enumerate(found.split) if count]
    if len(used) == 1 < len(found.split):
        yield Turned(Knob.SPLIT_MODE, "none", "one GPU holds it all")
        yield Turned(Knob.MAIN_GPU, used[0], "the one that does")
    if found.needs_no_fit:
        return
    yield Turned(Knob.FIT, value=False, why="where everything goes is said exactly")
    yield Turned(Knob.GPU_LAYERS, settings.gpu_layers, "layers on the GPU, the output counted as one")
    if settings.experts_on_cpu:
        yield Turned(Knob.EXPERTS_ON_CPU, settings.experts_on_cpu, "experts of so many layers stay with the host")
    moved = patterns(found.placing, pieces)
    if moved:
        yield Turned(Knob.TENSOR_OVERRIDE, ",".join(f"{p}=CPU" for p in moved), "matrices that stay with the host")
    if len(used) > 1:
        yield Turned(Knob.TENSOR_SPLIT, ",".join(map(str, found.split)), "layers of each GPU")


def _why_micro_batch(size: int) -> str:
    if size > DEFAULT_MICRO_BATCH:
        return "prompts are read in larger pieces"
    return "smaller buffers leave room for weights"
