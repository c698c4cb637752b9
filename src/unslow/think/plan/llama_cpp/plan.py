"""The answer for llama.cpp: the front, the recommendation, with a draft model or without GPUs where that is better."""

import math
from collections.abc import Iterator, Sequence

import msgspec

from unslow.facts.knob import Knob
from unslow.facts.model import Blueprint
from unslow.facts.values import GIB
from unslow.think.memory.llama_cpp.hyperparameters import Settings
from unslow.think.memory.llama_cpp.need import memory_of
from unslow.think.physics.speculative import accepted_tokens, break_even
from unslow.think.plan.llama_cpp.choose import Choice, choose, is_good_enough, slowest
from unslow.think.plan.llama_cpp.options import OptionWords, name_of, speed_of
from unslow.think.plan.llama_cpp.placing import Placing
from unslow.think.plan.llama_cpp.points import Point, Points, valued_placing
from unslow.think.plan.llama_cpp.price import Price, Pricing
from unslow.think.plan.llama_cpp.question import Draft, LlamaPlanQuestion
from unslow.think.plan.llama_cpp.rejected import rejected_options
from unslow.think.plan.pareto_front import FrontAndChoice
from unslow.think.plan.report import ChangeShown, OptionShown, SearchedShown

_MOST_SHOWN = 8
_NONE = ChangeShown(knob=Knob.DEVICE.value, value="none", why="the GPUs cannot even hold its buffers")
USUAL_ACCEPTANCE = 0.7  # of a draft model of the same family on ordinary text
_MOST_UNLIKE = 128
"""Tokens that a vocabulary may have more or fewer (SPEC_VOCAB_MAX_SIZE_DIFFERENCE in llama.cpp's speculative.cpp)."""
_SAME = {
    "tokenizer.ggml.model": "tokenizer type", "tokenizer.ggml.add_bos_token": "start-of-text token",
    "tokenizer.ggml.add_eos_token": "end-of-text token",
}  # fmt: skip
"""What else llama.cpp wants to be alike, where both files say it."""


def plan_with_or_without_gpus(
    question: LlamaPlanQuestion, now: tuple[ChangeShown, ...], by_itself: int, hindered: float = 1.0
) -> FrontAndChoice:
    """The plan, on processors alone where nothing at all fits with GPUs."""
    # What runs beside full GPUs is not priced: some of it is where the driver spilled it
    hardware = question.hardware
    full = bool(hardware.rooms) and max(hardware.free_bytes) <= question.margin_bytes
    with_gpus = None if full else plan_llama_cpp(question, now, by_itself, hindered)
    if with_gpus and (with_gpus.options or not hardware.rooms):
        return with_gpus
    without = plan_llama_cpp(question._replace(hardware=hardware.without_gpus(), current=None), now, by_itself)
    if with_gpus and not without.options:  # which says what there is of both
        return with_gpus
    is_new = _NONE.value not in [change.value for change in now if change.knob == Knob.DEVICE]
    options = []
    for option in without.options:
        others = [change for change in option.changes if change.knob != Knob.DEVICE]
        changes, settings = (*([_NONE] if is_new else []), *others), (_NONE, *option.settings)
        name = f"{option.name}, no GPU"
        options.append(msgspec.structs.replace(option, changes=changes, settings=settings, speedup=None, name=name))
    return without._replace(options=tuple(options), current=None)


def plan_llama_cpp(
    question: LlamaPlanQuestion, now: tuple[ChangeShown, ...], by_itself: int, hindered: float = 1.0
) -> FrontAndChoice:
    """The plan, with what is now; `by_itself` is how many threads llama.cpp uses by default.

    What runs takes `hindered` times as long as by itself: its threads are more than it has time of processors for.
    """
    if not question.abilities.unmapped:
        question = question._replace(hardware=question.hardware._replace(pinned=False))
    points = Points(question)
    chosen = choose(points)
    before = _point_now(points, hindered)
    shown = OptionWords(question, now, before.found if before else None, by_itself)
    current = shown.option(before) if before else None
    if current and not question.current:
        current = msgspec.structs.replace(current, name=f"{question.runtime} default: {current.name}")
    counted, exact = points.counted, chosen.best is None or chosen.best.proved
    searched = SearchedShown(
        combinations=counted.combinations, priced=counted.priced, laid_out=counted.laid_out, exact=exact
    )
    if chosen.best is None:
        reason, hint = _why_not(points, chosen)
        few = _distinct_points(sorted(chosen.front, key=lambda point: point.request_s))[:_MOST_SHOWN]
        options = tuple(shown.option(point) for point in few)
        return FrontAndChoice(options, None, (), searched, (), reason, hint, current)
    # A front that can be read: the best, and the others from the quickest on
    best = chosen.best
    others = sorted((point for point in chosen.front if point is not best), key=lambda point: point.request_s)
    front = _distinct_points([best, *others])[:_MOST_SHOWN]
    front.sort(key=lambda point: (point.context, point.request_s))
    names = {name_of(point) for point in front}
    left_out = tuple(point for point in (*chosen.front, *chosen.others) if name_of(point) not in names)
    drafted, told = drafted_option(question, best, shown)
    return FrontAndChoice(
        (*(shown.option(point) for point in front), *((drafted,) if drafted else ())),
        next(n for n, point in enumerate(front) if point is best),
        rejected_options(points, best, left_out),
        searched,
        (*_notes(points, best, front), *((told,) if told else ())),
        current=current,
    )


