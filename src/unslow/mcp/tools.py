"""The tools: each a command as an agent calls it, with its schema and what the user allows. Needs no SDK."""

import functools
import hashlib
import inspect
import os
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

import unslow
from unslow.commands import choose, devices, fit, plan, predict
from unslow.commands._output import Progress
from unslow.commands._request import TARGET, Option, Request, fields_of
from unslow.commands.apply import ApplyRequest, UndoRequest
from unslow.commands.apply.changes import hosts_of, list_changes, undone, would_undo
from unslow.commands.apply.prepare import check_allowed, perform_change, prepare_change, read_plan, restart_server
from unslow.commands.diagnose.target import as_url
from unslow.commands.models.find import is_address, model_of_address
from unslow.commands.plan.subjects import hosts_named, is_target
from unslow.facts.errors import UserError
from unslow.look.system.http import is_loopback
from unslow.look.system.live import LiveSystem
from unslow.show.explain import page_markdown
from unslow.think.plan.report import PlanReport
from unslow.think.report import Page, Report

MORE = "more"  # The argument for what is seldom needed
_TYPES: dict[Any, Any] = {bool: "boolean", int: ["integer", "string"], (int, float): "number", str: "string"}
_TARGETS, _MODELS = ("target",), ("model", "draft")
LONGEST_TEXT = 4 * 1024**2  # Letters of a text in a message; a file is read in parts and may have any size
SECONDS = 40.0  # Many clients give a call up after a minute, and looking around takes some of it
MOST = 16  # More than an agent compares; older ones are forgotten
_ASK = "Nothing has changed yet. Show this to the user; if they agree, call {name} again with the same arguments and"


class Permissions(NamedTuple):
    """What the user lets agents do."""

    measure: bool = True
    apply: bool = False
    hosts: frozenset[str] = frozenset()


class Answer(NamedTuple):
    """What a tool gives: the report for a program, the text for a reader."""

    report: msgspec.Struct
    text: str
    extra: Mapping[str, str] = {}

    def fields(self) -> dict[str, Any]:
        return {**msgspec.to_builtins(self.report), **self.extra}


class Tool(NamedTuple):
    """A verb, what it takes, and what it gives."""

    name: str
    title: str
    request: type[Request]  # Its docstring is the description of the tool
    answer: Callable[[Any, Progress], Answer]
    changes: bool = False  # Whether it can change something

    @property
    def description(self) -> str:
        return " ".join((inspect.getdoc(self.request) or "").split())

    def read_request(self, arguments: Mapping[str, Any]) -> Request:
        """The request; UserError that says what is wrong with which argument."""
        more = arguments.get(MORE) or {}
        if not isinstance(more, Mapping):
            raise UserError(f"{MORE} must be an object", "with rarely used arguments, by name")
        return self.request.from_flags({**{k: v for k, v in arguments.items() if k != MORE}, **more})


class Pages(msgspec.Struct, frozen=True, kw_only=True):
    """Causes as they are documented."""

    pages: tuple[Page, ...]


class Diagnose(Request, frozen=True, kw_only=True):
    """Why inference with local language models is slow, with proof, and how fast this hardware should be.

    Looks at this machine and at the runtimes on it (llama.cpp, Ollama, vLLM, LM Studio and more), names the causes with
    evidence and the commands that fix them, or says that the speed is normal. Ask with measure=true if it can't tell,
    or if no runtime runs.
    """

    target: Annotated[
        str | None,
        Option("URL, process id, snapshot file or recording folder (default: whatever runs here)", kind=TARGET),
    ] = None
    measure: Annotated[
        bool,
        Option("send a few prompts to the server that is found, unless it is busy; with nothing running, measure an "
               "embedded engine"),
    ] = False  # fmt: skip
    seconds: Annotated[float, Option("with measure: finish within this many seconds (default: 40)")] = SECONDS
    goal: Annotated[float | None, Option("the wanted speed, in tokens per second")] = None
    context: Annotated[int | None, Option("the needed context length, in tokens")] = None
    log: Annotated[str | None, Option("the server's log file, if it is not found automatically")] = None
    everything: Annotated[bool, Option("also list ruled-out causes, and why")] = False


