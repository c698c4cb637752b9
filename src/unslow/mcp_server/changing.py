"""The tools that change something, for whom the user lets them: shown first, then made exactly as it was shown.

The first call changes nothing and gives a code for the change that it shows. Only with that code is it made, and only
while the same change would still be made: what is on the disk, which process runs and what it is told are all in it.
"""

import hashlib
import os
from typing import Annotated

import msgspec

import unslow
from unslow.app.apply import ApplyRequest, Prepared, performed, prepared
from unslow.app.apply.perform import check_allowed, restarted
from unslow.app.plan.subjects import hosts_named
from unslow.app.progress import Progress
from unslow.app.undo import UndoRequest, hosts_of, listed, undone, would_undo
from unslow.commands._request import Option, Request
from unslow.commands._values import TARGET
from unslow.facts.errors import UserError
from unslow.look.system.live import LiveSystem
from unslow.mcp_server.hosts import check_hosts
from unslow.mcp_server.plans import Plans
from unslow.mcp_server.reading import Allowed
from unslow.mcp_server.tool import Answer, Tool

_ASK = "Nothing is changed yet. Show this to the user; if they agree, call {name} again with the same arguments and"
_OTHER = "what would be changed now is not what was confirmed"
_AGAIN = "call it without `confirm`, and look at the change again"


class Apply(Request, frozen=True, kw_only=True):
    """Make the change that a plan recommends: whole or not at all, journaled, and taken back by `undo`.

    The first call changes nothing: it shows the change as a diff and gives a code. Show it to the user. The same call
    with that code as `confirm` makes it. Where nothing can be edited with certainty, lines to type are given instead.
    """

    plan: Annotated[
        str | None, Option("the `plan_id` that plan gave, or a file of `unslow plan --json` (default: made now)")
    ] = None
    option: Annotated[str | None, Option("not the recommended one: its number from 0, or its name")] = None
    target: Annotated[str | None, Option("the server, where several run: a process id or a URL", kind=TARGET)] = None
    file: Annotated[str | None, Option("the compose file or the shell script that starts it")] = None
    name: Annotated[str | None, Option("of the derived model (Ollama only)")] = None
    restart: Annotated[bool, Option("also restart the service afterwards (systemd, compose)")] = False
    confirm: Annotated[str | None, Option("the code that the first call gave")] = None


class Undo(Request, frozen=True, kw_only=True):
    """Take back a change that `apply` made: every file byte for byte as it was.

    The first call changes nothing: it shows what would be taken back and gives a code. The same call with that code as
    `confirm` takes it back. What somebody else has changed since is left alone.
    """

    change: Annotated[str | None, Option("the id of a change, or how it starts (default: the newest)")] = None
    confirm: Annotated[str | None, Option("the code that the first call gave")] = None
    list_only: Annotated[bool, Option("list the changes, and do nothing")] = False


def changing_tools(allowed: Allowed, plans: Plans) -> list[Tool]:
    """Every tool that can change something."""

    def applied(asked: Apply, _progress: Progress) -> Answer:
        return _applied(allowed, plans, asked)

    def taken_back(asked: Undo, _progress: Progress) -> Answer:
        return _taken_back(allowed, asked)

    return [
        Tool("apply", "Make the change of a plan", Apply, applied, changes=True),
        Tool("undo", "Take a change back", Undo, taken_back, changes=True),
    ]


def _applied(allowed: Allowed, plans: Plans, asked: Apply) -> Answer:
    check_hosts(asked, allowed.hosts)
    request = ApplyRequest(
        plan=plans.found(asked.plan), option=asked.option, target=asked.target, file=asked.file, name=asked.name,
        api_key=_key(),
    )  # fmt: skip
    system = LiveSystem(hosts_named(asked.target))
    ready = prepared(system, request)
    if ready.planned is None:
        return Answer(ready.report, unslow.to_text(ready.report))
    code = _code(ready.planned, asked.restart)
    if asked.confirm is None:
        return _shown("apply", ready.report, code)
    _check_code(asked.confirm, code)
    return _performed(system, ready, restart=asked.restart)


def _performed(system: LiveSystem, ready: Prepared, *, restart: bool) -> Answer:
    """Make it; where only the restart fails, the change stays and that is said with the way back."""
    check_allowed(ready)
    report = performed(system, ready, api_key=_key())
    if restart:
        try:
            restarted(report.then)
        except UserError as error:
            raise UserError(f"change {report.change} is made, but {error.message}", "undo takes it back") from error
        report = msgspec.structs.replace(report, restarted=True)
    return Answer(report, unslow.to_text(report))


def _taken_back(allowed: Allowed, asked: Undo) -> Answer:
    request = UndoRequest(asked.change, api_key=_key())
    if asked.list_only:
        report = listed(request)
        return Answer(report, unslow.to_text(report))
    hosts = tuple(host for host in hosts_of(request) if host in allowed.hosts)
    system = LiveSystem(hosts)
    before = would_undo(system, request)
    if before.outcome == "nothing":
        return Answer(before, unslow.to_text(before))
    code = _code(before.changes, before.files, before.foreign)
    if asked.confirm is None:
        return _shown("undo", before, code)
    _check_code(asked.confirm, code)
    report = undone(system, request._replace(change=before.changes[0].id))
    return Answer(report, unslow.to_text(report))


def _key() -> str:
    """For a server that wants one: from the user's settings, for in a chat it would be seen."""
    return os.environ.get("UNSLOW_API_KEY", "")


def _shown(name: str, report: msgspec.Struct, code: str) -> Answer:
    words = f'{_ASK.format(name=name)} confirm="{code}".'
    return Answer(report, f"{unslow.to_text(report)}\n\n{words}", {"confirm": code})


def _code(*parts: object) -> str:
    """A code that no other change has."""
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:16]


def _check_code(given: str, code: str) -> None:
    if given != code:
        raise UserError(_OTHER, _AGAIN)
