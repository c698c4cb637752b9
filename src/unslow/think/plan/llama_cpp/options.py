"""Points as the report has them: which knobs to change, what that gives, and what it costs."""

from collections.abc import Iterator

import msgspec

from unslow.catalog.learned_speed import spread_of
from unslow.facts.knob import Change, Knob
from unslow.facts.values import MIB
from unslow.think.fit.answers import shown_memory
from unslow.think.physics.terms import Interval
from unslow.think.plan.llama_cpp.placing import Placing, patterns
from unslow.think.plan.llama_cpp.points import DEFAULT_CACHE, DEFAULT_MICRO_BATCH, Point
from unslow.think.plan.llama_cpp.price import FoundSettings
from unslow.think.plan.llama_cpp.question import LlamaPlanQuestion, Variant
from unslow.think.plan.llama_cpp.search import USUAL_BATCH
from unslow.think.plan.quality import shown_quality
from unslow.think.plan.report import ChangeShown, OptionShown, SpeedShown, shown_speed
from unslow.think.speed.rows import CPU, DENSE, MOE, PARTIAL, PREFILL, SEVERAL

_LITTLE_ROOM = 512 * MIB  # a desktop and a browser take about so much of a GPU now and then
_NOTICED = 1.05  # less of a difference is not worth a word


class OptionWords:
    """The words of one question, against what is now; `threads` are the runtime's default."""

    def __init__(
        self, question: LlamaPlanQuestion, now: tuple[ChangeShown, ...], before: FoundSettings | None, threads: int
    ) -> None:
        self.question, self.now, self.before, self.threads = question, now, before, threads
        ollama = question.runtime == "Ollama"
        # What need not be said. The four slots of llama-server share one cache, which no number of slots with a cache
        # of their own is; Ollama's micro-batch depends on free memory (generationBatchForContext in server/sched.go)
        self._usual_slots = 1 if ollama and not now else None
        self._usual_micro_batch = None if ollama else DEFAULT_MICRO_BATCH

    def option(self, point: Point) -> OptionShown:
        """A point as the report has it."""
        found = point.found
        threads = f", {found.threads} thread{'s' * (found.threads > 1)}"
        made = self._settings(point)
        settings = tuple(ChangeShown(knob=one.knob.value, value=one.value, why=one.why) for one in made)
        margin = self.question.margin_bytes
        pairs = zip(found.memory.needs[:-1], self.question.hardware.rooms, strict=True)
        devices = tuple(shown_memory(n, r, r.context_bytes if n.total else 0, 0, margin) for n, r in pairs)
        left = min((device.free_bytes for device in devices if device.free_bytes is not None), default=_LITTLE_ROOM)
        risk = ""
        if found.memory.estimated:
            risk = "its buffers are estimated: if it does not load, keep one more layer on the CPU"
        elif left < _LITTLE_ROOM:
            risk = f"only {left / MIB:,.0f} MiB of VRAM remain free: loading fails if another program needs more"
        return OptionShown(
            name=name_of(point) + ("" if found.threads == self.threads else threads),
            quant=point.variant.quant,
            context=point.context,
            changes=self._changes(settings),
            settings=settings,
            speed=speed_of(self.question, found),
            quality=shown_quality(point.cost),
            devices=devices,
            host=shown_memory(found.memory.needs[-1], self.question.hardware.host_room),
            costs=tuple(self._costs(point)),
            risk=risk,
            speedup=self.before.price.request_s / found.price.request_s if self.before else None,
        )

    def _settings(self, point: Point) -> Iterator[Change]:
        """All that a start must be told."""
        variant, found, settings = point.variant, point.found, point.found.settings
        if not variant.given:
            yield Knob.MODEL_FILE.to(variant.file or variant.quant, f"the same model in {variant.quant}")
        yield Knob.CONTEXT_LENGTH.to(settings.context, "tokens for all conversations")
        if not settings.unified and settings.slots != self._usual_slots:
            yield Knob.PARALLEL.to(settings.slots, "conversations at a time")
        if settings.key_type != DEFAULT_CACHE:
            yield Knob.KV_CACHE_TYPE.to(settings.key_type.lower(), "a smaller cache leaves room for weights")
        if settings.value_type != settings.key_type:
            yield Knob.VALUE_CACHE_TYPE.to(settings.value_type.lower(), "")
        if settings.value_type != DEFAULT_CACHE:
            yield Knob.FLASH_ATTENTION.to(value=True, why="a quantized KV cache needs it")
        if not settings.cache_on_gpu:
            yield Knob.KV_OFFLOAD.to(value=False, why="the KV cache is in host memory")
        yield from _placement_changes(variant, found)
        if settings.micro_batch != self._usual_micro_batch:
            larger = settings.micro_batch > DEFAULT_MICRO_BATCH
            why = "prefill in larger batches" if larger else "smaller buffers leave room for weights"
            yield Knob.BATCH.to(settings.micro_batch, why)
        if settings.batch != USUAL_BATCH:
            yield Knob.LOGICAL_BATCH.to(settings.batch, "a micro-batch cannot exceed the batch")
        if found.threads != self.threads:
            yield Knob.THREADS.to(found.threads, "one per core")
        if self.question.hardware.pinned and found.placing.first_complete and any(found.split):
            yield Knob.LOAD_MODE.to("none", "for prefill the GPU copies weights from RAM, not from a mapped file")

    def _changes(self, wanted: tuple[ChangeShown, ...]) -> tuple[ChangeShown, ...]:
        """What differs from what is set now, with what it was; what is only set now is taken away."""
        was = {change.knob: change.value for change in self.now}
        turned = [one for one in wanted if one.knob not in was or was[one.knob] != one.value]
        gone = {knob: value for knob, value in was.items() if knob not in {change.knob for change in wanted}}
        return (
            *(msgspec.structs.replace(change, was=was.get(change.knob)) for change in turned),
            *(ChangeShown(knob=knob, value=None, was=gone[knob], why="no longer needed") for knob in gone),
        )

    def _costs(self, point: Point) -> Iterator[str]:
        settings, price = point.found.settings, point.found.price
        before = self.before.price if self.before else price
        if not point.variant.given:
            missing = "" if point.variant.at_hand else ", not on this machine"
            yield f"another file: {point.variant.quant}{missing}"
            yield from filter(None, [point.cost.weights.words])
        if settings.cache_types != DEFAULT_CACHE.lower() and point.cost.cache.words:
            yield point.cost.cache.words
        phases = {"prefill": (before.prompt_token_s, price.prompt_token_s), "decode": (before.step_s, price.step_s)}
        for phase, (was, now) in phases.items():
            if was * _NOTICED < now:
                yield f"{phase} is {now / was:.1f} times slower"
        if settings.micro_batch < DEFAULT_MICRO_BATCH:
            yield f"long prompts are processed {settings.micro_batch} tokens at a time"