class Triage(Request, frozen=True, kw_only=True):
    """What a text says about slow inference: a log, a bug report, `nvidia-smi`, `ollama ps`, a command, in any mixture.

    It is judged by the same causes as a live machine; `ask_next` has the commands whose output would settle what is
    open. Nothing is sent anywhere.
    """

    text: Annotated[str | None, Option("the text itself, or give `file`")] = None
    file: Annotated[str | None, Option("path of a text file of any size")] = None
    everything: Annotated[bool, Option("also list ruled-out causes, and why")] = False


class Explain(Request, frozen=True, kw_only=True):
    """What a cause is, why it is slow, how to confirm it and how to fix it on each runtime."""

    cause: Annotated[str | None, Option("id of a cause, such as weights_spill_to_ram (default: list all)")] = None


class Check(Request, frozen=True, kw_only=True):
    """Whether a claim of a speed, a size or a fit is possible, with the arithmetic."""

    claim: Annotated[str, Option('free text, such as "Llama 3.3 70B at Q4_K_M fits in 24 GB"')]
    several: Annotated[bool, Option("treat every sentence and table cell as a separate claim")] = False


class Models(Request, frozen=True, kw_only=True):
    """The models on this machine, in every tool's store; only their headers are read."""

    where: Annotated[tuple[str, ...], Option("more folders or files to search")] = ()


class Apply(Request, frozen=True, kw_only=True):
    """Make the change that a plan recommends: whole or not at all, journaled, and taken back by `undo`.

    The first call changes nothing: it shows the change as a diff and gives a code. Show it to the user. The same call
    with that code as `confirm` makes it. Where nothing can be edited with certainty, lines to type are given instead.
    """

    plan: Annotated[
        str | None,
        Option("the `plan_id` returned by plan, or a file written by `unslow plan --json` (default: plan now)"),
    ] = None
    option: Annotated[str | None, Option("option to apply instead of the recommended one: number (from 0) or name")] = (
        None
    )
    target: Annotated[str | None, Option("which server, if several run: process id or URL", kind=TARGET)] = None
    file: Annotated[str | None, Option("compose file or shell script that starts the server")] = None
    name: Annotated[str | None, Option("name of the derived model (Ollama only)")] = None
    restart: Annotated[bool, Option("also restart the service afterwards (systemd, compose)")] = False
    confirm: Annotated[str | None, Option("the code returned by the first call")] = None


class Undo(Request, frozen=True, kw_only=True):
    """Take back a change that `apply` made: every file byte for byte as it was.

    The first call changes nothing: it shows what would be taken back and gives a code. The same call with that code as
    `confirm` takes it back. Files that were changed since are left unchanged.
    """

    change: Annotated[str | None, Option("change id or its prefix (default: the newest)")] = None
    confirm: Annotated[str | None, Option("the code returned by the first call")] = None
    list_only: Annotated[bool, Option("only list the changes")] = False


