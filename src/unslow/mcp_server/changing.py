"""The tools that change something, for whom the user lets them: shown first, then made exactly as it was shown.

The first call changes nothing and gives a code for the change that it shows. Only with that code is it made, and only
while the same change would still be made: what is on the disk, which process runs and what it is told are all in it.
"""

import functools
import hashlib
import os
from collections.abc import Callable
from typing import Any

import msgspec

from unslow import api
from unslow.app.apply import ApplyRequest, Prepared, performed, prepared
from unslow.app.apply.perform import check_allowed, restarted
from unslow.app.plan.subjects import hosts_named
from unslow.app.progress import Progress
from unslow.app.undo import UndoRequest, hosts_of, listed, undone, would_undo
from unslow.facts.errors import UserError
from unslow.look.system.live import LiveSystem
from unslow.mcp_server.hosts import check_hosts
from unslow.mcp_server.plans import Plans
from unslow.mcp_server.reading import Allowed
from unslow.mcp_server.schemas import arguments_of, schema_of
from unslow.mcp_server.tool import Answer, Tool, described
from unslow.think.change.report import ApplyReport, UndoReport

_CONFIRM = {"confirm": {"type": "string", "description": "the code of the change that is shown, to make it with"}}
_ASK = "Nothing is changed yet. Show this to the user; if they agree, call {name} again with the same arguments and"
_OTHER = "what would be changed now is not what was confirmed"
_AGAIN = "call it without `confirm`, and look at the change again"


def changing_tools(allowed: Allowed, plans: Plans) -> list[Tool]:
    """Every tool that can change something."""
    return [
        _tool(apply, "Make the change of a plan", ApplyReport, functools.partial(_applied, allowed, plans)),
        _tool(undo, "Take a change back", UndoReport, functools.partial(_taken_back, allowed)),
    ]


def _tool(
    function: Callable[..., None], title: str, gives: type[msgspec.Struct], answer: Callable[[dict[str, Any]], Answer]
) -> Tool:
    def answered(given: dict[str, Any], _progress: Progress) -> Answer:
        return answer(given)

    takes = arguments_of(function)
    return Tool(
        function.__name__, title, described(function), takes, schema_of(gives, _CONFIRM), answered, changes=True
    )


# The next two say what the tools take, in the form of all the others; what they do is below, with what the user allows.
def apply(
    plan: str | None = None,
    *,
    option: str | None = None,
    target: str | None = None,
    file: str | None = None,
    name: str | None = None,
    restart: bool = False,
    confirm: str | None = None,
) -> None:
    """Make the change that a plan recommends: whole or not at all, journaled, and taken back by `undo`.

    The first call changes nothing: it shows the change as a diff and gives a code. Show it to the user. The same call
    with that code as `confirm` makes it. Where nothing can be edited with certainty, lines to type are given instead.

    plan: the `plan_id` that the tool plan gave, or a file that `unslow plan --json` wrote; None for a plan made now
    option: another option than the recommended one: its number from 0, or its name
    target: the server, where several run: a process id or a URL
    file: the compose file or the shell script that starts it
    name: of the derived model (Ollama only)
    restart: also restart the service afterwards (systemd, compose)
    confirm: the code that the first call gave
    """


def undo(change: str | None = None, *, confirm: str | None = None, list_only: bool = False) -> None:
    """Take back a change that `apply` made: every file byte for byte as it was.

    The first call changes nothing: it shows what would be taken back and gives a code. The same call with that code as
    `confirm` takes it back. What somebody else has changed since is left alone.

    change: the id of a change, or how it starts; None for the newest
    confirm: the code that the first call gave
    list_only: list the changes, and do nothing
    """


def _applied(allowed: Allowed, plans: Plans, given: dict[str, Any]) -> Answer:
    check_hosts({"target": given["target"]}, allowed.hosts)
    asked = {name: given[name] for name in ("option", "target", "file", "name")}
    request = ApplyRequest(plan=plans.found(given["plan"]), api_key=_key(), **asked)
    system = LiveSystem(hosts_named(given["target"]))
    ready = prepared(system, request)
    if ready.planned is None:
        return Answer(ready.report, api.to_text(ready.report))
    code = _code(ready.planned, given["restart"])
    if given["confirm"] is None:
        return _shown("apply", ready.report, code)
    _check_code(given["confirm"], code)
    return _performed(system, ready, restart=given["restart"])


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
    return Answer(report, api.to_text(report))


def _taken_back(allowed: Allowed, given: dict[str, Any]) -> Answer:
    request = UndoRequest(given["change"], api_key=_key())
    if given["list_only"]:
        report = listed(request)
        return Answer(report, api.to_text(report))
    hosts = tuple(host for host in hosts_of(request) if host in allowed.hosts)
    system = LiveSystem(hosts)
    before = would_undo(system, request)
    if before.outcome == "nothing":
        return Answer(before, api.to_text(before))
    code = _code(before.changes, before.files, before.foreign)
    if given["confirm"] is None:
        return _shown("undo", before, code)
    _check_code(given["confirm"], code)
    report = undone(system, request._replace(change=before.changes[0].id))
    return Answer(report, api.to_text(report))


def _key() -> str:
    """For a server that wants one: from the user's settings, for in a chat it would be seen."""
    return os.environ.get("UNSLOW_API_KEY", "")


def _shown(name: str, report: msgspec.Struct, code: str) -> Answer:
    words = f'{_ASK.format(name=name)} confirm="{code}".'
    return Answer(report, f"{api.to_text(report)}\n\n{words}", {"confirm": code})


def _code(*parts: object) -> str:
    """A code that no other change has."""
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:16]


def _check_code(given: str, code: str) -> None:
    if given != code:
        raise UserError(_OTHER, _AGAIN)
