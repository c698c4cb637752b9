"""What to ask next: the few commands that would settle most of what is open."""

import re
from collections.abc import Sequence
from typing import Any

from unslow.catalog.hardware_families import gpu_maker
from unslow.catalog.questions import Command, askable_commands
from unslow.facts.commands import parse_line
from unslow.facts.values import Known, Origin
from unslow.think.case.view import CaseView
from unslow.think.report import Question, Untold

MOST = 3
_SUSPICION = 6.0  # A cause that something speaks for weighs as much as so many that nothing does
_UNSURE = 0.5
"""A command of one operating system, where nobody says which one it is, is worth so much of the same elsewhere."""
_BUILD = re.compile(r"b?(\d{3,6})\b")


def questions(case: CaseView, untold: Sequence[Untold], most: int = MOST) -> tuple[Question, ...]:
    """The commands that give the missing facts of most causes, suspected ones first; at most `most`."""
    open_ = list(untold)
    left = [command for command in askable_commands() if _fits(command, case) and not _is_there(command, case)]
    chosen: list[Question] = []
    while left and open_ and len(chosen) < most:
        given = [(command, [one for one in open_ if _gives(command, one)]) for command in left]
        worth = [
            sum(_SUSPICION if one.suspected else 1.0 for one in settled)
            * (_UNSURE if command.systems and not case.system.family else 1.0)
            for command, settled in given
        ]
        best, settled = given[worth.index(max(worth))]
        if not settled:
            break
        settles = tuple(one.cause for one in sorted(settled, key=lambda one: not one.suspected))
        chosen.append(Question(command=case.system.fill_placeholders(best.command), why=best.why, settles=settles))
        open_ = [one for one in open_ if one not in settled]
        left.remove(best)
    return tuple(chosen)


def _gives(command: Command, untold: Untold) -> bool:
    """Whether the output holds a missing fact, or the cause itself asks for this command."""
    wanted = [path.strip() for path in untold.missing.split(" or ")]
    if any(path == given or path.startswith(f"{given}.") for path in wanted for given in command.gives):
        return True
    return parse_line(command.command).text in untold.how_to_get


def _is_there(command: Command, case: CaseView) -> bool:
    """Whether its output was given already: a program printed what only it shows, or all is known that it gives."""
    printed = (fact for path in command.shown_by for fact in _asked_at(case, path))
    if any(isinstance(fact, Known) and fact.origin is not Origin.TOLD for fact in printed):
        return True
    return all(any(isinstance(fact, Known) for fact in _asked_at(case, path)) for path in command.gives)


def _asked_at(case: CaseView, path: str) -> list[Any]:
    """The fact at a path, or of each item on the way; nothing where a list is not known."""
    found: list[Any] = [case]
    for step in path.split("."):
        values = [fact.value if isinstance(fact, Known) else fact for fact in found]
        if step.isdecimal():
            found = [item for value in values if isinstance(value, list | tuple) for item in value]
        else:
            found = [getattr(value, step) for value in values if hasattr(value, step)]
    return found


def _fits(command: Command, case: CaseView) -> bool:
    runtime = case.runtime.name.value_or("")
    told = any(isinstance(v, Known) for v in (case.account.version_before, case.account.version_since))
    found = _BUILD.match(case.runtime.version.value_or(""))
    build = int(found[1]) if found else None
    return (
        (not command.runtimes or any(runtime.endswith(name) for name in command.runtimes))
        and not (command.finds_the_runtime and runtime)
        and (not command.compares_versions or told)
        and (not command.since_build or build is None or build >= command.since_build)
        and (not command.before_build or (build is not None and build < command.before_build))
        and _fits_the_system(command, case)
        and _fits_the_gpu(command, case)
    )


def _fits_the_system(command: Command, case: CaseView) -> bool:
    container = case.system.container
    if command.containers:
        return container in command.containers
    if command.systems and container and command.runtimes:
        return False  # its log is the container's
    system = case.system.family or ("Linux" if command.runtimes else "")
    return not command.systems or system in command.systems


def _fits_the_gpu(command: Command, case: CaseView) -> bool:
    makers = {gpu_maker(gpu).lower() for gpu in case.gpus.usable} - {""}
    libraries = {device.library for device in case.gpus.seen_by_runtime} - {""}
    libraries |= {*case.runtime.build.backends.value_or([]), *(b.device for b in case.vram.all_buffers if b.on_gpu)}
    named = {name.rstrip("0123456789").lower() for name in libraries} - {"cpu", "rpc", "blas"}
    if command.vendors and makers.isdisjoint(vendor.lower() for vendor in command.vendors):
        return False
    return not command.backends or not named or not named.isdisjoint(one.lower() for one in command.backends)