def _point_now(points: Points, hindered: float) -> Point | None:
    """What runs now; where nothing does, what llama.cpp would do by itself."""
    question, current, given = points.question, points.question.current, points.question.given_variant
    if current is None:
        found = points.by_itself(question.goal.context)
    else:
        placing = Placing(current.whole, current.apart)
        split = current.split(len(given.pieces.layers), len(question.hardware.rooms))
        found = valued_placing(points.search(given), current.settings, placing, split)
        if found:
            now = Pricing(given.pieces, question.hardware._replace(pinned=current.pinned), question.goal.work)
            price = now.price(current.settings, found.placing, split, current.threads)
            price = Price(*(seconds * hindered for seconds in price))
            found = found._replace(threads=current.threads, price=price)
    return points.point(given, found, found.settings.slot_context) if found else None


def _distinct_points(points: Sequence[Point]) -> list[Point]:
    """The first of those that a reader would take for the same: by their names, or by all that a front is made of."""
    named = list({name_of(point): point for point in reversed(points)}.values())[::-1]
    shown = {(p.variant.quant, p.context, p.increase, f"{p.request_s:.3g}"): p for p in reversed(named)}
    return list(shown.values())[::-1]


def _notes(points: Points, best: Point, front: Sequence[Point]) -> Iterator[str]:
    goal = points.question.goal
    if goal.aim == "context" and goal.least_tokens_per_s:
        full = f"{slowest(best, points):.3g} tok/s when the {best.context:,} tokens are nearly full"
        yield f"the floor of {goal.least_tokens_per_s:g} tok/s holds there too: {full}"
    if points.unguarded:
        yield "no option keeps every other workload within this context as fast as now"
    yield from dict.fromkeys(point.cost.cache.words for point in front if point.cost.is_measured)


def _why_not(points: Points, chosen: Choice) -> tuple[str, str]:
    goal, question = points.question.goal, points.question
    if not chosen.front and not chosen.others:
        hint = "use a smaller quant or model, or a shorter context; `unslow fit` shows sizes"
        rooms, host = question.hardware.rooms, question.hardware.host_room
        on_gpus, gpus = sum(room.usable_bytes for room in rooms) / GIB, "GPUs" if len(rooms) > 1 else "the GPU"
        parts = [f"{on_gpus:.1f} GiB of {gpus}"] if rooms else []
        parts += [f"{host.usable_bytes / GIB:.1f} GiB of host memory"] if host else []
        return f"nothing fits in {' and '.join(parts) or 'this memory'}", hint
    every = [p for p in (*chosen.front, *chosen.others) if p.variant.at_hand]
    if not any(p.variant.given for p in every):
        finest = min((*chosen.front, *chosen.others), key=lambda p: p.increase).variant.quant
        hint = f"{finest} does, at lower quality: --quant {finest}"
        return f"{question.given_variant.quant} does not fit with this context", hint
    good = [p for p in every if is_good_enough(p, goal, points)]
    quickest = max((p.found.price.decode_tokens_per_s for p in good), default=0.0)
    if good and goal.least_tokens_per_s:
        what = "no available option" if goal.aim == "quality" else "no option of this quality"
        where = " with a full context" if goal.aim == "context" else ""
        told = f"{what} reaches {goal.least_tokens_per_s:g} tok/s{where}: the fastest gives {quickest:.3g}"
        hint = "lower --least-speed" + _coarser_words(points, every, quickest)
        return f"{told} for this workload", hint
    hint = "raise --worst-perplexity, or use a larger quant"
    if goal.worst_perplexity_increase is None:
        return f"{question.given_variant.quant} fits with this context only with a KV cache that costs quality", hint
    return "no option meets the quality floor", hint


