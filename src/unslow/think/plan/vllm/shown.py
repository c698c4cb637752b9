"""A point of the search as the report shows it: settings by knob, speed, memory, what it costs."""

from unslow.facts.knob import Knob, Setting
from unslow.facts.units import GIB
from unslow.think.fit.report import MemoryShown
from unslow.think.fit.shown import Parts, shown_memory
from unslow.think.physics.interval import Interval
from unslow.think.plan.hf_quality import hf_quality
from unslow.think.plan.report import ChangeShown, OptionShown, QualityShown, SpeedShown
from unslow.think.plan.vllm.memory import Pool, freest
from unslow.think.plan.vllm.question import Choice, Question
from unslow.think.plan.vllm.search import Point
from unslow.think.speed.report import RateShown

_TIGHT = 0.95
"""A share from which on little is left for what is not counted, such as another program's start."""


def shown(question: Question, point: Point, before: Point | None = None) -> OptionShown:
    """The option; `before` is what runs now."""
    choice, served = point.choice, point.served
    was = dict(settings_of(question, question.now))
    set_ = [*settings_of(question, choice), *_cards(question, choice)]
    changes = tuple(
        ChangeShown(knob=knob, value=value, was=was.get(knob), why=_why(question, point, knob))
        for knob, value in set_
        if value != was.get(knob)
    )
    return OptionShown(
        name=name_of(question, choice),
        quant=question.checkpoints[choice.checkpoint].quant,
        context=choice.context,
        changes=changes,
        settings=tuple(ChangeShown(knob=knob, value=value, was=was.get(knob)) for knob, value in set_),
        speed=SpeedShown(
            decode_tokens_per_s=rate(served.decode),
            prefill_tokens_per_s=rate(served.prefill),
            request_s=rate(served.request_s),
            together_tokens_per_s=served.decode.mid * served.at_once if question.goal.users > 1 else None,
        ),
        quality=quality(question, choice),
        devices=memory(question, choice),
        costs=costs(question, point, before),
        risk=risk(question, choice),
        speedup=before.served.request_s.mid / served.request_s.mid if before else None,
    )


def settings_of(question: Question, choice: Choice) -> list[tuple[str, Setting]]:
    """Every knob with its value."""
    of = question.checkpoints[choice.checkpoint]
    found: list[tuple[str, Setting]] = [
        (Knob.MEMORY_SHARE.value, choice.share),
        (Knob.CONTEXT_LENGTH.value, choice.context),
        (Knob.PARALLEL.value, choice.sequences),
        (Knob.BATCH.value, choice.batched),
        (Knob.KV_CACHE_TYPE.value, choice.kv),
        (Knob.GRAPHS.value, not choice.eager),
        (Knob.SPLIT_MODE.value, f"layer {choice.pipeline}" if choice.pipeline > 1 else choice.tensor),
    ]
    if question.offloaded_bytes:
        found.append((Knob.GPU_LAYERS.value, None if choice is question.current else -1))
    if of.path:
        found.append((Knob.MODEL_FILE.value, of.path))
    if of.packed_at_load:
        found.append((Knob.QUANT_KERNEL.value, "fp8"))
    return found


def _cards(question: Question, choice: Choice) -> list[tuple[str, Setting]]:
    """Which cards, where they are not the first ones: those that have the most free."""
    chosen = freest(question, choice.cards)
    if chosen == list(question.hardware.rooms[: choice.cards]):
        return []
    numbers = [n for n, room in enumerate(question.hardware.rooms) if any(room is one for one in chosen)]
    return [(Knob.DEVICE.value, ",".join(map(str, numbers[: choice.cards])))]


