"""The tools that change nothing."""

import functools
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from unslow import api
from unslow.app.progress import Progress
from unslow.facts.errors import UserError
from unslow.mcp_server.hosts import check_hosts
from unslow.mcp_server.tool import Tool, tool_of
from unslow.show._page import page_markdown
from unslow.think.report import Report

LONGEST_TEXT = 4 * 1024**2
"""Letters of a text in a message; a file is read in parts and may have any size."""
SECONDS = 40.0
"""Many clients give a call up after a minute, and looking around takes some of it."""
_SELDOM = ("kv_unified", "kv_offload", "swa_full", "override_tensor", "tensor_split", "batch", "outputs", "op_offload")
"""Arguments that would cost every chat more words than they are worth."""
_SELDOM_OF_SPEED = ("backend", "gpus", "graphs", "ubatch", "threads")
_SELDOM_OF_PRICES = ("prices", "prompt")


class Allowed(NamedTuple):
    """What the user lets agents do."""

    measure: bool = True
    apply: bool = False
    hosts: frozenset[str] = frozenset()


class Pages(msgspec.Struct, frozen=True, kw_only=True):
    """Causes as they are documented."""

    pages: tuple[api.Page, ...]


def reading_tools(allowed: Allowed) -> list[Tool]:
    """Every tool that only reads."""
    checked = functools.partial(_checked, allowed=allowed)
    return [
        tool_of(diagnose, "Why is inference slow here?", api.to_text, checked=checked),
        tool_of(triage, "What does a log or a bug report tell?", api.to_text, checked=checked),
        tool_of(api.fit, "Does a model fit?", api.to_text, without=_SELDOM, checked=checked),
        tool_of(api.predict, "How fast should a model be?", api.to_text, without=_SELDOM_OF_SPEED, checked=checked),
        tool_of(api.plan, "Which settings are best?", api.to_text, checked=checked),
        tool_of(api.devices, "How do devices compare?", api.to_text, without=_SELDOM_OF_PRICES, checked=checked),
        tool_of(api.choose, "Which hardware to buy?", api.to_text, without=_SELDOM_OF_PRICES, checked=checked),
        tool_of(explain, "What is a cause of slowness?", _pages_text),
        tool_of(api.check, "Is a claim possible?", api.to_text),
        tool_of(api.models, "Which models are here?", api.to_text),
    ]


def _checked(given: dict[str, Any], allowed: Allowed) -> None:
    check_hosts(given, allowed.hosts)
    if given.get("measure") and not allowed.measure:
        raise UserError("the user allows no measuring", "ask with measure=false; or the user leaves out --passive")


def diagnose(  # noqa: PLR0913 (as many as a diagnosis has wishes)
    target: str | int | None = None,
    *,
    measure: bool = False,
    seconds: float = SECONDS,
    goal: float | None = None,
    context: int | None = None,
    log: str | None = None,
    everything: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Why inference with local language models is slow, proved, and what this hardware should give.

    Looks at this machine and at the runtimes on it (llama.cpp, Ollama, vLLM, LM Studio and more), names the causes with
    evidence and the commands that fix them, or says that the speed is normal. Ask with measure=true if it can't tell,
    or if no runtime runs.

    target: a URL, a process id, a snapshot file or a recording folder; None for whatever runs on this machine
    measure: send a few prompts to the server that is found (one that is busy is only observed); with nothing running,
        measure an embedded engine; false only reads and sends no prompt
    seconds: with measure, be done in so many seconds at most, from 5 on
    goal: the speed that is wanted, in tokens per second
    context: the context length that is needed, in tokens
    log: the server's log file, where it can't be found
    everything: also every cause that was ruled out, and why
    """
    report = api.diagnose(
        target, passive=not measure, seconds=seconds, goal=goal, context=context, log=log, progress=progress
    )
    return report if everything else _shorter(report)


def triage(
    text: str | None = None, *, file: str | None = None, everything: bool = False, progress: Progress | None = None
) -> Report:
    """What a text tells of slow inference: a log, a bug report, `nvidia-smi`, `ollama ps`, a command, in any mixture.

    It is judged by the same causes as a live machine; `ask_next` has the commands whose output would settle what is
    open. Nothing is sent anywhere.

    text: the text itself; or else file
    file: the path of a text file of any size
    everything: also every cause that was ruled out, and why
    """
    if (text is None) == (file is None):
        raise UserError("triage takes a text or a file", "give one of them")
    if text is not None and len(text) > LONGEST_TEXT:
        raise UserError(f"a text of {len(text):,} letters is too long for a message", "give the path of its file")
    report = api.triage(Path(file) if file is not None else text or "", progress=progress)
    return report if everything else _shorter(report)


def explain(cause: str | None = None) -> Pages:
    """What a cause is, why it is slow, how to confirm it and how to fix it on each runtime.

    cause: the id of a cause, such as weights_spill_to_ram; None for a list of all, without their texts
    """
    if cause is not None:
        return Pages(pages=(api.explain(cause),))
    return Pages(pages=tuple(msgspec.structs.replace(page, text="", needs=()) for page in api.causes()))


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
