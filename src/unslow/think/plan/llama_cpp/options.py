"""Points as the report has them: what to change, what that gives, and what it costs."""

from unslow.catalog.learned_speed import spread_of
from unslow.facts.units import MIB
from unslow.think.fit.report import MemoryShown
from unslow.think.fit.shown import Parts, shown_memory
from unslow.think.memory.llama_cpp.need import Need
from unslow.think.plan.llama_cpp.changes import Usual, changes_of, settings_of
from unslow.think.plan.llama_cpp.found import Found
from unslow.think.plan.llama_cpp.point import DEFAULT_CACHE, DEFAULT_MICRO_BATCH, Point
from unslow.think.plan.llama_cpp.price import Price
from unslow.think.plan.llama_cpp.question import Question
from unslow.think.plan.report import ChangeShown, OptionShown, QualityShown, SpeedShown
from unslow.think.speed.group import CPU, DENSE, MOE, PARTIAL, PREFILL, SEVERAL
from unslow.think.speed.report import RateShown

_LITTLE_ROOM = 512 * MIB
"""A desktop and a browser take about so much of a GPU now and then."""
_NOTICED = 1.05
"""Less of a difference is not worth a word."""


class Shown:
    """The words of one question, against what is now."""

    def __init__(self, question: Question, now: tuple[ChangeShown, ...], before: Found | None, threads: int) -> None:
        self.question, self.now, self.before = question, now, before
        ollama = question.runtime == "Ollama"
        self.usual = Usual(
            threads,
            slots=1 if ollama and not now else None,  # of llama-server four that share one cache
            micro_batch=None if ollama else DEFAULT_MICRO_BATCH,  # server/sched.go, generationBatchForContext
            pinned=question.hardware.pinned,
        )

    def option(self, point: Point) -> OptionShown:
        """A point as the report has it."""
        price, found = point.found.price, point.found
        settings = settings_of(point, self.usual)
        return OptionShown(
            name=name_of(point) + self._threads(found),
            quant=point.variant.quant,
            context=point.context,
            changes=changes_of(point, self.now, self.usual),
            settings=settings,
            speed=speed_of(self.question, found),
            quality=quality_of(point),
            devices=self._devices(found),
            host=self._host(found),
            costs=tuple(self._costs(point)),
            risk=self._risk(point),
            speedup=self.before.price.request_s / price.request_s if self.before else None,
        )

    def _threads(self, found: Found) -> str:
        """How many there are, where that is not what the runtime takes by itself."""
        return "" if found.threads == self.usual.threads else f", {found.threads} thread{'s' * (found.threads > 1)}"

    def _devices(self, found: Found) -> tuple[MemoryShown, ...]:
        pairs = zip(found.memory.needs[:-1], self.question.hardware.rooms, strict=True)
        margin = self.question.margin_bytes
        return tuple(shown_memory(r.name, _parts(n), r, r.context_bytes if n.total else 0, 0, margin) for n, r in pairs)

    def _host(self, found: Found) -> MemoryShown:
        room = self.question.hardware.host_room
        return shown_memory(room.name if room else "host", _parts(found.memory.needs[-1]), room)

    def _costs(self, point: Point) -> list[str]:
        """What gets worse against what is now."""
        costs: list[str] = []
        before = self.before
        if not point.variant.given:
            costs.append(
                f"another file: {point.variant.quant}" + ("" if point.variant.at_hand else ", not on this machine")
            )
            costs += filter(None, [point.cost.weights.words])
        if point.found.settings.cache_types != DEFAULT_CACHE.lower() and point.cost.cache.words:
            costs.append(point.cost.cache.words)
        if before and before.price.prompt_token_s * _NOTICED < point.found.price.prompt_token_s:
            slower = point.found.price.prompt_token_s / before.price.prompt_token_s
            costs.append(f"prompts are read {slower:.1f} times slower")
        if before and before.price.step_s * _NOTICED < point.found.price.step_s:
            slower = point.found.price.step_s / before.price.step_s
            costs.append(f"answers are {slower:.1f} times slower")
        if point.found.settings.micro_batch < DEFAULT_MICRO_BATCH:
            costs.append(f"long prompts are read in pieces of {point.found.settings.micro_batch} tokens")
        return costs

    def _risk(self, point: Point) -> str:
        """What may go wrong."""
        left = [shown.free_bytes for shown in self._devices(point.found) if shown.free_bytes is not None]
        if point.found.memory.estimated:
            return "its buffers are estimated: if it does not load, leave a layer more to the host"
        if left and min(left) < _LITTLE_ROOM:
            free = min(left) / MIB
            return f"only {free:,.0f} MiB stay free: a program that takes more of the GPU's memory makes it fail"
        return ""


