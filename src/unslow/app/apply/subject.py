"""Which running server a plan is for."""

import contextlib
import re
from urllib.parse import urlsplit

from unslow.app.chosen import at_url, is_at
from unslow.app.read_target import as_url, check_url
from unslow.app.runtimes import read_runtimes
from unslow.commands.plan import RUNTIME
from unslow.facts.errors import UserError
from unslow.facts.snapshot import Subject
from unslow.look.system import System
from unslow.look.system.http import is_loopback
from unslow.think.plan.report import PlanReport

_HINT = "name it by its process id or its URL: --target"


def running(system: System, plan: PlanReport, target: str | None, api_key: str) -> Subject | None:
    """The server as it runs now; None where no such runtime does, UserError where it may be several."""
    url = as_url(target) if target else None
    subjects = read_runtimes(system, api_key).subjects
    if url:
        base = check_url(url)
        subjects = tuple(s for s in subjects if is_at(s, base)) or at_url(system, base, api_key)
    elif target:
        if not target.isdecimal():
            raise UserError(f"{target!r} is no process id and no URL", _HINT)
        subjects = tuple(s for s in subjects if s.runtime.pid.value_or(None) == int(target))
        if not subjects:
            raise UserError(f"process {target} is no runtime that can be seen", "`unslow` alone finds those that run")
    elif plan.url:
        subjects = _where_it_was(system, plan.url, subjects, api_key)
    found = [s for s in subjects if _plain(s.runtime.name.value_or("")) == _plain(plan.runtime)]
    if target and not found:
        raise UserError(f"what runs there is not {plan.runtime}, which the plan is for", "make a plan for it")
    same = [s for s in found if _is_model(s, plan.model)]
    if found and not same:
        runs = ", ".join(s.model.name.value_or(s.model.path.value_or("a model")) for s in found)
        raise UserError(f"the plan is for {plan.model}, and {plan.runtime} runs {runs}", "make a plan for what runs")
    if len(same) > 1:
        raise UserError(f"{len(same)} servers of {plan.runtime} run that model, and the plan names none", _HINT)
    return same[0] if same else None


def _where_it_was(system: System, url: str, seen: tuple[Subject, ...], api_key: str) -> tuple[Subject, ...]:
    """The server at the address that a plan was made for; all that were seen where it is at none any more."""
    there = tuple(s for s in seen if is_at(s, url))
    if there or not is_loopback(urlsplit(url).hostname or ""):
        return there or seen
    try:
        return at_url(system, url, api_key)
    except UserError:  # it may have been started again at another one
        return seen


def _is_model(subject: Subject, model: str) -> bool:
    """Whether a server runs the model of a plan, by its name or the name of its file, however it is written."""
    names = (subject.model.name.value_or(""), subject.model.path.value_or("").rpartition("/")[2])
    wanted = _letters(model)
    return any(name and (_letters(name) in wanted or wanted in _letters(name)) for name in names)


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower().removesuffix(".gguf"))


def _plain(name: str) -> str:
    """A runtime's name as plans and servers may write it."""
    with contextlib.suppress(ValueError):  # one that is not planned for
        name = RUNTIME.parse(name)
    return re.sub(r"[^a-z]", "", name.lower())