def name_of(question: Question, choice: Choice) -> str:
    """A few words: the format, the cards, the length, the share, and what else is not as usual."""
    of = question.checkpoints[choice.checkpoint]
    cards = f"{choice.cards} cards {'in a row' if choice.pipeline > 1 else 'together'}, " if choice.cards > 1 else ""
    cache = "" if choice.kv == "auto" else f", {choice.kv} cache"
    eager, usual = ", eager" if choice.eager else "", question.default()
    few = f", {choice.sequences} at once" if choice.sequences != usual.sequences else ""
    batches = f", batches of {choice.batched:,}" if choice.batched != usual.batched else ""
    return f"{of.quant}, {cards}{choice.context:,} tokens{cache}{few}{batches}{eager}, {choice.share:.0%} of memory"


def rate(interval: Interval) -> RateShown:
    """As the report has it."""
    return RateShown(low=interval.low, mid=interval.mid, high=interval.high)


def quality(question: Question, choice: Choice) -> QualityShown:
    """What the weights and the cache cost in answers, as published."""
    of = question.checkpoints[choice.checkpoint]
    return hf_quality(of.quant, of.types, choice.kv, question.parameters, question.architecture)


def memory(question: Question, choice: Choice) -> tuple[MemoryShown, ...]:
    """What each card holds when the server has started."""
    return tuple(
        shown_memory(room.name, Parts(h.weights_bytes, h.kv_bytes, h.compute_bytes), room, h.other_bytes)
        for room, h in zip(freest(question, choice.cards), Pool(question).held(choice), strict=True)
    )


def costs(question: Question, point: Point, before: Point | None) -> tuple[str, ...]:
    """What it gives up against what runs now, and what it serves."""
    found = []
    served, users = point.served, question.goal.users
    if served.at_once < users:
        found.append(f"only {served.at_once} of {users} conversations have room at once: the others wait")
    if not served.keeps and question.goal.kept_tokens:
        found.append(f"the {question.goal.kept_tokens:,} tokens of before are read again with every question")
    if before is None:
        return tuple(found)
    if point.choice.context < before.choice.context:
        found.append(f"no request longer than {point.choice.context:,} tokens, where it was {before.choice.context:,}")
    if point.choice.sequences < before.choice.sequences:
        found.append(f"at most {point.choice.sequences} requests at once, where it was {before.choice.sequences}")
    if point.worth.cache_bits < before.worth.cache_bits:
        found.append("keys and values with 8 bits instead of 16")
    if point.worth.left < before.worth.left:
        more = (before.worth.left - point.worth.left) * question.card_bytes / GIB
        found.append(f"{more:.1f} GiB more of GPU memory")
    return tuple(found)


def risk(question: Question, choice: Choice) -> str:
    """What may go wrong."""
    found = []
    if choice.share >= _TIGHT:
        found.append("little memory stays free: start nothing else on the GPU")
    if choice.kv.startswith("fp8"):
        found.append("scales of 1.0 unless the checkpoint brings its own: compare answers before you trust it")
    if question.checkpoints[choice.checkpoint].packed_at_load:
        found.append("the weights are rounded while they load: compare answers before you trust it")
    return "; ".join(found)


def _why(question: Question, point: Point, knob: str) -> str:
    """Why one knob is turned."""
    choice = point.choice
    words = {
        Knob.MEMORY_SHARE.value: "as much as the cards have free, or as the conversations need",
        Knob.CONTEXT_LENGTH.value: f"the cache has room for one request of {choice.context:,} tokens",
        Knob.PARALLEL.value: f"for {question.goal.users} at a time; fewer places need less memory for sampling",
        Knob.BATCH.value: "prompt tokens of one step: more read long prompts faster and take more memory",
        Knob.KV_CACHE_TYPE.value: "half the bytes of keys and values" if choice.kv.startswith("fp8") else "full bytes",
        Knob.GRAPHS.value: "launches one by one, for the memory of graphs" if choice.eager else "recorded launches",
        Knob.SPLIT_MODE.value: f"the work of a token on {choice.cards} cards",
        Knob.DEVICE.value: "others hold less of these cards",
        Knob.GPU_LAYERS.value: "weights on the host come over PCIe with every token",
    }
    return words.get(knob, "")
