"""The diagnosis of a fleet for a person or a program: what matters for all of it first, then the worst instances."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from unslow.show import _fleet_words as words
from unslow.show._commands import command_text
from unslow.show._console import GREEN, RED, YELLOW, Column, dim, hung, indented, table_of
from unslow.show._fleet_markdown import markdown_of
from unslow.show._fleet_metrics import metrics_of
from unslow.show._kinds import ReportKind
from unslow.think.fleet.report import FleetReport, Instance

_MARGIN = _GAP = 2
_CAUSES = (
    Column("CAUSE", right=False), Column("INSTANCES"), Column("TOK/S LOST"), Column("GPU-H A DAY", spare=1),
    Column("MOST ON", right=False, spare=2),
)  # fmt: skip


def _slow(report: FleetReport) -> int:
    """How many are slow or failed, shown or not."""
    return report.verdicts.get("slow", 0) + report.verdicts.get("failed", 0)


def _parts(
    whole: FleetReport, width: int, *, everything: bool = False, top: int = words.MOST_INSTANCES
) -> Iterator[RenderableType]:
    """`top` is how many instances are shown, `everything` shows all that are slow."""
    report, slow = words.shown_part(whole, top, everything=everything), _slow(whole)
    yield from _urgent(report)
    yield _head(report, slow)
    if given := words.given(report):
        yield dim(given)
    yield dim(words.about(report))
    if report.causes:
        yield from ("", Text("Why", style="bold"), Padding(_causes(report, width, everything=everything), (0, 0, 0, 2)))
    if report.instances:
        yield from ("", Text(_title(report, slow), style="bold"))
        beside = words.beside_peers(report)
        for number, one in enumerate(report.instances, 1):
            yield from _instance(number, one, report.window_s, beside.get(one.key, ""))
    yield from _odd(report, everything=everything)
    yield from _untold(report)
    yield from _others(report)
    if command := words.next_command(report):
        yield from ("", Text("To see one whole", style="bold"))
        yield command_text(command)


def _urgent(report: FleetReport) -> Iterator[RenderableType]:
    urgent = words.statements(report, urgent=True)
    for one in urgent:
        said = [Text(f"{one.text}{words.concerned(one)}"), *([Text(one.hint, style="dim")] if one.hint else [])]
        yield hung(Text("!", style="bold yellow"), *said)
    if urgent:
        yield ""


def _head(report: FleetReport, slow: int) -> RenderableType:
    normal, open_ones = report.verdicts.get("normal", 0), report.verdicts.get("cannot_tell", 0) - report.idle
    untold = " IDLE " if report.idle and open_ones <= 0 else " CAN'T TELL "
    sure = normal > max(0, open_ones)  # a fleet of which most can't be told is not called normal
    word, style = (f" {slow:,} SLOW ", RED) if slow else (" NORMAL ", GREEN) if sure else (untold, YELLOW)
    return hung(Text(word, style=style), Text(words.headline(report), style="bold"))


def _causes(report: FleetReport, width: int, *, everything: bool) -> RenderableType:
    shown = report.causes if everything else report.causes[: words.MOST_CAUSES]
    rows = [
        (
            one.title, f"{one.instances:,}", words.tokens(one.tokens_per_s or None),
            words.gpu_hours_a_day(one.gpu_hours or None, report.window_s), one.worst[0] if one.worst else "",
        )
        for one in shown
    ]  # fmt: skip
    wide = [
        max(len(cell) for cell in (column.name, *cells)) + _GAP for column, *cells in zip(_CAUSES, *rows, strict=True)
    ]
    fits = sum(wide) <= width - _MARGIN  # the names of causes are worth more than that of an instance
    return table_of(_CAUSES if fits else _CAUSES[:-1], rows, width - _MARGIN)


def _title(report: FleetReport, slow: int) -> str:
    shown = len(report.instances)
    return "What loses most" if shown >= slow else f"What loses most ({shown} of {slow:,}; --top N or --all shows more)"


def _instance(number: int, one: Instance, window_s: float, beside: str) -> Iterator[RenderableType]:
    name = Text(one.key, style="bold")
    if one.verdict == "failed":
        name.append("  FAILED", style="bold red")
    lines = [
        name.append(f"  {words.speed_words(one, window_s)}", style="not bold"),
        Text(words.names(one), style="dim"),
    ]
    lines.append(Text(words.cause_words(one)))
    if beside:
        lines.append(Text(beside, style="dim"))
    why, command = words.fix_words(one)
    if why or command:
        lines.append(Text("First: ", style="green").append(why, style="default"))
    yield hung(Text(f"{number:>3}.", style="dim"), *lines)
    if command:
        yield command_text(command, 5)


def _odd(report: FleetReport, *, everything: bool) -> Iterator[RenderableType]:
    odd = words.other_odd(report)
    if not odd:
        return
    shown = odd if everything else odd[: words.MOST_ODD]
    more = f" ({len(shown)} of {len(odd):,})" if len(odd) > len(shown) else ""
    also = "Also slower" if report.instances else "Slower"
    yield from ("", Text(f"{also} than their peers: same runtime, model and devices{more}", style="bold"))
    last = None
    for group, one in shown:
        if group is not last:
            kind = (group.runtime, group.model, group.devices or "devices not known")
            yield dim(f"{' · '.join(kind)}, {group.judged:,} compared")
            last = group
        yield Padding(Text(one.key, style="bold").append(f"  {one.summary}", style="not bold"), (0, 0, 0, 4))


def _untold(report: FleetReport) -> Iterator[RenderableType]:
    if not report.untold:
        return
    yield from ("", Text("Why some could not be judged", style="bold"))
    for because, count in list(report.untold.items())[: words.MOST_UNTOLD]:
        yield indented(f"{count:,}: {because}")


def _others(report: FleetReport) -> Iterator[RenderableType]:
    others = words.statements(report, urgent=False)
    if others:
        yield from ("", Text("What would tell more" if any(one.hint for one in others) else "Also", style="bold"))
    for one in others:
        said = [Text(f"{one.text}{words.concerned(one)}"), *([Text(one.hint, style="dim")] if one.hint else [])]
        yield hung(Text("  –"), *said)


def _markdown(report: FleetReport, *, everything: bool = False, top: int = words.MOST_INSTANCES) -> str:
    part = words.shown_part(report, top, everything=everything)
    return markdown_of(part, slow=_slow(report), everything=everything)


render_fleet = ReportKind(
    FleetReport,
    _parts,
    markdown=_markdown,
    openmetrics=lambda report, **_: metrics_of(report),
    called="a fleet",
    clean=False,
    crop=False,
)
