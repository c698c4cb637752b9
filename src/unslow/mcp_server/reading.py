"""The tools that change nothing."""

import functools
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec

import unslow
from unslow.app.progress import Progress
from unslow.commands import choose, devices, fit, plan, predict
from unslow.commands._request import Option, Request
from unslow.commands._values import TARGET
from unslow.commands.explain import Page
from unslow.facts.errors import UserError
from unslow.facts.stored_model import Inventory
from unslow.mcp_server.hosts import check_hosts
from unslow.mcp_server.tool import Tool, tool_of
from unslow.show._page import page_markdown
from unslow.think.claims.report import CheckReport
from unslow.think.report import Report

LONGEST_TEXT = 4 * 1024**2
"""Letters of a text in a message; a file is read in parts and may have any size."""
SECONDS = 40.0
"""Many clients give a call up after a minute, and looking around takes some of it."""


class Allowed(NamedTuple):
    """What the user lets agents do."""

    measure: bool = True
    apply: bool = False
    hosts: frozenset[str] = frozenset()


class Pages(msgspec.Struct, frozen=True, kw_only=True):
    """Causes as they are documented."""

    pages: tuple[Page, ...]


class Diagnose(Request, frozen=True, kw_only=True):
    """Why inference with local language models is slow, proved, and what this hardware should give.

    Looks at this machine and at the runtimes on it (llama.cpp, Ollama, vLLM, LM Studio and more), names the causes with
    evidence and the commands that fix them, or says that the speed is normal. Ask with measure=true if it can't tell,
    or if no runtime runs.
    """

    target: Annotated[
        str | None,
        Option("a URL, process id, snapshot file or recording folder (default: whatever runs here)", kind=TARGET),
    ] = None
    measure: Annotated[
        bool,
        Option("send a few prompts to the server that is found, unless it is busy; with nothing running, measure an "
               "embedded engine"),
    ] = False  # fmt: skip
    seconds: Annotated[float, Option("with measure: be done in so many seconds (default: 40)")] = SECONDS
    goal: Annotated[float | None, Option("the speed that is wanted, in tokens per second")] = None
    context: Annotated[int | None, Option("the context length that is needed, in tokens")] = None
    log: Annotated[str | None, Option("the server's log file, where it can't be found")] = None
    everything: Annotated[bool, Option("also every cause that was ruled out, and why")] = False


class Triage(Request, frozen=True, kw_only=True):
    """What a text tells of slow inference: a log, a bug report, `nvidia-smi`, `ollama ps`, a command, in any mixture.

    It is judged by the same causes as a live machine; `ask_next` has the commands whose output would settle what is
    open. Nothing is sent anywhere.
    """

    text: Annotated[str | None, Option("the text itself; or else file")] = None
    file: Annotated[str | None, Option("the path of a text file of any size")] = None
    everything: Annotated[bool, Option("also every cause that was ruled out, and why")] = False


class Explain(Request, frozen=True, kw_only=True):
    """What a cause is, why it is slow, how to confirm it and how to fix it on each runtime."""

    cause: Annotated[str | None, Option("its id, such as weights_spill_to_ram (default: a list of all)")] = None


class Check(Request, frozen=True, kw_only=True):
    """Whether a claim of a speed, a size or a fit is possible, with the arithmetic."""

    claim: Annotated[str, Option('free text, such as "Llama 3.3 70B at Q4_K_M fits in 24 GB"')]
    several: Annotated[bool, Option("every sentence and every cell of a table is a claim of its own")] = False


class Models(Request, frozen=True, kw_only=True):
    """The models on this machine, in every tool's store; only their headers are read."""

    where: Annotated[tuple[str, ...], Option("further folders or files to look at")] = ()


def reading_tools(allowed: Allowed) -> list[Tool]:
    """Every tool that only reads."""
    check = functools.partial(_check, allowed=allowed)
    return [
        tool_of("diagnose", "Why is inference slow here?", Diagnose, _diagnose, unslow.to_text, check),
        tool_of("triage", "What does a log or a bug report tell?", Triage, _triage, unslow.to_text, check),
        tool_of("fit", "Does a model fit?", fit.FitRequest, fit.answer, unslow.to_text, check),
        tool_of(
            "predict", "How fast should a model be?", predict.PredictRequest, predict.answer, unslow.to_text, check
        ),
        tool_of("plan", "Which settings are best?", plan.PlanRequest, plan.answer, unslow.to_text, check),
        tool_of("devices", "How do devices compare?", devices.DevicesRequest, devices.answer, unslow.to_text, check),
        tool_of("choose", "Which hardware to buy?", choose.ChooseRequest, choose.answer, unslow.to_text, check),
        tool_of("explain", "What is a cause of slowness?", Explain, _explain, _pages_text, check),
        tool_of("check", "Is a claim possible?", Check, _check_claim, unslow.to_text, check),
        tool_of("models", "Which models are here?", Models, _models, unslow.to_text, check),
    ]


def _check(asked: Request, allowed: Allowed) -> None:
    check_hosts(asked, allowed.hosts)
    if isinstance(asked, Diagnose) and asked.measure and not allowed.measure:
        raise UserError("the user allows no measuring", "ask with measure=false; or the user leaves out --passive")


def _diagnose(asked: Diagnose, progress: Progress) -> Report:
    report = unslow.diagnose(
        asked.target, passive=not asked.measure, seconds=asked.seconds, goal=asked.goal, context=asked.context,
        log=asked.log, progress=progress,
    )  # fmt: skip
    return report if asked.everything else _shorter(report)


def _triage(asked: Triage, progress: Progress) -> Report:
    text, file = asked.text, asked.file
    if (text is None) == (file is None):
        raise UserError("triage takes a text or a file", "give one of them")
    if text is not None and len(text) > LONGEST_TEXT:
        raise UserError(f"a text of {len(text):,} letters is too long for a message", "give the path of its file")
    report = unslow.triage(Path(file) if file is not None else text or "", progress=progress)
    return report if asked.everything else _shorter(report)


def _explain(asked: Explain) -> Pages:
    if asked.cause is not None:
        return Pages(pages=(unslow.explain(asked.cause),))
    return Pages(pages=tuple(msgspec.structs.replace(page, text="", needs=()) for page in unslow.causes()))


def _check_claim(asked: Check) -> CheckReport:
    return unslow.check(asked.claim, several=asked.several)


def _models(asked: Models, progress: Progress) -> Inventory:
    return unslow.models(asked.where, progress=progress)


def _pages_text(answer: Pages) -> str:
    if len(answer.pages) == 1:
        return page_markdown(answer.pages[0])
    return "\n".join(f"{page.id}: {page.title}" for page in answer.pages)


def _shorter(report: Report) -> Report:
    """Without what was ruled out and what nothing speaks for: an agent reads every word, and pays for it."""
    subjects = tuple(
        msgspec.structs.replace(
            subject, ruled_out=(), cannot_tell=tuple(one for one in subject.cannot_tell if one.suspected)
        )
        for subject in report.subjects
    )
    return msgspec.structs.replace(report, subjects=subjects)
