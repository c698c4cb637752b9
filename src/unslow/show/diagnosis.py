"""The diagnosis for a person at a terminal: the verdict first, then the causes, where the time goes, and the proof."""

from collections.abc import Iterator
from itertools import groupby

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from unslow.facts.values import NOT_LOOKED
from unslow.show.clean import cleaned
from unslow.show.console import GREEN, RED, YELLOW, TextConsole, command_text, head, indented, mark_grid, pair_grid
from unslow.show.labels import budget_title, folded, label, price_of, promised, subject_title, told_phases, worded_value
from unslow.show.units import rate, span
from unslow.think.case.prediction import DECODE
from unslow.think.judge.budget import UNEXPLAINED
from unslow.think.judge.chains import Chain, chains_of
from unslow.think.judge.headline import AS_MUCH_AS_FITS
from unslow.think.judge.summary import is_for
from unslow.think.report import BudgetPart, ChecklistItem, Finding, Fix, Range, Report, SubjectReport, Untold

_HEADS = {
    "slow": ("SLOW", RED), "failed": ("FAILED", RED), "normal": ("NORMAL", GREEN),
    "cannot_tell": ("CAN'T TELL", YELLOW),
}  # fmt: skip
_MARK = {"ok": ("✓", "green"), "bad": ("✗", "red"), "unknown": ("?", "yellow")}
_SHADES = ("cyan", "magenta", "blue", "yellow", "green", "red")
_DECODE, _PREFILL = "decode_tokens_per_s", "prefill_tokens_per_s"
_SHORT = 40  # Characters of a value: so few may be said twice
_NAMES = 12  # Columns of the names on the left: those of "because", the longest of them
_Row = tuple[str, Text] | str  # A name with its words, or a line to copy


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
    word, style = _HEADS[subject.verdict]
    parts: list[RenderableType] = [head(word, subject_title(subject), style), "", indented(subject.summary)]
    if subject.findings:
        chains = enumerate(chains_of(subject.findings), 1)
        parts += ["", Text("Why", style="bold")]
        parts += [_chain(number, chain, subject, everything=everything) for number, chain in chains]
    speed = _speed(subject)
    parts += ["", Text("How fast", style="bold"), speed] if speed.row_count else [""]
    for phase, budget in told_phases(subject.budget):
        parts += ["", _block(phase, budget if everything else folded(budget), bar=min(60, width - 4))]
    if subject.contradictions:
        grid = pair_grid()
        for conflict in subject.contradictions:
            grid.add_row(f"  {conflict.about}", "; ".join(conflict.says))
            if conflict.meaning:
                grid.add_row("", Text(conflict.meaning, style="italic"))
        parts += ["", Text("Contradictions", style="bold"), grid]
    if subject.ask_next:
        parts += ["", Text("To settle it, run", style="bold")]
        for question in subject.ask_next:  # commands to copy: each on a line of its own, not wrapped
            parts += [command_text(question.command), indented(question.why, "dim", 6)]
    if subject.known:
        grid = pair_grid()
        for fact in subject.known:
            told = ", in words" if fact.origin == "told" else ""
            text = Text(worded_value(fact.fact, fact.value)).append(f"  [{fact.source}{told}]", style="dim")
            grid.add_row(f"  {label(fact.fact)}", text)
        parts += ["", Text("Understood from the text", style="bold"), grid]
    # Every question of the guides; of a text only those that it answers
    all_asked = everything or not (_is_of_a_text(subject) or subject.verdict == "failed")
    if asked := [item for item in subject.checklist if all_asked or item.state != "unknown"]:
        parts += ["", *_answered(asked)]
    if suspected := [item for item in subject.cannot_tell if item.suspected]:
        parts += ["", Text("Suspected, not proven", style="bold"), _lacks(suspected)]
    parts += _listed(subject) if everything else _counted(subject)
    parts += [Text(note, style="italic") for note in subject.notes]
    return Group(*parts, "")


