"""A draft model beside the plan: a small model guesses a few tokens, and the large one checks them in one step.

What it gains hangs on how many guesses are right, which nobody knows before it was tried: so it is shown, with the
share from which on it gains anything, and never recommended.
"""

import msgspec

from unslow.facts.blueprint import Blueprint
from unslow.facts.knob import Knob
from unslow.think.hardware import Hardware
from unslow.think.memory.llama_cpp.need import memory_of
from unslow.think.memory.llama_cpp.settings import Settings
from unslow.think.physics.speculative import accepted_tokens, break_even
from unslow.think.plan.llama_cpp.options import Shown, speed_of
from unslow.think.plan.llama_cpp.placing import Placing
from unslow.think.plan.llama_cpp.point import Point
from unslow.think.plan.llama_cpp.points import Points
from unslow.think.plan.llama_cpp.price import Price, Pricing
from unslow.think.plan.llama_cpp.question import Draft, Question
from unslow.think.plan.report import ChangeShown, OptionShown

USUAL_ACCEPTANCE = 0.7
"""Of a draft model of the same family on ordinary text."""
_MOST_UNLIKE = 128
"""Tokens that a vocabulary may have more or fewer (SPEC_VOCAB_MAX_SIZE_DIFFERENCE in llama.cpp's speculative.cpp)."""
_SAME = {
    "tokenizer.ggml.model": "kind of tokenizer", "tokenizer.ggml.add_bos_token": "start of a text",
    "tokenizer.ggml.add_eos_token": "end of a text",
}  # fmt: skip
"""What else llama.cpp wants to be alike, where both files say it."""


def why_no_draft(model: Blueprint, draft: Blueprint) -> str:
    """Why llama.cpp would not start with this draft beside the model; empty where nothing speaks against it."""
    for key, name in _SAME.items():
        own, other = model.metadata.get(key), draft.metadata.get(key)
        if own is not None and other is not None and own != other:
            return f"its {name} is another ({other}, not {own})"
    own, other = _tokens(model), _tokens(draft)
    if own and other and abs(own - other) > _MOST_UNLIKE:
        return f"its vocabulary is another one, of {other:,} tokens and not {own:,}"
    return ""


def _tokens(plan: Blueprint) -> int:
    table = plan.by_name.get("token_embd.weight")
    return plan.vocabulary or (table.shape[-1] if table else 0)


def drafted_option(question: Question, best: Point, shown: Shown) -> tuple[OptionShown | None, str]:
    """The same goal with the draft beside it, and a word on what its speed hangs on, or why there is no such plan."""
    draft = question.draft
    if draft is None:
        return None, ""
    points = Points(question._replace(hardware=_beside(question, draft)))
    settings = best.found.settings
    point = points.at(best.variant, settings.key_type, settings.value_type, best.context)
    if point is None:
        return None, f"with the draft model {draft.name} beside it, nothing fits"
    price, needed = _price(question, draft, point)
    beside = Shown(points.question, shown.now, shown.before, shown.usual.threads)
    option = beside.option(point._replace(found=point.found._replace(price=price)))
    told = _hangs_on(draft, needed)
    return _with_draft(option, question, draft, point, price, told), f"with the draft model {draft.name}: {told}"


def _beside(question: Question, draft: Draft) -> Hardware:
    """The machine with the draft on its first GPU."""
    hardware = question.hardware
    if not hardware.rooms:
        return hardware
    asked = Settings(context=question.goal.context * question.goal.work.users, slots=question.goal.work.users)
    bytes_ = memory_of(draft.pieces.blueprint, asked._replace(outputs=asked.slots), (1.0,)).needs[0].total
    return hardware.holding(bytes_)


def _price(question: Question, draft: Draft, point: Point) -> tuple[Price, float | None]:
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


def _with_draft(
    option: OptionShown, question: Question, draft: Draft, point: Point, price: Price, told: str
) -> OptionShown:
    why = f"guesses {draft.tokens} tokens that are checked in one step"
    change = (ChangeShown(knob=Knob.SPECULATIVE.value, value=draft.file, why=why),) if draft.file else ()
    return msgspec.structs.replace(
        option,
        name=f"{option.name}, draft {draft.name}",
        speed=speed_of(question, point.found._replace(price=price)),
        changes=(*option.changes, *change),
        settings=(*option.settings, *change),
        risk="; ".join(filter(None, (option.risk, told))),
    )


def _hangs_on(draft: Draft, needed: float | None) -> str:
    """What the speed was taken for, and from where on it is one."""
    gains = f"it gains from {needed:.0%} on" if needed is not None else "it can't gain here"
    told = f"its speed assumes that {USUAL_ACCEPTANCE:.0%} of guesses are right, which hangs on the text"
    lacking = "" if draft.file else "; its file is not known, so the lines are without it"
    return f"{told}; {gains}: `unslow tune --draft`{lacking}"
