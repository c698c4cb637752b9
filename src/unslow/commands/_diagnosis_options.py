"""What every command that diagnoses asks alike: what to look at, and how much it may ask of it."""

from pathlib import Path
from typing import Annotated

from unslow.commands._request import TARGET, Kind, Option, Request
from unslow.facts.snapshot import Snapshot

EXIT = {"failed": 1, "slow": 1, "cannot_tell": 3, "normal": 0}
"""The worst verdict first: one slow server among healthy ones is something found."""
ANY_TARGET = Kind("a text", str, str | int | Path | Snapshot, Snapshot)
FORMATS = ("html", "json", "markdown", "openmetrics", "terminal")  # Of a diagnosis
SHORTEST_S, LONGEST_S = 5, 3600  # Of a diagnosis


def formats_text() -> str:
    """Every format of a diagnosis, the default first."""
    return ", ".join(["terminal (default)", *(form for form in FORMATS if form != "terminal")])


class Looking(Request, frozen=True, kw_only=True):
    """The target, the time and the manners of a diagnosis."""

    target: Annotated[
        str | None,
        Option("URL, process id, snapshot or recording folder", metavar="TARGET", kind=TARGET, positional=True),
    ] = None
    passive: Annotated[bool, Option("send no prompt to any runtime and start none; only read")] = False
    quick: Annotated[bool, Option("be done in about 10 seconds; the default is 60 at most", apart="time")] = False
    thorough: Annotated[bool, Option("take up to 300 seconds, and try more", apart="time")] = False
    seconds: Annotated[
        float | None,
        Option("be done in so many seconds at most", metavar="N", least=SHORTEST_S, most=LONGEST_S, apart="time"),
    ] = None
    goal: Annotated[
        float | None, Option("the speed that you want, in tokens per second", metavar="TOK_S", least=1e-3, most=1e9)
    ] = None
    context: Annotated[
        int | None, Option("the context length that you need", metavar="TOKENS", least=1, most=10**9)
    ] = None
    api_key: Annotated[str | None, Option("for a server that asks for one (or UNSLOW_API_KEY)", metavar="KEY")] = None
    log: Annotated[str | None, Option("the server's log, where it can't be found", metavar="FILE")] = None
    evict: Annotated[bool, Option("measure even if a chat must then read its prompt again")] = False
    model: Annotated[
        str | None, Option("the made-up model for the embedded engine, such as llama_1b", metavar="SHAPE")
    ] = None
    save: str | None = None  # This and the next are options of a command that is `Keeping`
    record: str | None = None


class Keeping(Looking, frozen=True, kw_only=True):
    """One that can also write what was seen."""

    save: Annotated[str | None, Option("also write the snapshot, masked", metavar="FILE", only="cli")] = None
    record: Annotated[
        str | None, Option("also keep all raw answers, to be diagnosed again anywhere", metavar="DIR", only="cli")
    ] = None