def _chain(number: int, chain: Chain, subject: SubjectReport, *, everything: bool) -> RenderableType:
    root = chain.root
    head = Text(root.title, style="bold").append(f"  ({root.cause}, {root.confidence:.0%} sure)", style="dim")
    best = max((f.predicted.get(DECODE, 0.0) for f in root.fixes), default=0.0)
    price = price_of(number, root, subject)
    rows: list[_Row] = [("costs", Text(price, style="green"))] if price else []
    rows += [("because", Text(root.because)), *_fixes(root.fixes), *_evidence(root)]
    grid = mark_grid()
    grid.add_row(Text(f"  {number}.", style="bold"), head)
    arrows = []
    for depth, link in enumerate(chain.after):  # consequences: each a step further in
        words = Text(f"→ {link.title}").append(f"  ({link.cause})", style="dim")
        arrows.append(Padding(words, (0, 0, 0, 5 + 2 * depth)))
        rows.append(("then", Text(link.because, style="" if everything else "dim")))
        if everything:
            rows += [*_evidence(link), *_fixes(link.fixes)]
        else:  # its own fixes are other ways out, where they give half of the best or more
            others = [fix for fix in link.fixes[:1] if fix.predicted.get(DECODE, best) >= best / 2]
            rows += [("or", Text(_told(fix))) for fix in others]
    return Group(grid, *arrows, *_in_columns(rows))


def _in_columns(rows: list[_Row]) -> Iterator[RenderableType]:
    """Names and words in two columns; a line to copy stands between them, where no column cuts it."""
    for is_line, some in groupby(rows, key=lambda row: isinstance(row, str)):
        if is_line:
            yield from (command_text(str(line), _NAMES + 2) for line in some)
        else:
            grid = pair_grid()
            grid.columns[0].min_width = _NAMES
            for name, words in (row for row in some if not isinstance(row, str)):
                grid.add_row(f"     {name}", words)
            yield grid


def _fixes(fixes: tuple[Fix, ...]) -> Iterator[_Row]:
    for number, fix in enumerate(fixes):
        yield "or" if number else "fix", Text(_told(fix))
        yield from fix.commands


def _told(fix: Fix) -> str:
    then = promised(fix.predicted)
    gives = f" → {then}" if then else ""
    risk = f" (careful: {fix.risk})" if fix.risk else ""
    return f"{fix.why}{gives}{risk}"


def _evidence(finding: Finding) -> Iterator[_Row]:
    """What shows it; what `because` has word for word is not said again."""
    for item in finding.evidence:
        against = f" ({item.reference})" if item.reference else ""
        value = worded_value(item.fact, item.value)
        said = "" if len(value) > _SHORT and value in finding.because else f": {value}"
        text = Text(f"{label(item.fact)}{said}{against}")
        yield "seen", text.append(f"  [{item.origin}: {item.source}]", style="dim")


def _speed(subject: SubjectReport) -> Table:
    grid = pair_grid()
    measured, expected = subject.measured, subject.expected
    if subject.url:
        grid.add_row("  server", subject.url + (f", process {subject.pid}" if subject.pid else ""))
    _pace(grid, subject, _DECODE, "answers")
    if expected.ceiling_tokens_per_s:
        share = f", {measured[_DECODE] / expected.ceiling_tokens_per_s:.0%} reached" if _DECODE in measured else ""
        grid.add_row("  ceiling", f"{rate(expected.ceiling_tokens_per_s)} tok/s by memory bandwidth alone{share}")
    if expected.because and not expected.achievable:
        why = "too little is known" if expected.because == NOT_LOOKED.why else expected.because
        grid.add_row("  expected", f"no prediction: {why}")
    _pace(grid, subject, _PREFILL, "prompts")
    for key, name in (("time_to_first_token_s", "first token"), ("load_s", "load"), ("queue_s", "queue")):
        if key in measured:
            best = expected.achievable.get(key)
            soon = f", about {span(best.mid)} achievable" if best and best.mid < measured[key] else ""
            grid.add_row(f"  {name}", f"{span(measured[key])}{soon}")
    return grid


def _pace(grid: Table, subject: SubjectReport, metric: str, name: str) -> None:
    """The measured speed, and what physics expects as it is set up and at best: once where that is the same."""
    if metric in subject.measured:
        grid.add_row(f"  {name}", Text(f"{rate(subject.measured[metric])} tok/s measured", style="bold"))
    expected = subject.expected
    now, best = expected.as_configured.get(metric), expected.achievable.get(metric)
    note = f", {AS_MUCH_AS_FITS}" if expected.because == AS_MUCH_AS_FITS else ""
    if now and now != best:
        grid.add_row("  as set up", f"{_interval(now)}{note}")
    if best:
        grid.add_row("  achievable", f"{_interval(best)}{note}")