def _coarser_words(points: Points, every: Sequence[Point], quickest: float) -> str:
    """That less quality would be quick enough, where it would."""
    goal = points.question.goal
    least = goal.least_tokens_per_s or 0.0
    quick = [p for p in every if p.context >= goal.context and slowest(p, points) >= least > quickest]
    if not quick:
        return ""
    worse = min(point.increase for point in quick)
    return f", or allow less quality: --worst-perplexity {math.ceil(worse * 1000) / 10:g}%"


def drafted_option(question: LlamaPlanQuestion, best: Point, shown: OptionWords) -> tuple[OptionShown | None, str]:
    """The same goal with the draft beside it, and a word on what its speed hangs on, or why there is no such plan."""
    # Its gain depends on the acceptance rate, which is unknown before a trial: so it is shown, with the share from
    # which on it gains anything, and never recommended
    draft = question.draft
    if draft is None:
        return None, ""
    hardware, users, settings = question.hardware, question.goal.work.users, best.found.settings
    if hardware.rooms:
        asked = Settings(context=question.goal.context * users, slots=users, outputs=users)
        hardware = hardware.holding(memory_of(draft.pieces.blueprint, asked, (1.0,)).needs[0].total)
    points = Points(question._replace(hardware=hardware))
    point = points.at(best.variant, settings.key_type, settings.value_type, best.context)
    if point is None:
        return None, f"nothing fits together with the draft model {draft.name}"
    price, needed = _price(question, draft, point)
    beside = OptionWords(points.question, shown.now, shown.before, shown.threads)
    option = beside.option(point._replace(found=point.found._replace(price=price)))
    # The assumed acceptance rate, and the one from which it helps
    gains = f"it helps from {needed:.0%} on" if needed is not None else "it cannot help here"
    told = f"its speed assumes an acceptance rate of {USUAL_ACCEPTANCE:.0%}, which depends on the text"
    lacking = "" if draft.file else "; its file is unknown, so the commands do not include it"
    told = f"{told}; {gains}: `unslow tune --draft`{lacking}"
    why = f"drafts {draft.tokens} tokens, verified in one step"
    change = (ChangeShown(knob=Knob.SPECULATIVE.value, value=draft.file, why=why),) if draft.file else ()
    drafted = msgspec.structs.replace(
        option,
        name=f"{option.name}, draft {draft.name}",
        speed=speed_of(question, point.found._replace(price=price)),
        changes=(*option.changes, *change),
        settings=(*option.settings, *change),
        risk="; ".join(filter(None, (option.risk, told))),
    )
    return drafted, f"with the draft model {draft.name}: {told}"


def _price(question: LlamaPlanQuestion, draft: Draft, point: Point) -> tuple[Price, float | None]:
    """What a token takes at the usual share of right guesses, and the share from which on it gains."""
    found, hardware, work = point.found, question.hardware, question.goal.work
    check = Pricing(point.variant.pieces, hardware, work, checked=draft.tokens + 1)
    check_s = check.price(found.settings, found.placing, found.split, found.threads).step_s
    small = Pricing(draft.pieces, hardware, work)
    layers = len(draft.pieces.layers)
    place, split = (Placing(), (layers + 1, *(0,) * (len(found.split) - 1))) if found.split else (Placing(layers), ())
    own = small.price(Settings(context=found.settings.context, flash_attention=True), place, split, found.threads)
    step = (check_s + draft.tokens * own.step_s) / accepted_tokens(draft.tokens, USUAL_ACCEPTANCE)
    prompt = found.price.prompt_token_s + own.prompt_token_s
    price = Price(step, prompt, work.prompt * prompt + work.answer * step)
    return price, break_even(draft.tokens, check_s, own.step_s, found.price.step_s)


def why_no_draft(model: Blueprint, draft: Blueprint) -> str:
    """Why llama.cpp would not start with this draft beside the model; empty where nothing speaks against it."""
    for key, name in _SAME.items():
        own, other = model.metadata.get(key), draft.metadata.get(key)
        if own is not None and other is not None and own != other:
            return f"its {name} differs ({other}, not {own})"
    own, other = (
        plan.vocabulary or (table.shape[-1] if (table := plan.by_name.get("token_embd.weight")) else 0)
        for plan in (model, draft)
    )
    if own and other and abs(own - other) > _MOST_UNLIKE:
        return f"its vocabulary differs ({other:,} tokens, not {own:,})"
    return ""
