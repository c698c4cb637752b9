"""What to measure around a plan: llama.cpp's own choice, the plan, the rest of its front, and one step from it."""

from collections.abc import Iterator
from typing import NamedTuple

from unslow.facts.knob import Knob
from unslow.think.plan.report import OptionShown, PlanReport
from unslow.think.tune.candidate import Around, Candidate, Hand, Settings, as_changes, as_settings
from unslow.think.tune.moved import moves_around
from unslow.think.tune.neighbours import steps_around

MOST = 16
"""More of them would share the time so that none is measured well."""
_EQUAL = 0.001
"""Of perplexity: what the plan calls equal too."""
DEFAULT = 0
OWN_CHOICE = "llama.cpp's own choice"


class Candidates(NamedTuple):
    """All of them, llama.cpp's own choice first, then by how much is expected of them."""

    all: tuple[Candidate, ...]
    plan: int | None
    """Which of them the plan recommends: it may be llama.cpp's own choice."""

    @property
    def references(self) -> tuple[int, ...]:
        """Those that every other is held against."""
        return (DEFAULT,) if self.plan in (None, DEFAULT) else (DEFAULT, self.plan or DEFAULT)


def candidates_of(plan: PlanReport, hand: Hand) -> Candidates:
    """What to measure, without doubles."""
    best = plan.options[plan.recommended] if plan.recommended is not None else None
    base = as_settings(best.settings) if best else _default(plan, best)
    around = Around(base, plan.goal, hand, best)
    found: dict[frozenset[tuple[str, object]], Candidate] = {}
    for candidate in _all(plan, best, around):
        found.setdefault(_key(candidate), candidate)
    every = list(found.values())[:MOST]
    chosen = _key(Candidate("", "plan", best.settings)) if best else None
    at = next((n for n, candidate in enumerate(every) if _key(candidate) == chosen), None)
    return Candidates(tuple(every), at)


def _all(plan: PlanReport, best: OptionShown | None, around: Around) -> Iterator[Candidate]:
    usual, base = _default(plan, best), around.settings
    own = None if plan.of_running else plan.current
    same = best if best and base == usual else own
    yield Candidate(OWN_CHOICE, "default", as_changes(usual), same.speed if same else None)
    if best:
        yield Candidate(f"the plan: {best.name}", "plan", best.settings, best.speed)
    for option in _front(plan, best):
        yield Candidate(option.name, "option", option.settings, option.speed)
    for words, changes in (*steps_around(around), *moves_around(around)):
        yield Candidate(f"the plan, {words}", "neighbour", as_changes(around.with_settings(changes)))


def _default(plan: PlanReport, best: OptionShown | None) -> Settings:
    """Only what the work itself asks for: the same context and slots for all, or it would be no comparison."""
    planned = as_settings(best.settings) if best else {}
    users = max(1, plan.goal.users)
    slots = planned.get(Knob.PARALLEL) or (users if users > 1 else None)
    context = planned.get(Knob.CONTEXT_LENGTH) or plan.goal.context * users
    return {Knob.CONTEXT_LENGTH: context, **({Knob.PARALLEL: slots} if slots else {})}


def _front(plan: PlanReport, best: OptionShown | None) -> list[OptionShown]:
    """The other options of the same context and quality with a file that is here, the fastest first."""
    others = [option for option in plan.options if option is not best and _serves(option, plan, best)]
    return sorted(others, key=lambda option: option.speed.request_s.mid if option.speed else float("inf"))


def _serves(option: OptionShown, plan: PlanReport, best: OptionShown | None) -> bool:
    context = best.context if best else plan.goal.context
    file = as_settings(option.settings).get(Knob.MODEL_FILE)
    if option.context != context or (file is not None and not str(file).lower().endswith(".gguf")):
        return False
    increase, floor = option.quality.perplexity_increase, plan.goal.worst_perplexity_increase
    if floor is not None:
        return increase is not None and increase <= floor
    known = best.quality.perplexity_increase if best else None
    return increase is not None and known is not None and increase <= known + _EQUAL


def _key(candidate: Candidate) -> frozenset[tuple[str, object]]:
    """What two that are the same have in common."""
    return frozenset((change.knob, change.value) for change in candidate.settings if change.value is not None)
