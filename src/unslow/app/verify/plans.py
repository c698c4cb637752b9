"""The two command lines that a plan means, the request that it was made for, and what it promised."""

from pathlib import Path
from typing import NamedTuple

import msgspec

from unslow.facts.errors import UserError
from unslow.facts.placed import Place, line_of
from unslow.facts.verified import Work
from unslow.look.launch.command import parse_command
from unslow.think.plan.report import SCHEMA, OptionShown, PlanReport
from unslow.think.verify.predicted import chosen_option, work_of

LARGEST_PLAN_BYTES = 16 * 1024**2
_HINT = "such a file is written by `unslow plan --json > plan.json`"
_BY_HAND = "give the command lines: --before and --after; or measure with --save, change it, and then --against"


class Planned(NamedTuple):
    """What a plan means for two servers; a command is empty where the plan has no line that starts one."""

    before: str
    after: str
    work: Work
    option: OptionShown
    floor: float | None
    """The rise of perplexity that the plan allows."""


def read_plan(path: str, number: int | None) -> Planned:
    """The plan in a file, with the option of that number or the recommended one; UserError where it is none."""
    plan = _parsed(path)
    option = chosen_option(plan, number)
    if option is None:
        there = f"it has {len(plan.options)}" if plan.options else plan.reason or "it has none"
        raise UserError(
            f"{path}: the plan has no such option: {there}", "give --option a number from 0 on, as in the JSON"
        )
    before = starting_line(plan.current) if plan.current else ""
    return Planned(
        before, starting_line(option), work_of(plan.goal), option, plan.goal.worst_perplexity_increase or None
    )


def both_lines(planned: Planned, before: str, after: str) -> tuple[str, str]:
    """What runs before and after: what the user names, else the lines of the plan; UserError where one is missing."""
    lines = before or planned.before, after or planned.after
    for name, line in zip(("before", "after"), lines, strict=True):
        if not line:
            raise UserError(f"the plan has no command line of a server for --{name}", _BY_HAND)
    return lines


def starting_line(option: OptionShown) -> str:
    """The first line of an option that starts a server which can be started here; empty where there is none."""
    for command in option.commands:
        line = line_of(command)
        if line.place is Place.SHELL and _starts(line.text):
            return line.text
    return ""


def _starts(line: str) -> bool:
    try:
        parse_command(line)
    except UserError:
        return False
    return True


def _parsed(path: str) -> PlanReport:
    try:
        with Path(path).open("rb") as file:
            data = file.read(LARGEST_PLAN_BYTES + 1)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}", _HINT) from error
    if len(data) > LARGEST_PLAN_BYTES:
        raise UserError(f"{path} is larger than {LARGEST_PLAN_BYTES >> 20} MiB, so it is no plan", _HINT)
    try:
        raw = msgspec.json.decode(data)
        schema = raw.get("schema") if isinstance(raw, dict) else None
        if schema != SCHEMA:
            raise UserError(f"{path} has the schema {str(schema)[:60]!r}; this version reads {SCHEMA}", _HINT)
        return msgspec.convert(raw, PlanReport)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is no plan: {str(error) or type(error).__name__}", _HINT) from error
