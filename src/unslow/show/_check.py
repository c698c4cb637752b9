"""The answer of `unslow check`, for a person or a program: the verdict, three lines of arithmetic, what to expect."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from unslow.facts.errors import UserError
from unslow.show._clean import as_json, cleaned
from unslow.show._console import TextConsole
from unslow.show._units import rate
from unslow.think.claims import CheckReport, Judged

FORMATS = ("terminal", "json")
_HEADS = {
    "possible": (" POSSIBLE ", "bold black on green"), "unlikely": (" UNLIKELY ", "bold black on yellow"),
    "impossible": (" IMPOSSIBLE ", "bold white on red"), "cannot_tell": (" CAN'T TELL ", "bold black on yellow"),
}  # fmt: skip


def check_check_format(form: str) -> None:
    """UserError where the answer has no such format."""
    if form not in FORMATS:
        raise UserError(f"there is no format {form!r} of this answer", f"try one of {', '.join(FORMATS)}")


def render_check(report: CheckReport, form: str, *, width: int, color: bool, everything: bool = True) -> str:
    """The answer in that format; without `everything`, only what is not possible, and a count of the rest."""
    if form == "json":
        return as_json(report)
    console = TextConsole(width=width, color=color)
    console.print(Group(*_parts(cleaned(report), everything=everything)))
    return console.text


def _parts(report: CheckReport, *, everything: bool) -> Iterator[RenderableType]:
    shown = [c for c in report.claims if everything or c.verdict in {"impossible", "unlikely"}]
    several = len({c.claim for c in report.claims}) > 1
    sentence = ""
    for claim in shown:
        if several and claim.claim != sentence:
            yield Text(f'"{claim.claim}"', style="italic")
        sentence = claim.claim
        yield from _claim(claim)
        if claim is not shown[-1]:
            yield ""
    if len(report.claims) > 1:
        yield from [""] * bool(shown)
        yield Text(_counted(report))


def _counted(report: CheckReport) -> str:
    numbers = {verdict: sum(c.verdict == verdict for c in report.claims) for verdict in _HEADS}
    words = ", ".join(f"{n} {verdict.replace('_', ' ')}" for verdict, n in numbers.items() if n)
    return f"{len(report.claims)} claims: {words}"


def _claim(claim: Judged) -> Iterator[RenderableType]:
    word, style = _HEADS[claim.verdict]
    yield Text(word, style=style).append(f"  {claim.what}: {claim.because}", "bold not reverse")
    for line in claim.arithmetic:
        yield _indented(line)
    if claim.expected_tokens_per_s:
        e = claim.expected_tokens_per_s
        yield _indented(f"expected: {rate(e.mid)} tok/s, {rate(e.low)} to {rate(e.high)} likely", "bold")
    for note in claim.notes:
        yield _indented(f"({note})", "dim")


def _indented(text: str, style: str = "") -> Padding:
    return Padding(Text(text, style=style), (0, 0, 0, 2))