def _interval(value: Range) -> str:
    return f"{rate(value.mid)} tok/s expected, {rate(value.low)} to {rate(value.high)} likely"


def _block(phase: str, parts: list[BudgetPart], bar: int) -> RenderableType:
    total = sum(p.seconds for p in parts) or 1.0
    line, legend, edge = Text("  "), pair_grid(), 0.0
    for part, shade in zip(parts, _SHADES * 3, strict=False):
        unexplained = part.part == UNEXPLAINED
        style = "dim" if unexplained else shade
        # edges are rounded, not lengths, so that the sum is exact
        start, edge = edge, edge + bar * part.seconds / total
        line.append(("░" if unexplained else "█") * (round(edge) - round(start)), style=style)
        mark = Text("  ░ " if unexplained else "  ■ ", style=style).append(part.part, style="default")
        took = span(part.seconds) if part.seconds > 0 else "-"
        legend.add_row(mark, f"{took:>8}  {part.seconds / total:4.0%}")
    title = Text(budget_title(phase, total), style="bold")
    whole = [p for p in parts if p.seconds >= total and p.part != UNEXPLAINED]
    if whole:  # a bar of one part shows nothing
        return Text.assemble(title, (f": {whole[0].part}", "not bold"))
    return Group(title, line, legend)


def _answered(asked: list[ChecklistItem]) -> list[RenderableType]:
    grid, without_gpu = mark_grid(), [i for i in asked if i.because == "there is no GPU"]
    if without_gpu:
        words = f"{len(without_gpu)} questions about the GPU: there is none"
        grid.add_row(Text("  –", style="dim"), Text(words, style="dim"))
    for item in (i for i in asked if i not in without_gpu):
        mark, style = _MARK[item.state]
        grid.add_row(Text(f"  {mark}", style=style), Text(item.item).append(f"  {item.because}", style="dim"))
    return [Text("Checklist", style="bold"), grid]


def _is_of_a_text(subject: SubjectReport) -> bool:
    """Whether a text was read: whoever wrote it is asked for commands, and spared the long lists."""
    return bool(subject.known or subject.ask_next)


def _listed(subject: SubjectReport) -> list[RenderableType]:
    grid, others = pair_grid(), [item for item in subject.cannot_tell if not item.suspected]
    for item in subject.ruled_out:
        grid.add_row(f"  {item.cause}", item.because)
    parts: list[RenderableType] = ["", Text("Ruled out", style="bold"), grid] if subject.ruled_out else []
    if others:
        parts += ["", Text("Could not tell", style="bold"), _lacks(others)]
    return parts


def _counted(subject: SubjectReport) -> list[RenderableType]:
    """How many causes are not told of, and of those that could not be judged what would settle most."""
    others = [item for item in subject.cannot_tell if not item.suspected]
    where = " from this text" if _is_of_a_text(subject) else ""
    ruled_out = len(subject.ruled_out)
    counts = [f"{ruled_out} {'is' if ruled_out == 1 else 'are'} ruled out"] if ruled_out else []
    counts += [f"{len(others)} could not be judged{where}"] if others else []
    if not counts:
        return []
    told = Text(f"Of the other causes {' and '.join(counts)}: --all lists why", style="dim")
    # a text is asked for commands, and a proven cause is enough
    settled: dict[str, list[str]] = {}
    is_open = not (subject.findings or subject.verdict == "normal" or _is_of_a_text(subject))
    for item in others if is_open else ():
        if item.how_to_get and is_for(item.how_to_get, subject.runtime):
            settled.setdefault(item.how_to_get, []).append(item.cause)
    if not settled:
        return ["", told]
    grid = mark_grid()
    for how, causes in sorted(settled.items(), key=lambda way: -len(way[1]))[:3]:
        names = ", ".join(causes[:2]) + (" …" if len(causes) > 2 else "")  # noqa: PLR2004 (two say enough)
        grid.add_row("  –", Text(how).append(f"  for {names}", style="dim"))
    return ["", told, Text("  to judge more of them:", style="dim"), grid]


def _lacks(items: list[Untold]) -> RenderableType:
    grid = pair_grid()
    for item in items:
        missing = f" ({item.missing})" if item.missing != item.because and not item.suspected else ""
        how = f"; to find out: {item.how_to_get}" if item.how_to_get else ""
        grid.add_row(f"  {item.cause}", f"{item.because}{missing}{how}")
    return grid
