"""The answers of `unslow apply` and `unslow undo`, for a person or a program: what changes, and how to take it back."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from unslow.facts.commands import Place, parse_line
from unslow.show.console import ReportKind, command_text, safe_text
from unslow.think.change import ApplyReport, FileShown, UndoReport

_HEADS = {
    "would_change": " WOULD CHANGE ", "changed": " CHANGED ", "declined": " NOTHING CHANGED ", "printed": " BY HAND ",
    "listed": " CHANGES ", "would_undo": " WOULD UNDO ", "undone": " UNDONE ", "nothing": " NOTHING TO UNDO ",
}  # fmt: skip
_STYLES = {"+": "green", "-": "red", "@": "cyan"}
_TAB = 4  # Columns of a tab in a file: to a terminal it is a sign that moves, so blanks are shown


def _apply_parts(report: ApplyReport, _width: int) -> Iterator[RenderableType]:
    yield from (_in(line, "dim") for line in report.mended)
    yield _head(report.outcome, f"{report.runtime}, {report.model}: {report.option}")
    if report.because:
        yield _in(f"because {report.because}" if report.outcome == "printed" else report.because)
    if report.outcome != "changed":
        yield from _files(report.files)
        for model in report.models:
            settings = ", ".join(f"{name} {value}" for name, value in model.parameters.items())
            yield _in(f"asks {model.url} to create the model {model.name} from {model.parent} (kept): {settings}")
    else:
        yield from (_in(f"now ask for the model {model.name} in place of {model.parent}") for model in report.models)
    if report.lines:
        by_hand = report.outcome == "printed"
        yield _in("nothing was changed; run yourself:" if by_hand else "left for you to run:", "bold")
        yield from (command_text(safe_text(line), 4) for line in report.lines)
    yield from (_in(f"not included: {what}", "dim") for what in report.left_out)
    yield from _then(report.then, done=report.restarted)
    if report.change:
        yield _in(f"recorded in {report.journal}; to undo:")
        yield command_text(safe_text(report.undo), 4)


def _head(outcome: str, words: str) -> Text:
    return Text(_HEADS[outcome], style="bold reverse").append(f"  {safe_text(words)}", "bold not reverse")


def _files(files: Sequence[FileShown]) -> Iterator[RenderableType]:
    for file in files:
        yield _in(f"{file.path}{' (new)' if file.is_new else ''}", "bold")
        for line in file.diff.splitlines():
            seen = safe_text(line[:1] + line[1:].expandtabs(_TAB))
            yield Padding(Text(seen, style=_STYLES.get(line[:1], ""), overflow="fold"), (0, 0, 0, 4))


def _then(lines: Sequence[str], *, done: bool) -> Iterator[RenderableType]:
    shell = [line for line in lines if parse_line(line).place is Place.SHELL]
    if shell:
        yield _in("done:" if done else "then:")
        yield command_text(safe_text(" && ".join(shell)), 4)
    yield from (_in(line) for line in lines if line not in shell)


def _undone(report: UndoReport, _width: int) -> Iterator[RenderableType]:
    yield from (_in(line, "dim") for line in report.mended)
    changes = report.changes
    yield _head(report.outcome, changes[0].what if len(changes) == 1 and report.outcome != "listed" else report.journal)
    if report.outcome == "listed":
        for change in changes:
            targets = ", ".join((*change.files, *(f"model {name}" for name in change.models)))
            why = f" ({change.reason})" if change.reason and change.state == "undone" else ""
            yield _in(f"{change.id}  {change.state}{why}  {change.what}: {targets}")
        yield from (_in(f"{one.id}  damaged: {one.because}", "red") for one in report.damaged)
        return
    if report.foreign:
        yield _in("changed by something else since:", "bold")
        yield from _files(report.foreign)
    yield from _files(report.files)
    for change in changes:
        yield from (_in(f"the model {name} is deleted") for name in change.models if report.outcome == "would_undo")
        yield from _then(change.then, done=False) if report.outcome == "undone" else ()


def _in(text: str, style: str = "") -> Padding:
    return Padding(Text(safe_text(text), style=style, overflow="fold"), (0, 0, 0, 2))


render_apply = ReportKind(ApplyReport, _apply_parts, clean=False, crop=False)
render_undo = ReportKind(UndoReport, _undone, clean=False, crop=False)
