"""The two command lines that a plan means, the request that it was made for, and what it promised."""

from typing import NamedTuple
from urllib.parse import urlsplit

from unslow.app.plan.saved import read_saved
from unslow.facts.errors import UserError
from unslow.facts.placed import Place, line_of
from unslow.facts.verified import Work
from unslow.look.launch.command import parse_command
from unslow.look.system.http import is_loopback
from unslow.think.plan.report import OptionShown
from unslow.think.verify.predicted import chosen_option, work_of


class Planned(NamedTuple):
    """What a plan means for two servers; a command is empty where the plan has no line that starts one."""

    before: str
    after: str
    work: Work
    option: OptionShown
    floor: float | None
    """The rise of perplexity that the plan allows."""
    url: str = ""
    """Of the server that the plan was made for, where that is on this machine."""


def read_plan(path: str, number: int | None) -> Planned:
    """The plan in a file, with the option of that number or the recommended one; UserError where it is none."""
    plan = read_saved(path)
    option = chosen_option(plan, number)
    if option is None:
        there = f"it has {len(plan.options)}" if plan.options else plan.reason or "it has none"
        raise UserError(
            f"{path}: the plan has no such option: {there}", "give --option a number from 0 on, as in the JSON"
        )
    before = starting_line(plan.current) if plan.current else ""
    floor = plan.goal.worst_perplexity_increase or None
    url = plan.url if is_loopback(urlsplit(plan.url).hostname or "") else ""  # a file may say anything
    return Planned(before, starting_line(option), work_of(plan.goal), option, floor, url)


def its_server(planned: Planned) -> str:
    """The address of the server that the plan was made for; UserError where it names none that is here."""
    if not planned.url:
        raise UserError("the plan names no server of this machine", "name it: a URL or a process id as the TARGET")
    return planned.url


def both_lines(planned: Planned, before: str, after: str) -> tuple[str, str]:
    """What runs before and after: what the user names, else the lines of the plan; UserError where one is missing."""
    lines = before or planned.before, after or planned.after
    for name, line in zip(("before", "after"), lines, strict=True):
        if not line:
            raise UserError(f"the plan has no command line of a server for --{name}", _by_hand(planned))
    return lines


def _by_hand(planned: Planned) -> str:
    """What else can be done."""
    at = f" {planned.url}" if planned.url else " TARGET"
    measured = f"`unslow verify --save before.json{at}`, change it, `unslow verify --against before.json{at}`"
    return f"give the command lines: --before and --after; or {measured}"


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
