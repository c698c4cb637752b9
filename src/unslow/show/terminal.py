"""The report for a person at a terminal: the verdict first, then the proof."""

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from unslow.facts.values import NOT_LOOKED
from unslow.show._clean import cleaned
from unslow.show._console import TextConsole
from unslow.show._labels import label, worded_value
from unslow.show._units import rate, span
from unslow.think.report import BudgetPart, ChecklistItem, Finding, Range, Report, SubjectReport, Untold
from unslow.think.summary import AS_MUCH_AS_FITS

_RED, _GREEN, _YELLOW = "bold white on red", "bold black on green", "bold black on yellow"
_STYLE = {"slow": _RED, "failed": _RED, "normal": _GREEN, "cannot_tell": _YELLOW}
_WORD = {"slow": " SLOW ", "failed": " FAILED ", "normal": " NORMAL ", "cannot_tell": " CAN'T TELL "}
_MARK = {"ok": ("✓", "green"), "bad": ("✗", "red"), "unknown": ("?", "yellow")}
_SHADES = ("cyan", "magenta", "blue", "yellow", "green", "red")
_DECODE = "decode_tokens_per_s"
_BAR, _SHORT = 60, 12


def render(report: Report, *, width: int, color: bool, everything: bool) -> str:
    """The report as text, with colours where the terminal has them."""
    console = TextConsole(width=width, color=color)
    report = cleaned(report)
    for subject in report.subjects:
        # commands to copy may be wider than the terminal: it wraps them without cutting them
        console.print(_subject(subject, everything=everything, width=console.width), crop=False)
    if not report.subjects:
        console.print("Nothing was found to diagnose.")
    return console.text


def _subject(subject: SubjectReport, *, everything: bool, width: int) -> RenderableType:
    parts: list[RenderableType] = [_head(subject), "", Padding(Text(subject.summary), (0, 0, 1, 2)), _speed(subject)]
    if any(part.part != "unexplained" for part in subject.budget):
        parts += ["", _budget(subject.budget, bar=min(_BAR, width - 4))]
    if subject.findings:
        parts += ["", Text("Why", style="bold"), *_findings(subject.findings)]
    if subject.contradictions:
        parts += ["", *_contradictions(subject)]
    if subject.ask_next:
        parts += ["", *_questions(subject)]
    if subject.known:
        parts += ["", *_known(subject)]
    parts += _checklist(subject, everything=everything or not _is_of_a_text(subject))
    if subject.ruled_out:
        parts += ["", *_ruled_out(subject, everything=everything)]
    parts += _untold(subject, everything=everything)
    parts += [Text(note, style="italic") for note in subject.notes]
    return Group(*parts, "")


def _head(subject: SubjectReport) -> Text:
    head = Text(_WORD[subject.verdict], style=_STYLE[subject.verdict])
    device = subject.devices[0].replace("(R)", "").replace("(TM)", "")
    return head.append(f"  {subject.runtime} · {subject.model} · {device}", style="bold not reverse")


def _pair_grid() -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column(overflow="fold")
    return grid


def _speed(subject: SubjectReport) -> RenderableType:
    grid = _pair_grid()
    measured, expected = subject.measured, subject.expected
    if subject.url:
        grid.add_row("  server", subject.url + (f", process {subject.pid}" if subject.pid else ""))
    if _DECODE in measured:
        grid.add_row("  measured", Text(f"{rate(measured[_DECODE])} tok/s", style="bold"))
    for name, ranges in (("as configured", expected.as_configured), ("achievable", expected.achievable)):
        if _DECODE in ranges:
            note = f", {AS_MUCH_AS_FITS}" if expected.because == AS_MUCH_AS_FITS else ""
            grid.add_row(f"  {name}", f"{_interval(ranges[_DECODE])}{note}")
    if expected.ceiling_tokens_per_s:
        share = f", {measured[_DECODE] / expected.ceiling_tokens_per_s:.0%} reached" if _DECODE in measured else ""
        grid.add_row("  ceiling", f"{rate(expected.ceiling_tokens_per_s)} tok/s by memory bandwidth alone{share}")
    if expected.because and not expected.achievable:
        why = "too little is known" if expected.because == NOT_LOOKED.why else expected.because
        grid.add_row("  expected", f"no prediction: {why}")
    if "prefill_tokens_per_s" in measured:
        grid.add_row("  prompt", f"{rate(measured['prefill_tokens_per_s'])} tok/s")
    for key, name in (("time_to_first_token_s", "first token"), ("load_s", "load")):
        if key in measured:
            grid.add_row(f"  {name}", span(measured[key]))
    return grid


def _interval(value: Range) -> str:
    return f"{rate(value.mid)} tok/s expected, {rate(value.low)} to {rate(value.high)} likely"


def _budget(budget: tuple[BudgetPart, ...], bar: int) -> RenderableType:
    total = sum(b.seconds for b in budget) or 1.0
    line, legend = Text("  "), _pair_grid()
    edge = 0.0
    for part, shade in zip(budget, _SHADES * 3, strict=False):
        style = "dim" if part.part == "unexplained" else shade
        start, edge = (
            edge,
            edge + bar * part.seconds / total,
        )  # edges are rounded, not lengths, so that the sum is exact
        line.append(("░" if part.part == "unexplained" else "█") * (round(edge) - round(start)), style=style)
        mark = Text("  ■ " if part.part != "unexplained" else "  ░ ", style=style).append(part.part, style="default")
        legend.add_row(mark, f"{span(part.seconds):>8}  {part.seconds / total:4.0%}")
    return Group(Text(f"Where the {span(total)} of a token go", style="bold"), line, legend)