class Plans:
    """The last plans, by their ids."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, PlanReport] = OrderedDict()
        self._made = 0

    def keep(self, plan: PlanReport) -> str:
        """The id of a plan from now on."""
        self._made += 1
        name = f"plan-{self._made}"
        self._kept[name] = plan
        if len(self._kept) > MOST:
            self._kept.popitem(last=False)
        return name

    def find(self, word: str | None) -> PlanReport | None:
        """The plan of an id, None for any other word; UserError for a standard input that nobody has."""
        if word == "-":
            raise UserError("plan: no standard input to read", "give a plan_id or a file")
        return self._kept.get(word or "")

    def keeping(self, tool: Tool) -> Tool:
        """The tool plan, whose answers then have an id."""

        def keep_plan(asked: Request, progress: Progress) -> Answer:
            made = tool.answer(asked, progress)
            if not isinstance(made.report, PlanReport) or not made.report.options:
                return made
            name = self.keep(made.report)
            return Answer(made.report, f"{made.text}\n\nplan_id: {name}", {"plan_id": name})

        return tool._replace(answer=keep_plan)


def tools_for(allowed: Permissions) -> dict[str, Tool]:
    """The tools that the user lets agents have, by name."""
    tools = {tool.name: tool for tool in reading_tools(allowed)}
    if allowed.apply:
        plans = Plans()
        tools["plan"] = plans.keeping(tools["plan"])
        tools |= {tool.name: tool for tool in changing_tools(allowed, plans)}
    return tools


def schema_of(request: type[Request]) -> dict[str, Any]:
    """What a tool takes: each option with its sentence, and those that are seldom needed by their names alone."""
    fields = [field for field in fields_of(request) if field.option.only != "cli"]
    told: dict[str, Any] = {}
    for field in (one for one in fields if not one.option.seldom):
        kind: dict[str, Any] = {"type": "string"} if field.kind.takes is str else {"type": _TYPES[field.kind.of]}
        if field.kind.choices:
            kind = {"enum": list(field.kind.choices)}
        if field.several:
            kind = {"type": "array", "items": kind}
        told[field.name] = {**kind, "description": field.option.text}
    if seldom := [field.name for field in fields if field.option.seldom]:
        told[MORE] = {"type": "object", "description": f"rarely used: {', '.join(seldom)}"}
    needed = [field.name for field in fields if field.is_needed]
    return {"type": "object", "properties": told, "required": needed, "additionalProperties": False}


def reading_tools(allowed: Permissions) -> list[Tool]:
    """Every tool that only reads."""

    def tool_of(name: str, title: str, request: type[Request], answer: Callable[..., Any]) -> Tool:
        takes_progress = "progress" in inspect.signature(answer).parameters
        text: Callable[[Any], str] = _pages_text if request is Explain else unslow.to_text

        def answer_if_allowed(asked: Request, progress: Progress) -> Answer:
            check_hosts(asked, allowed.hosts)
            if isinstance(asked, Diagnose) and asked.measure and not allowed.measure:
                hint = "call with measure=false, or ask the user to omit --passive"
                raise UserError("the user does not allow measuring", hint)
            report = answer(asked, progress) if takes_progress else answer(asked)
            return Answer(report, text(report))

        return Tool(name, title, request, answer_if_allowed)

    known: tuple[tuple[str, str, type[Request], Callable[..., Any]], ...] = (
        ("diagnose", "Why is inference slow here?", Diagnose, _diagnose),
        ("triage", "Diagnose a log or a bug report", Triage, _triage),
        ("fit", "Does a model fit?", fit.FitRequest, fit.answer),
        ("predict", "How fast should a model be?", predict.PredictRequest, predict.answer),
        ("plan", "Which settings are best?", plan.PlanRequest, plan.answer),
        ("devices", "How do devices compare?", devices.DevicesRequest, devices.answer),
        ("choose", "Which hardware to buy?", choose.ChooseRequest, choose.answer),
        ("explain", "What is a cause of slowness?", Explain, _explain),
        ("check", "Is a claim possible?", Check, lambda asked: unslow.check(asked.claim, several=asked.several)),
        ("models", "Which models are here?", Models, lambda a, progress: unslow.models(a.where, progress=progress)),
    )
    return [tool_of(*one) for one in known]


def _diagnose(asked: Diagnose, progress: Progress) -> Report:
    report = unslow.diagnose(
        asked.target, passive=not asked.measure, seconds=asked.seconds, goal=asked.goal, context=asked.context,
        log=asked.log, progress=progress,
    )  # fmt: skip
    return report if asked.everything else _brief_report(report)


def _triage(asked: Triage, progress: Progress) -> Report:
    text, file = asked.text, asked.file
    if (text is None) == (file is None):
        raise UserError("triage takes either a text or a file", "give only one of them")
    if text is not None and len(text) > LONGEST_TEXT:
        raise UserError(f"a text of {len(text):,} characters is too long for a message", "give the path of its file")
    report = unslow.triage(Path(file) if file is not None else text or "", progress=progress)
    return report if asked.everything else _brief_report(report)


def _explain(asked: Explain) -> Pages:
    if asked.cause is not None:
        return Pages(pages=(unslow.explain(asked.cause),))
    return Pages(pages=tuple(msgspec.structs.replace(page, text="", needs=()) for page in unslow.causes()))


def _pages_text(answer: Pages) -> str:
    if len(answer.pages) == 1:
        return page_markdown(answer.pages[0])
    return "\n".join(f"{page.id}: {page.title}" for page in answer.pages)


def _brief_report(report: Report) -> Report:
    """Without what was ruled out and what nothing speaks for: an agent reads every word, and pays for it."""
    subjects = []
    for subject in report.subjects:
        suspected = tuple(one for one in subject.cannot_tell if one.suspected)
        subjects.append(msgspec.structs.replace(subject, ruled_out=(), cannot_tell=suspected))
    return msgspec.structs.replace(report, subjects=tuple(subjects))


def changing_tools(allowed: Permissions, plans: Plans) -> list[Tool]:
    """Every tool that can change something: what it does is shown first, then made exactly as it was shown.

    The first call changes nothing and gives a code for the change that it shows. Only with that code is it made, and
    only while the same change would still be made: what is on the disk, which process runs and what it is told are all
    in it.
    """
    applied, taken_back = functools.partial(_apply_plan, allowed, plans), functools.partial(_undo_change, allowed)
    return [
        Tool("apply", "Apply a plan", Apply, applied, changes=True),
        Tool("undo", "Undo a change", Undo, taken_back, changes=True),
    ]


def _apply_plan(allowed: Permissions, plans: Plans, asked: Apply, _progress: Progress) -> Answer:
    check_hosts(asked, allowed.hosts)
    system = LiveSystem(hosts_named(asked.target))
    plan = plans.find(asked.plan) or read_plan(system, asked.plan, asked.target)
    same = {name: getattr(asked, name) for name in ("option", "target", "file", "name")}
    ready = prepare_change(system, plan, ApplyRequest(**same, api_key=_key()))
    if ready.planned is None:
        return Answer(ready.report, unslow.to_text(ready.report))
    if unconfirmed := _ask_first("apply", ready.report, asked.confirm, ready.planned, asked.restart):
        return unconfirmed
    check_allowed(ready)
    report = perform_change(system, ready, api_key=_key())
    if asked.restart:
        try:
            restart_server(report.then)
        except UserError as error:
            raise UserError(f"change {report.change} is applied, but {error.message}", "undo reverts it") from error
        report = msgspec.structs.replace(report, restarted=True)
    return Answer(report, unslow.to_text(report))


def _undo_change(allowed: Permissions, asked: Undo, _progress: Progress) -> Answer:
    request = UndoRequest(change=asked.change, api_key=_key())
    if asked.list_only:
        report = list_changes(request)
        return Answer(report, unslow.to_text(report))
    system = LiveSystem(tuple(host for host in hosts_of(request) if host in allowed.hosts))
    before = would_undo(system, request)
    if before.outcome == "nothing":
        return Answer(before, unslow.to_text(before))
    if unconfirmed := _ask_first("undo", before, asked.confirm, before.changes, before.files, before.foreign):
        return unconfirmed
    report = undone(system, request._replace(change=before.changes[0].id))
    return Answer(report, unslow.to_text(report))


def _key() -> str:
    """For a server that wants one: from the user's settings, for in a chat it would be seen."""
    return os.environ.get("UNSLOW_API_KEY", "")


