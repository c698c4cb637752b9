"""The plan to apply: from a file, from standard input, or made now; and the option of it that is wanted."""

import sys
from pathlib import Path

import msgspec

from unslow.app.plan.answer import planned
from unslow.app.plan.request import PlanRequest
from unslow.facts.errors import UserError
from unslow.facts.knob import Change, Knob
from unslow.look.system import System
from unslow.think.plan.report import SCHEMA, OptionShown, PlanReport
from unslow.think.tune.candidates import OWN_CHOICE

LARGEST_BYTES = 8 * 1024**2
_HINT = "write one with `unslow plan --json > plan.json`"


def read_plan(system: System, source: str | None, target: str | None = None) -> PlanReport:
    """The plan of a file, of `-`, or a fresh one for what runs; UserError where it is none."""
    if source is None:
        return planned(system, PlanRequest(model=target))
    return parse_plan(_bytes(source), "standard input" if source == "-" else source)


def _bytes(source: str) -> bytes:
    try:
        if source == "-":
            return sys.stdin.buffer.read(LARGEST_BYTES + 1)
        with Path(source).open("rb") as file:
            return file.read(LARGEST_BYTES + 1)
    except OSError as error:
        raise UserError(f"{source}: {error.strerror or error}", _HINT) from error


def parse_plan(data: bytes, where: str) -> PlanReport:
    """A plan; UserError that names what is wrong with it."""
    if len(data) > LARGEST_BYTES:
        raise UserError(f"{where} is too large for a plan", _HINT)
    try:
        plan = msgspec.json.decode(data, type=PlanReport)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise UserError(f"{where} is not a plan: {str(error) or 'too deep'}", _HINT) from error
    if plan.schema != SCHEMA:
        raise UserError(f"{where} has the schema {plan.schema}; this version reads {SCHEMA}", _HINT)
    return plan


def chosen_option(plan: PlanReport, wanted: str | None) -> OptionShown:
    """The recommended option, the one of a number (from 0, as in the JSON), or the one with a word in its name."""
    if not plan.options:
        raise UserError(f"the plan has nothing to apply: {plan.reason or plan.verdict}", plan.hint or _HINT)
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
    if plan.verdict == "already_best" and (is_of_running(plan) or plan.current is None):
        raise UserError("nothing is better than what runs, by the plan", "to take another option, name it: --option N")
    if number is None or not 0 <= number < len(plan.options):
        raise UserError(f"the plan recommends nothing: {plan.reason or plan.verdict}", "name an option: --option N")
    return plan.options[number]


def is_of_running(plan: PlanReport) -> bool:
    """Whether its changes are against what ran; without that, a plan compares with llama.cpp's own choice."""
    return plan.current is not None and not plan.current.name.startswith(OWN_CHOICE)


def changes_of(plan: PlanReport, option: OptionShown) -> list[Change]:
    """What a server has to be told; UserError where that is nothing, or something that this version does not know.

    A plan that was made while nothing ran differs from the defaults, not from what runs: then every setting counts.
    """
    shown = option.changes if is_of_running(plan) else option.settings or option.changes
    known = {knob.value for knob in Knob}
    if strange := [change.knob for change in shown if change.knob not in known]:
        raise UserError(f"the plan changes {', '.join(strange)}, which this version does not know", _HINT)
    if not shown:
        raise UserError("that option changes nothing: it is what runs", "name another: --option N")
    return [Change(Knob(change.knob), change.value, change.why) for change in shown]
