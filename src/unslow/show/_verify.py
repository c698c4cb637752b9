"""The answer of `unslow verify`: the verdict first, then what it rests on, what the plan had said, what differs."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from unslow.facts.errors import UserError
from unslow.facts.verified import Side, dump_side
from unslow.show._clean import as_json, cleaned, safe, safe_json
from unslow.show._console import TextConsole
from unslow.show._tables import dim, plain_table
from unslow.show._verify_markdown import verify_markdown
from unslow.show._verify_words import (
    NAMES,
    WAYS,
    WORDS,
    amount,
    answer_lines,
    interval,
    predicted_words,
    speedup,
    work_words,
)
from unslow.think.verify.report import VerifyReport

FORMATS = ("terminal", "json", "markdown")
_HEADS = {
    "faster": (" FASTER ", "bold black on green"),
    "same": (" SAME ", "bold black on green"),
    "slower": (" SLOWER ", "bold white on red"),
    "answers_changed": (" ANSWERS CHANGED ", "bold white on red"),
    "cannot_tell": (" CAN'T TELL ", "bold black on yellow"),
}
_STYLES = {"slower": "red", "faster": "green", "same": "", "cannot_tell": "yellow"}
_NOTHING = "not set"


def check_verify_format(form: str) -> None:
    """UserError where the answer has no such format."""
    if form not in FORMATS:
        raise UserError(f"there is no format {form!r} of this answer", f"try one of {', '.join(FORMATS)}")


def render_verify(report: VerifyReport, form: str, *, width: int, color: bool) -> str:
    """The answer in that format."""
    if form == "json":
        return as_json(report)
    if form == "markdown":
        return verify_markdown(cleaned(report))
    console = TextConsole(width=width, color=color)
    for part in _parts(cleaned(report)):
        console.print(part)
    return console.text


def render_side(side: Side, form: str, path: str, *, width: int, color: bool) -> str:
    """What was kept of one server, to be held against another later."""
    if form == "json":
        return safe_json(dump_side(side).decode())
    console = TextConsole(width=width, color=color)
    console.print(Text(safe(f"{side.what}: {len(side.samples)} rounds kept in {path}"), style="bold"))
    console.print(dim("change it and start it again, then:"))
    console.print(dim(safe(f"unslow verify --against {path} {side.what}")))
    return console.text


def _parts(report: VerifyReport) -> Iterator[RenderableType]:
    word, style = _HEADS[report.verdict]
    yield Text(word, style=style).append(f"  {report.because}", "bold not reverse")
    yield dim(f"{WAYS[report.way]}: {work_words(report.work)}")
    yield ""
    if report.figures:
        yield _figures(report)
        yield ""
    said, *rest = answer_lines(report.answers)
    if report.verdict != "answers_changed":  # else it is the headline
        yield _line(said)
    yield from map(dim, rest)
    if report.predicted:
        yield _line(predicted_words(report.predicted))
    yield ""
    yield from _sides(report)
    for note in report.notes:
        yield Padding(Text(f"! {note}", style="yellow"), (0, 0, 0, 2))


def _line(text: str) -> Padding:
    return Padding(Text(text), (0, 0, 0, 2))


def _figures(report: VerifyReport) -> Table:
    table = plain_table("  FIGURE", "BEFORE", "AFTER", "SPEED-UP", "95 % INTERVAL", "ROUNDS", "VERDICT")
    for one in report.figures:
        before, after = (amount(one.metric, side.mid) for side in (one.before, one.after))
        verdict = Text(WORDS[one.verdict], style=_STYLES[one.verdict])
        row = (f"  {NAMES[one.metric]}", before, after, speedup(one), interval(one.speedup), str(one.rounds))
        table.add_row(*row, verdict)
    return table


def _sides(report: VerifyReport) -> Iterator[RenderableType]:
    yield dim(f"before: {report.before.what}")
    yield dim(f"after:  {report.after.what}")
    for change in report.changes:
        yield _line(f"{change.setting}: {change.before or _NOTHING} → {change.after or _NOTHING}")
