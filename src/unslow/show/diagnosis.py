"""The diagnosis for a person at a terminal: the verdict first, then the causes, where the time goes, and the proof."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from unslow.facts.values import NOT_LOOKED
from unslow.show import units
from unslow.show.console import TextConsole, clean_report, command_text, indent_text, mark_grid, pair_grid, verdict_head
from unslow.think.case.speed import DECODE, PREFILL
from unslow.think.judge.headline import AS_MUCH_AS_FITS
from unslow.think.judge.pricing import UNEXPLAINED
from unslow.think.judge.summary import is_for
from unslow.think.judge.verdict import Chain, chains_of
from unslow.think.report import BudgetPart, ChecklistItem, Finding, Fix, Range, Report, SubjectReport, Untold

_MARK = {"ok": ("✓", "green"), "bad": ("✗", "red"), "unknown": ("?", "yellow")}
_SHADES = ("cyan", "magenta", "blue", "yellow", "green", "red")
_RATES = {DECODE: "decode", PREFILL: "prefill"}
_SHORT = 40  # Characters of a value: so few may be said twice
_NAMES = 13  # Columns of the names on the left: those of "evidence", the longest of them
_Row = tuple[str, Text] | str  # A name with its words, or a line to copy


def render(report: Report, *, width: int, color: bool, everything: bool) -> str:
    """The report as text, with colours where the terminal has them."""
    console = TextConsole(width=width, color=color)
    report = clean_report(report)
    for subject in report.subjects:
        # commands to copy may be wider than the terminal: it wraps them without cutting them
        console.print(_subject(subject, everything=everything, width=console.width), crop=False)
    if not report.subjects:
        console.print("Nothing to diagnose.")
    return console.text


def _subject(subject: SubjectReport, *, everything: bool, width: int) -> RenderableType:
    title = verdict_head(subject.verdict, units.subject_title(subject))
    parts: list[RenderableType] = [title, "", indent_text(subject.summary)]
    if subject.findings:
        chains = enumerate(chains_of(subject.findings), 1)
        parts += ["", Text("Why", style="bold")]
        parts += [_chain(number, chain, subject, everything=everything) for number, chain in chains]
    speed = _speed(subject)
    parts += ["", Text("Speed", style="bold"), *speed] if speed else [""]
    for phase, budget in units.phase_parts(subject.budget):
        parts += ["", _block(phase, budget if everything else units.fold_small_parts(budget), bar=min(60, width - 4))]
    if subject.contradictions:
        grid = pair_grid()
        for conflict in subject.contradictions:
            grid.add_row(f"  {conflict.about}", "; ".join(conflict.says))
            if conflict.meaning:
                grid.add_row("", Text(conflict.meaning, style="italic"))
        parts += ["", Text("Contradictions", style="bold"), grid]
    if subject.ask_next:
        parts += ["", Text("To narrow it down, run", style="bold")]
        for question in subject.ask_next:  # commands to copy: each on a line of its own, not wrapped
            parts += [command_text(question.command), indent_text(question.why, "dim", 6)]
    if subject.known:
        grid = pair_grid()
        for fact in subject.known:
            told = ", as written" if fact.origin == "told" else ""
            text = Text(units.value_text(fact.fact, fact.value)).append(f"  [{fact.source}{told}]", style="dim")
            grid.add_row(f"  {units.label(fact.fact)}", text)
        parts += ["", Text("Read from the text", style="bold"), grid]
    # Every question of the guides; of a text, whose writer is spared long lists, only those that it answers
    all_asked = everything or not (subject.known or subject.ask_next or subject.verdict == "failed")
    if asked := [item for item in subject.checklist if all_asked or item.state != "unknown"]:
        parts += ["", *_checklist_parts(asked)]
    if suspected := [item for item in subject.cannot_tell if item.suspected]:
        parts += ["", Text("Suspected, not proven", style="bold"), _undetermined_causes(suspected)]
    parts += _other_causes(subject) if everything else _other_causes_counted(subject)
    parts += [Text(note, style="italic") for note in subject.notes]
    return Group(*parts, "")


def _chain(number: int, chain: Chain, subject: SubjectReport, *, everything: bool) -> RenderableType:
    root = chain.root
    head = Text(root.title, style="bold").append(f"  ({root.cause}, {root.confidence:.0%} sure)", style="dim")
    best = max((f.predicted.get(DECODE, 0.0) for f in root.fixes), default=0.0)
    price = units.cause_cost_text(number, root, subject)
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
            rows += _fixes(others, "or", commands=False)
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


def _fixes(fixes: Sequence[Fix], first: str = "fix", *, commands: bool = True) -> Iterator[_Row]:
    for number, fix in enumerate(fixes):
        then = units.fix_effect(fix.predicted)
        gives = f" → {then}" if then else ""
        risk = f" (risk: {fix.risk})" if fix.risk else ""
        yield "or" if number else first, Text(f"{fix.why}{gives}{risk}")
        yield from fix.commands if commands else ()


def _evidence(finding: Finding) -> Iterator[_Row]:
    """What shows it; what `because` has word for word is not said again."""
    for item in finding.evidence:
        against = f" ({item.reference})" if item.reference else ""
        value = units.value_text(item.fact, item.value)
        said = "" if len(value) > _SHORT and value in finding.because else f": {value}"
        text = Text(f"{units.label(item.fact)}{said}{against}")
        yield "evidence", text.append(f"  [{item.origin}: {item.source}]", style="dim")


def _speed(subject: SubjectReport) -> list[RenderableType]:
    """The measured speeds on a line, then what is expected, achievable and possible at all."""
    grid, measured, expected = pair_grid(), subject.measured, subject.expected
    speeds: list[str] = []
    for metric, name in _RATES.items():
        if metric in measured:
            now = None if speeds else expected.as_configured.get(metric)
            against = f" (expected with these settings {units.rate(now.mid)})" if now else ""
            speeds.append(f"{name} {units.rate(measured[metric])}{'' if speeds else ' tok/s'}{against}")
    if subject.url:
        grid.add_row("  server", subject.url + (f", process {subject.pid}" if subject.pid else ""))
    note = f", {AS_MUCH_AS_FITS}" if expected.because == AS_MUCH_AS_FITS else ""
    if expected.as_configured != expected.achievable and (ranges := _ranges(expected.as_configured)):
        grid.add_row("  expected", f"{ranges}{note}")
    if ranges := _ranges(expected.achievable):
        grid.add_row("  achievable", f"{ranges}{note}")
    elif expected.because:
        why = "too little is known" if expected.because == NOT_LOOKED.why else expected.because
        grid.add_row("  expected", f"no prediction: {why}")
    if ceiling := expected.ceiling_tokens_per_s:
        share = f" ({measured[DECODE] / ceiling:.0%} reached)" if DECODE in measured else ""
        grid.add_row("  ceiling", f"decode {units.rate(ceiling)} tok/s, set by memory bandwidth{share}")
    for key, name in (("time_to_first_token_s", "first token"), ("load_s", "load"), ("queue_s", "queue")):
        if key in measured:
            best = expected.achievable.get(key)
            soon = f" (achievable: about {units.span(best.mid)})" if best and best.mid < measured[key] else ""
            grid.add_row(f"  {name}", f"{units.span(measured[key])}{soon}")
    line = [indent_text(" · ".join(speeds), "bold")] if speeds else []
    return [*line, *([grid] if grid.row_count else [])]


def _ranges(expected: Mapping[str, Range]) -> str:
    known = ((name, expected[metric]) for metric, name in _RATES.items() if metric in expected)
    rates = ((name, *map(units.rate, (r.mid, r.low, r.high))) for name, r in known)
    return " · ".join(f"{name} {mid} tok/s ({low} to {high})" for name, mid, low, high in rates)


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
        took = units.span(part.seconds) if part.seconds > 0 else "-"
        legend.add_row(mark, f"{took:>8}  {part.seconds / total:4.0%}")
    title = Text(units.budget_title(phase, total), style="bold")
    whole = [p for p in parts if p.seconds >= total and p.part != UNEXPLAINED]
    if whole:  # a bar of one part shows nothing
        return Text.assemble(title, (f" ({whole[0].part})", "not bold"))
    return Group(title, line, legend)


def _checklist_parts(asked: list[ChecklistItem]) -> list[RenderableType]:
    grid, without_gpu = mark_grid(), [i for i in asked if i.because == "there is no GPU"]
    if without_gpu:
        words = f"{len(without_gpu)} GPU checks skipped: there is no GPU"
        grid.add_row(Text("  –", style="dim"), Text(words, style="dim"))
    for item in (i for i in asked if i not in without_gpu):
        mark, style = _MARK[item.state]
        grid.add_row(Text(f"  {mark}", style=style), Text(item.item).append(f"  {item.because}", style="dim"))
    return [Text("Checklist", style="bold"), grid]


def _other_causes(subject: SubjectReport) -> list[RenderableType]:
    grid, others = pair_grid(), [item for item in subject.cannot_tell if not item.suspected]
    for item in subject.ruled_out:
        grid.add_row(f"  {item.cause}", item.because)
    parts: list[RenderableType] = ["", Text("Ruled out", style="bold"), grid] if subject.ruled_out else []
    if others:
        parts += ["", Text("Undetermined", style="bold"), _undetermined_causes(others)]
    return parts


def _other_causes_counted(subject: SubjectReport) -> list[RenderableType]:
    """How many causes are not told of, and of those that could not be judged what would settle most."""
    others = [item for item in subject.cannot_tell if not item.suspected]
    numbers = {"ruled out": len(subject.ruled_out), "undetermined": len(others)}
    counts = [f"{number} {state}" for state, number in numbers.items() if number]
    if not counts:
        return []
    first, _, rest = ", ".join(counts).partition(" ")
    told = Text(f"{first} other cause{'' if first == '1' else 's'} {rest} (details: --all)", style="dim")
    # a text is asked for commands, and a proven cause is enough
    settled: dict[str, list[str]] = {}
    is_open = not (subject.findings or subject.verdict == "normal" or subject.known or subject.ask_next)
    for item in others if is_open else ():
        if item.how_to_get and is_for(item.how_to_get, subject.runtime):
            settled.setdefault(item.how_to_get, []).append(item.cause)
    if not settled:
        return ["", told]
    grid = mark_grid()
    for how, causes in sorted(settled.items(), key=lambda way: -len(way[1]))[:3]:
        names = ", ".join(causes[:2]) + (" …" if len(causes) > 2 else "")  # noqa: PLR2004 (two say enough)
        grid.add_row("  –", Text(how).append(f"  for {names}", style="dim"))
    return ["", told, Text("  to determine more of them:", style="dim"), grid]


def _undetermined_causes(items: list[Untold]) -> RenderableType:
    grid = pair_grid()
    for item in items:
        missing = f" ({item.missing})" if item.missing != item.because and not item.suspected else ""
        how = f"; to find out: {item.how_to_get}" if item.how_to_get else ""
        grid.add_row(f"  {item.cause}", f"{item.because}{missing}{how}")
    return grid