def _placement_changes(variant: Variant, found: FoundSettings) -> Iterator[Change]:
    """Where everything goes, exactly: llama.cpp's own fit would leave a larger margin and move whole layers."""
    if not found.split:
        return
    settings, pieces = found.settings, variant.pieces
    used = [n for n, count in enumerate(found.split) if count]
    if len(used) == 1 < len(found.split):
        yield Knob.SPLIT_MODE.to("none", "one GPU holds it all")
        yield Knob.MAIN_GPU.to(used[0], "the one that does")
    if found.needs_no_fit:
        return
    yield Knob.FIT.to(value=False, why="the placement is set explicitly")
    yield Knob.GPU_LAYERS.to(settings.gpu_layers, "GPU layers, counting the output as one")
    if settings.experts_on_cpu:
        yield Knob.EXPERTS_ON_CPU.to(settings.experts_on_cpu, "experts of this many layers stay on the CPU")
    moved = patterns(found.placing, pieces)
    if moved:
        yield Knob.TENSOR_OVERRIDE.to(",".join(f"{p}=CPU" for p in moved), "matrices that stay on the CPU")
    if len(used) > 1:
        yield Knob.TENSOR_SPLIT.to(",".join(map(str, found.split)), "layers per GPU")


def name_of(point: Point) -> str:
    """A few words that tell it from others."""
    found, settings, placing = point.found, point.found.settings, point.found.placing
    used = sum(map(bool, found.split))
    words = [point.variant.quant, f"{point.context:,} tokens"]
    words.append(f"cache {settings.cache_types}" + ("" if settings.cache_on_gpu else " on the CPU"))
    if not used:
        words.append("on the CPU")
    elif placing.first_complete:
        parted = placing.first_complete - placing.whole
        what = "experts" if point.variant.pieces.is_sparse else "feed-forward"
        parts = [_layers(placing.whole)] if placing.whole else []
        parts += [f"the {what} of {_layers(parted)}"] if parted else []
        words.append(f"{' and '.join(parts)} on the CPU")
    elif len(found.split) == 1:
        words.append("all on the GPU")
    else:
        words.append("all on one GPU" if used == 1 else f"all on {used} GPUs")
    if settings.micro_batch != DEFAULT_MICRO_BATCH:
        words.append(f"micro-batch {settings.micro_batch}")
    return ", ".join(words)


def _layers(count: int) -> str:
    return f"{count} layer{'s' if count > 1 else ''}"


def speed_of(question: LlamaPlanQuestion, found: FoundSettings) -> SpeedShown:
    """The prediction with the ends between which four of five measurements lay."""
    backend = question.hardware.setting.backend if found.split else "cpu"
    group = spread_group(found.placing, found.split, sparse=question.given_variant.pieces.is_sparse)
    decode, prefill = spread_of(group, backend), spread_of(PREFILL, backend)
    price, work = found.price, question.goal.work
    rate, read = price.decode_tokens_per_s, price.prefill_tokens_per_s
    slow, fast = (
        work.prompt * price.prompt_token_s / reading + work.answer * price.step_s / writing
        for reading, writing in ((prefill.low, decode.low), (prefill.high, decode.high))
    )
    return shown_speed(
        Interval(rate * decode.low, rate, rate * decode.high),
        Interval(read * prefill.low, read, read * prefill.high),
        Interval(fast, price.request_s, slow),
        rate * work.users if work.users > 1 else None,
    )


def spread_group(placing: Placing, split: tuple[int, ...], *, sparse: bool) -> str:
    """The measurements by which such a placing's interval is known."""
    if not any(split):
        return CPU
    if placing.first_complete:
        return PARTIAL
    if sum(map(bool, split)) > 1:
        return SEVERAL
    return MOE if sparse else DENSE
