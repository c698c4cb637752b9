"""The answer of `unslow check`, for a person or a program: the verdict, three lines of arithmetic, what to expect."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from unslow.show.console import ReportKind, indent_text, verdict_head
from unslow.show.units import rate
from unslow.think.claims.report import CheckReport

_VERDICTS = ("possible", "unlikely", "impossible", "cannot_tell")


def _parts(report: CheckReport, _width: int, *, everything: bool = True) -> Iterator[RenderableType]:
    """Without `everything`, only what is not possible, and a count of the rest."""
    shown = [c for c in report.claims if everything or c.verdict in {"impossible", "unlikely"}]
    several = len({c.claim for c in report.claims}) > 1
    sentence = ""
    for claim in shown:
        if several and claim.claim != sentence:
            yield Text(f'"{claim.claim}"', style="italic")
        sentence = claim.claim
        yield verdict_head(claim.verdict, f"{claim.what}: {claim.because}")
        yield from map(indent_text, claim.arithmetic)
        if e := claim.expected_tokens_per_s:
            yield indent_text(f"expected: {rate(e.mid)} tok/s ({rate(e.low)} to {rate(e.high)})", "bold")
        yield from (indent_text(f"({note})", "dim") for note in claim.notes)
        if claim is not shown[-1]:
            yield ""
    if len(report.claims) > 1:
        yield from [""] * bool(shown)
        numbers = {verdict: sum(c.verdict == verdict for c in report.claims) for verdict in _VERDICTS}
        words = ", ".join(f"{n} {verdict.replace('_', ' ')}" for verdict, n in numbers.items() if n)
        yield Text(f"{len(report.claims)} claims: {words}")


render_check = ReportKind(CheckReport, _parts)
