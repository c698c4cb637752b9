"""One step from a plan, in every direction that a prediction can be wrong about and memory allows."""

from collections.abc import Callable, Iterator

from unslow.facts.knob import Knob
from unslow.think.plan.llama_cpp.point import DEFAULT_MICRO_BATCH
from unslow.think.plan.quality import cost_of, is_equal_quality
from unslow.think.tune.candidate import Around, Settings

Step = tuple[str, Settings]
"""A few words, and what is turned; None takes a setting away."""
SMALLEST_BATCH, LARGEST_BATCH = 64, 4096
_WIDER = 16 / 8.5
"""A number of 16 bits over one of q8_0, which has a scale for each block of 32."""
_DRAFT_OVER = 1.5
"""What a draft model takes for each byte of its file: it has a cache and buffers of its own."""


def steps_around(around: Around) -> Iterator[Step]:
    """Every step, those first that a prediction is most often wrong about."""
    for steps in _STEPS:
        yield from steps(around)


def _threads(around: Around) -> Iterator[Step]:
    """A thread for each core, for each processor, and one fewer for whoever else is there."""
    cores, logical = around.hand.cores, around.hand.logical
    now = around.settings.get(Knob.THREADS, cores)
    if not around.uses_host:
        return
    for count in dict.fromkeys((logical, cores, cores - 1)):
        if count > 0 and count != now:
            yield f"{count} thread{'s' if count > 1 else ''}", {Knob.THREADS: count}


def _micro_batch(around: Around) -> Iterator[Step]:
    """Half and double; no larger than a prompt, which would change nothing, nor than memory allows."""
    now = around.settings.get(Knob.BATCH) or DEFAULT_MICRO_BATCH
    if not isinstance(now, int):
        return
    if now > SMALLEST_BATCH and around.goal.prompt_tokens > now // 2:
        yield f"micro-batch {now // 2}", _batch(around, now // 2)
    if now < LARGEST_BATCH and around.goal.prompt_tokens > now and _has_buffers(around):
        yield f"micro-batch {now * 2}", _batch(around, now * 2)


def _batch(around: Around, size: int) -> Settings:
    logical = around.settings.get(Knob.LOGICAL_BATCH)
    grown = {Knob.LOGICAL_BATCH: size} if isinstance(logical, int) and logical < size else {}
    return {Knob.BATCH: None if size == DEFAULT_MICRO_BATCH else size, **grown}


def _has_buffers(around: Around) -> bool:
    """Whether buffers twice as large have room: none grows faster than its micro-batch."""
    if around.is_on_cpu or not around.option:
        return True
    return around.spare_bytes >= max(device.compute_bytes for device in around.option.devices)


def _cache(around: Around) -> Iterator[Step]:
    """The other of f16 and q8_0, within the floor of quality and what is free."""
    now = around.settings.get(Knob.KV_CACHE_TYPE) or "f16"
    if now == "f16" and _may_be_smaller(around):
        yield "cache q8_0", {Knob.KV_CACHE_TYPE: "q8_0", Knob.FLASH_ATTENTION: True}
    kept = max((device.kv_bytes for device in around.option.devices), default=0) if around.option else 0
    if now == "q8_0" and (around.is_on_cpu or around.spare_bytes >= kept * (_WIDER - 1)):
        away: Settings = {Knob.KV_CACHE_TYPE: None, Knob.VALUE_CACHE_TYPE: None, Knob.FLASH_ATTENTION: None}
        yield "cache f16", away


def _may_be_smaller(around: Around) -> bool:
    hand, floor = around.hand, around.goal.worst_perplexity_increase
    architecture = hand.pieces.blueprint.architecture
    small, usual = (cost_of(hand.quant, kind, kind, hand.parameters, architecture) for kind in ("Q8_0", "F16"))
    if floor is None:
        return is_equal_quality(small, usual)
    return small.perplexity_increase is not None and small.perplexity_increase <= floor


def _load_mode(around: Around) -> Iterator[Step]:
    """Weights mapped from their file, or read into memory of the program's own, which may have larger pages."""
    host = around.option.host if around.option else None
    if not around.uses_host or (host and host.fits is False):
        return
    if around.settings.get(Knob.LOAD_MODE) in (None, "mmap", "auto"):
        yield "weights read, not mapped", {Knob.LOAD_MODE: "none"}
    else:
        yield "weights mapped", {Knob.LOAD_MODE: "mmap"}


def _draft(around: Around) -> Iterator[Step]:
    hand = around.hand
    room = around.is_on_cpu or around.spare_bytes >= hand.draft_bytes * _DRAFT_OVER
    if hand.draft and room and Knob.SPECULATIVE not in around.settings:
        yield "with the draft model", {Knob.SPECULATIVE: hand.draft}


_STEPS: tuple[Callable[[Around], Iterator[Step]], ...] = (_threads, _draft, _micro_batch, _cache, _load_mode)