def _findings(findings: tuple[Finding, ...]) -> list[RenderableType]:
    root = {explained: f.title for f in reversed(findings) for explained in f.explains}
    return [_finding(number, finding, root.get(finding.cause)) for number, finding in enumerate(findings, 1)]


def _finding(number: int, finding: Finding, root: str | None) -> RenderableType:
    gain = f"  {finding.speedup:.1f}× faster without it" if finding.speedup and finding.speedup > 1 else ""
    if root:  # its gain is the root's gain
        gain = f"  because: {root[0].lower()}{root[1:]}"
    head = Text(f"{number}. {finding.title}", style="bold").append(gain, style="green")
    head.append(f"  ({finding.cause}, {finding.confidence:.0%} sure)", style="dim")
    grid = _pair_grid()
    grid.add_row("     because", finding.because)
    for evidence in finding.evidence:
        against = f" ({evidence.reference})" if evidence.reference else ""
        text = Text(f"{label(evidence.fact)}: {worded_value(evidence.fact, evidence.value)}{against}")
        grid.add_row("     evidence", text.append(f"  [{evidence.origin}: {evidence.source}]", style="dim"))
    for fix in finding.fixes:
        then = fix.predicted.get(_DECODE)
        gives = f" → about {rate(then)} tok/s" if then else ""
        risk = f" (careful: {fix.risk})" if fix.risk else ""
        grid.add_row("     fix", Text(f"{fix.why}{gives}{risk}"))
        for command in fix.commands:
            grid.add_row("", Text(command, style="cyan"))
    if finding.explains:
        grid.add_row("     explains", ", ".join(finding.explains))
    return Group(Padding(head, (0, 0, 0, 2)), grid)


def _contradictions(subject: SubjectReport) -> list[RenderableType]:
    grid = _pair_grid()
    for item in subject.contradictions:
        grid.add_row(f"  {item.about}", "; ".join(item.says))
        if item.meaning:
            grid.add_row("", Text(item.meaning, style="italic"))
    return [Text("Contradictions", style="bold"), grid]


def _questions(subject: SubjectReport) -> list[RenderableType]:
    """Commands to copy: each on a line of its own, not wrapped."""
    parts: list[RenderableType] = [Text("To settle it, run", style="bold")]
    for question in subject.ask_next:
        parts += [Text(f"  {question.command}", style="cyan", no_wrap=True, overflow="ignore")]
        parts += [Padding(Text(question.why, style="dim"), (0, 0, 0, 6))]
    return parts


def _known(subject: SubjectReport) -> list[RenderableType]:
    grid = _pair_grid()
    for item in subject.known:
        told = ", in words" if item.origin == "told" else ""
        text = Text(worded_value(item.fact, item.value)).append(f"  [{item.source}{told}]", style="dim")
        grid.add_row(f"  {label(item.fact)}", text)
    return [Text("Understood from the text", style="bold"), grid]


def _is_of_a_text(subject: SubjectReport) -> bool:
    """Whether a text was read: whoever wrote it is asked for commands, and spared the long lists."""
    return bool(subject.known or subject.ask_next)


def _checklist(subject: SubjectReport, *, everything: bool) -> list[RenderableType]:
    """Every question of the guides; of a text only those that it answers."""
    asked = [i for i in subject.checklist if everything or i.state != "unknown"]
    return ["", *_answered(asked)] if asked else []


def _answered(asked: list[ChecklistItem]) -> list[RenderableType]:
    grid = Table.grid(padding=(0, 1))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    without_gpu = [i for i in asked if i.because == "there is no GPU"]
    if without_gpu:
        grid.add_row(
            Text("  –", style="dim"), Text(f"{len(without_gpu)} questions about the GPU: there is none", style="dim")
        )
    for item in (i for i in asked if i not in without_gpu):
        mark, style = _MARK[item.state]
        grid.add_row(Text(f"  {mark}", style=style), Text(item.item).append(f"  {item.because}", style="dim"))
    return [Text("Checklist", style="bold"), grid]


def _ruled_out(subject: SubjectReport, *, everything: bool) -> list[RenderableType]:
    shown = subject.ruled_out if everything else subject.ruled_out[:_SHORT]
    grid = _pair_grid()
    for item in shown:
        grid.add_row(f"  {item.cause}", item.because)
    left = len(subject.ruled_out) - len(shown)
    more = [Text(f"  and {left} more: --all", style="dim")] if left else []
    return [Text("Ruled out", style="bold"), grid, *more]


def _untold(subject: SubjectReport, *, everything: bool) -> list[RenderableType]:
    """Suspicions first; the rest only on demand."""
    suspected = [item for item in subject.cannot_tell if item.suspected]
    others = [item for item in subject.cannot_tell if not item.suspected]
    parts: list[RenderableType] = (
        ["", Text("Suspected, not proven", style="bold"), _lacks(suspected)] if suspected else []
    )
    if others and everything:
        parts += ["", Text("Could not tell", style="bold"), _lacks(others)]
    elif others:
        causes = f"{len(others)} {'more ' if suspected else ''}cause{'' if len(others) == 1 else 's'}"
        where = " from this text" if _is_of_a_text(subject) else ""
        parts += ["", Text(f"{causes} could not be judged{where}: --all", style="dim")]
    return parts


def _lacks(items: list[Untold]) -> RenderableType:
    grid = _pair_grid()
    for item in items:
        missing = f" ({item.missing})" if item.missing != item.because and not item.suspected else ""
        how = f"; to find out: {item.how_to_get}" if item.how_to_get else ""
        grid.add_row(f"  {item.cause}", f"{item.because}{missing}{how}")
    return grid
