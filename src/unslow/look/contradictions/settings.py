"""A setting that was asked for and another that came of it."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Contradiction
from unslow.look.contradictions.stated import all_stated, stated, statement

_PADDING = 256  # llama.cpp rounds a context up to a multiple of this


class Same(NamedTuple):
    """A fact on which all sources must agree."""

    name: str
    say: Callable[[Any], str]
    meaning: str


_SAME: tuple[Same, ...] = (
    Same("kv_type_k", lambda t: f"keys are cached as {t}", "the runtime fell back to another type of cache"),
    Same("kv_type_v", lambda t: f"values are cached as {t}", "a quantised cache of values needs flash attention"),
    Same(
        "flash_attention",
        lambda on: f"flash attention is {'on' if on else 'off'}",
        "the backend has no such kernel for this model, or something else turned it off",
    ),
    Same("slots", lambda n: f"{n} slots", "the runtime chose another number of slots"),
    Same("threads", lambda n: f"{n} threads", "a limit of the machine, or a later setting, changed the threads"),
    Same("kv_unified", lambda on: f"one cache for all slots: {'yes' if on else 'no'}", ""),
    Same("load_mode", lambda mode: f"load mode {mode}", "the device can't load in this way"),
    Same("split_mode", lambda mode: f"split mode {mode}", "the runtime refused this way of splitting"),
)
_LETS_CHOOSE = ("auto",)


def setting_contradictions(sources: Sequence[tuple[str, Runtime]]) -> list[Contradiction]:
    """Everything that was asked for and came out differently."""
    found = [_disagreement(sources, same) for same in _SAME]
    return [c for c in (*found, _context([runtime for _, runtime in sources])) if c]


def _disagreement(sources: Sequence[tuple[str, Runtime]], same: Same) -> Contradiction | None:
    said = [(role, fact) for role, runtime in sources for fact in all_stated([runtime], same.name)]
    said = [(role, fact) for role, fact in said if fact.value not in _LETS_CHOOSE]
    if all(first.value == second.value for (_, first), (_, second) in pairwise(said)):
        return None
    statements = tuple(statement(fact, same.say, role) for role, fact in said)
    return Contradiction(about=same.name, statements=statements, meaning=same.meaning)


def _context(runtimes: Sequence[Runtime]) -> Contradiction | None:
    """Asked for against decided; either may be meant for one slot or for all of them."""
    asked, decided = stated(runtimes, "context_set"), stated(runtimes, "context_length")
    slots = stated(runtimes, "slots")
    if asked is None or decided is None:
        return None
    count = max(1, slots.value) if slots else 1
    per_slot = stated(runtimes, "context_per_slot")
    lengths = [decided.value, *([per_slot.value] if per_slot else [])]
    meant = {asked.value, asked.value * count, asked.value // count}
    if any(0 <= length - m < _PADDING * count for m in meant for length in lengths):
        return None
    return Contradiction(
        about="context_length",
        statements=(
            statement(asked, lambda n: f"a context of {n} tokens was asked for"),
            statement(decided, lambda n: f"the context is {n} tokens"),
        ),
        meaning="the runtime shrank the context to what fits or what the model allows, or another setting won",
    )