def _ask_first(name: str, report: msgspec.Struct, given: str | None, *parts: object) -> Answer | None:
    """The change, and a code that no other change has; None once the user has agreed to this very one."""
    code = hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:16]
    if given is None:
        words = f'{_ASK.format(name=name)} confirm="{code}".'
        return Answer(report, f"{unslow.to_text(report)}\n\n{words}", {"confirm": code})
    if given != code:
        hint = "call it without `confirm` and review the change again"
        raise UserError("the change would differ from the confirmed one", hint)
    return None


def check_hosts(asked: object, allowed: Collection[str]) -> None:
    """UserError where an address leads to a machine that the user did not name: text in a chat may ask for anything."""
    for name in (*_TARGETS, *_MODELS):
        word = getattr(asked, name, None)
        if not isinstance(word, str):
            continue
        if word == "-":
            raise UserError(f"{name}: no standard input to read", "give a file, a name or an address")
        if name in _TARGETS or is_target(word):
            url = as_url(word)
        else:  # a name, a file, or a page that only names a model is not read
            meant = model_of_address(word)
            url = meant if is_address(meant) else None
        if not url:
            continue
        try:
            host = urlsplit(url).hostname or ""
        except ValueError as error:
            raise UserError(f"{url!r} is not a URL: {error}", "for example http://127.0.0.1:8080") from error
        if not is_loopback(host) and host not in allowed:
            hint = f"only the user can allow it: `unslow mcp --allow-host {host}`"
            raise UserError(f"{host} is another machine", hint)
