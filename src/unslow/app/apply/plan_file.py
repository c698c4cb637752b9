"""The plan to apply: from a file, from standard input, or made now; and the option of it that is wanted."""

from unslow.app.plan.answer import planned
from unslow.app.plan.saved import HINT, read_saved
from unslow.commands.plan import PlanRequest
from unslow.facts.errors import UserError
from unslow.facts.knob import Change, Knob
from unslow.look.system import System
from unslow.think.plan.report import OptionShown, PlanReport


def read_plan(system: System, source: str | PlanReport | None, target: str | None = None) -> PlanReport:
    """The plan itself, that of a file or of `-`, or a fresh one for what runs; UserError where it is none."""
    if isinstance(source, PlanReport):
        return source
    if source is None:
        return planned(system, PlanRequest(model=target))
    return read_saved(source)


def chosen_option(plan: PlanReport, wanted: str | None) -> OptionShown:
    """The recommended option, the one of a number (from 0, as in the JSON), or the one with a word in its name."""
    if not plan.options:
        raise UserError(f"the plan has nothing to apply: {plan.reason or plan.verdict}", plan.hint or HINT)
    if wanted is None:
        return _recommended(plan)
    names = ", ".join(f"{number}: {option.name}" for number, option in enumerate(plan.options))
    if wanted.isdecimal() and len(wanted) <= len(str(len(plan.options))):
        if int(wanted) < len(plan.options):
            return plan.options[int(wanted)]
        raise UserError(f"the plan has no option {wanted}", names)
    fitting = [option for option in plan.options if wanted.casefold() in option.name.casefold()]
    if len(fitting) != 1:
        raise UserError(f"{len(fitting)} options of the plan are called {wanted!r}", names)
    return fitting[0]


def _recommended(plan: PlanReport) -> OptionShown:
    number = plan.recommended
    if plan.verdict == "already_best" and plan.of_running:
        raise UserError("nothing is better than what runs, by the plan", "to take another option, name it: --option N")
    if number is None or not 0 <= number < len(plan.options):
        raise UserError(f"the plan recommends nothing: {plan.reason or plan.verdict}", "name an option: --option N")
    return plan.options[number]


def changes_of(plan: PlanReport, option: OptionShown, *, anew: bool = False) -> list[Change]:
    """What a server has to be told; UserError where that is nothing, or something that this version does not know.

    A plan that was made while nothing ran differs from the defaults, not from what runs: then every setting counts, as
    it does for a server that is started anew.
    """
    shown = option.changes if plan.of_running and not anew else option.settings or option.changes
    known = {knob.value for knob in Knob}
    if strange := [change.knob for change in shown if change.knob not in known]:
        raise UserError(f"the plan changes {', '.join(strange)}, which this version does not know", HINT)
    if not shown:
        raise UserError("that option changes nothing: it is what runs", "name another: --option N")
    return [Change(Knob(change.knob), change.value, change.why) for change in shown]