def name_of(point: Point) -> str:
    """A few words that tell it from others."""
    found, words = point.found, [point.variant.quant]
    settings, placing = found.settings, found.placing
    words.append(f"{point.context:,} tokens")
    words.append(f"cache {settings.cache_types}" + ("" if settings.cache_on_gpu else " with the host"))
    if not found.split or not any(found.split):
        words.append("on the CPU")
    elif not placing.first_complete:
        words.append(_on_gpus(found))
    else:
        words.append(_with_host(point))
    if settings.micro_batch != DEFAULT_MICRO_BATCH:
        words.append(f"micro-batch {settings.micro_batch}")
    return ", ".join(words)


def _on_gpus(found: Found) -> str:
    if len(found.split) == 1:
        return "all on the GPU"
    used = sum(1 for count in found.split if count)
    return "all on one GPU" if used == 1 else f"all on {used} GPUs"


def _with_host(point: Point) -> str:
    placing, pieces = point.found.placing, point.variant.pieces
    parted = placing.first_complete - placing.whole
    what = "experts" if pieces.is_sparse else "feed-forward"
    parts = [_layers(placing.whole)] if placing.whole else []
    if parted:
        parts.append(f"the {what} of {_layers(parted)}")
    return f"{' and '.join(parts)} with the host"


def _layers(count: int) -> str:
    return f"{count} layer{'s' if count > 1 else ''}"


def speed_of(question: Question, found: Found) -> SpeedShown:
    """The prediction with the ends between which four of five measurements lay."""
    backend = question.hardware.setting.backend if found.split else "cpu"
    decode = spread_of(_group(question, found), backend)
    prefill = spread_of(PREFILL, backend)
    price, users = found.price, question.goal.work.users
    request = _seconds(question, price, decode.low, prefill.low), _seconds(question, price, decode.high, prefill.high)
    return SpeedShown(
        decode_tokens_per_s=_rate(price.decode_tokens_per_s, decode.low, decode.high),
        prefill_tokens_per_s=_rate(price.prefill_tokens_per_s, prefill.low, prefill.high),
        request_s=RateShown(low=request[1], mid=price.request_s, high=request[0]),
        together_tokens_per_s=price.decode_tokens_per_s * users if users > 1 else None,
    )


def _seconds(question: Question, price: Price, decode: float, prefill: float) -> float:
    work = question.goal.work
    return work.prompt * price.prompt_token_s / prefill + work.answer * price.step_s / decode


def _rate(mid: float, low: float, high: float) -> RateShown:
    return RateShown(low=mid * low, mid=mid, high=mid * high)


def _group(question: Question, found: Found) -> str:
    if not found.split or not any(found.split):
        return CPU
    if found.placing.first_complete:
        return PARTIAL
    if sum(1 for count in found.split if count) > 1:
        return SEVERAL
    return MOE if question.given.pieces.is_sparse else DENSE


def quality_of(point: Point) -> QualityShown:
    """What it costs in answers."""
    cost = point.cost
    return QualityShown(
        perplexity_increase=cost.perplexity_increase,
        kl_divergence=cost.kl_divergence,
        words=cost.words,
        sources=cost.sources,
    )


def _parts(need: Need) -> Parts:
    return Parts(need.weights, need.cache, need.compute)
