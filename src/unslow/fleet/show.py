"""The diagnosis of a fleet for a person or a program: what matters for all of it first, then the worst instances."""

from collections.abc import Iterator
from shlex import quote

import msgspec
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from unslow.facts.commands import Place, parse_line
from unslow.fleet.openmetrics import Family, Sample, families_text, gauge, label_value
from unslow.fleet.report import FleetReport, Instance, Kind, Odd, PeerGroup, Statement
from unslow.show import console
from unslow.show.markdown import escape_markdown, prose
from unslow.show.units import rate, span
from unslow.think.causes import all_causes
from unslow.think.judge.verdict import chains_of

URGENT: tuple[Kind, ...] = ("partial", "limit", "down", "skew", "stale", "duplicates")
"""What makes everything after it doubtful: said before anything else."""
VERDICTS = {"failed": "failed", "slow": "slow", "idle": "idle", "cannot_tell": "undetermined", "normal": "normal"}
MOST_INSTANCES, MOST_CAUSES, MOST_ODD, MOST_UNTOLD = 10, 12, 10, 4  # Lines of each list
MOST_OF_ALL = 1000  # Instances that anybody reads, with --all too; JSON has all of them
LONGEST_COMMAND = 100
USUAL_WINDOW_S = 900.0  # What `unslow fleet` takes where nobody says otherwise
_DAY_S = 86400.0
_HOUR_S = 3600.0  # Prometheus counts time in seconds alone
_MILLION = 1e6
_HARDLY_IDLE = 0.01  # Of the GPUs' time: what rounding and the gaps between two requests leave
_LOOK_THERE = "run `unslow` on its machine: it reads settings, logs and other processes, which Prometheus lacks"
_MARGIN = _GAP = 2
_CAUSES = (
    console.Column("CAUSE", right=False), console.Column("INSTANCES"), console.Column("TOK/S LOST"),
    console.Column("GPU-H/DAY", spare=1), console.Column("WORST ON", right=False, spare=2),
)  # fmt: skip


def _parts(
    whole: FleetReport, width: int, *, everything: bool = False, top: int = MOST_INSTANCES
) -> Iterator[RenderableType]:
    """`top` is how many instances are shown, `everything` shows all that are slow."""
    report = shown_part(whole, top, everything=everything)
    slow = whole.verdicts.get("slow", 0) + whole.verdicts.get("failed", 0)
    urgent = [_statement(Text("!", style="bold yellow"), one) for one in statement_lines(report, urgent=True)]
    yield from (*urgent, "") if urgent else ()
    normal, open_ones = report.verdicts.get("normal", 0), report.verdicts.get("cannot_tell", 0) - report.idle
    untold = " IDLE " if report.idle and open_ones <= 0 else " CANNOT TELL "
    sure = normal > max(0, open_ones)  # a fleet of which most can't be told is not called normal
    word, style = f" {slow:,} SLOW ", console.RED
    if not slow:
        word, style = (" NORMAL ", console.GREEN) if sure else (untold, console.YELLOW)
    yield console.hanging_grid(Text(word, style=style), Text(fleet_headline(report), style="bold"))
    if given := given_words(report):
        yield console.dim(given)
    yield console.dim(about_words(report))
    if report.causes:
        yield from ("", Text("Why", style="bold"), Padding(_causes(report, width, everything=everything), (0, 0, 0, 2)))
    if report.instances:
        shown = len(report.instances)
        part = f" ({shown} of {slow:,}; more with --top N or --all)" if shown < slow else ""
        yield from ("", Text(f"Largest losses{part}", style="bold"))
        beside = {one.key: one.summary for group in report.peers for one in group.odd}
        for number, one in enumerate(report.instances, 1):
            yield from _instance(number, one, report.window_s, beside.get(one.key, ""))
    yield from _odd_lines(report, everything=everything)
    if report.untold:
        yield from ("", Text("Why some are undetermined", style="bold"))
        for because, count in list(report.untold.items())[:MOST_UNTOLD]:
            yield console.indent_text(f"{count:,}: {because}")
    others = statement_lines(report, urgent=False)
    if others:
        yield from ("", Text("To learn more" if any(one.hint for one in others) else "Also", style="bold"))
    yield from (_statement(Text("  –"), one) for one in others)
    if command := next_command(report):
        yield from ("", Text("Full report of one instance", style="bold"))
        yield console.command_text(command)


def _statement(mark: Text, one: Statement) -> RenderableType:
    hint = [Text(one.hint, style="dim")] if one.hint else []
    return console.hanging_grid(mark, Text(f"{one.text}{concerned_words(one)}"), *hint)


def _causes(report: FleetReport, width: int, *, everything: bool) -> RenderableType:
    shown = report.causes if everything else report.causes[:MOST_CAUSES]
    rows = [
        (
            one.title, f"{one.instances:,}", tokens_words(one.tokens_per_s or None),
            gpu_hours_a_day(one.gpu_hours or None, report.window_s), one.worst[0] if one.worst else "",
        )
        for one in shown
    ]  # fmt: skip
    columns = zip(_CAUSES, *rows, strict=True)
    wide = sum(max(len(cell) for cell in (column.name, *cells)) + _GAP for column, *cells in columns)
    fits = wide <= width - _MARGIN  # the names of causes are worth more than that of an instance
    return console.table_of(_CAUSES if fits else _CAUSES[:-1], rows, width - _MARGIN)


def _instance(number: int, one: Instance, window_s: float, beside: str) -> Iterator[RenderableType]:
    name = Text(one.key, style="bold")
    if one.verdict == "failed":
        name.append("  FAILED", style="bold red")
    lines = [name.append(f"  {speed_words(one, window_s)}", style="not bold"), Text(names_words(one), style="dim")]
    lines.append(Text(cause_words(one)))
    if beside:
        lines.append(Text(beside, style="dim"))
    why, command = fix_words(one)
    if why or command:
        lines.append(Text("Fix: " if one.findings else "Next: ", style="green").append(why, style="default"))
    yield console.hanging_grid(Text(f"{number:>3}.", style="dim"), *lines)
    if command:
        yield console.command_text(command, 5)


def _odd_lines(report: FleetReport, *, everything: bool) -> Iterator[RenderableType]:
    odd, title, more = other_odd_ones(report, everything=everything)
    if odd:
        yield from ("", Text(f"{title}: same runtime, model and devices{more}", style="bold"))
    last = None
    for group, one in odd:
        if group is not last:
            kind = (group.runtime, group.model, group.devices or "unknown devices")
            yield console.dim(f"{' · '.join(kind)}, {group.judged:,} compared")
            last = group
        yield Padding(Text(one.key, style="bold").append(f"  {one.summary}", style="not bold"), (0, 0, 0, 4))


def _markdown(report: FleetReport, *, everything: bool = False, top: int = MOST_INSTANCES) -> str:
    part = shown_part(report, top, everything=everything)
    slow = report.verdicts.get("slow", 0) + report.verdicts.get("failed", 0)
    lines = [*_markdown_head(part, everything=everything), *_markdown_instances(part, slow)]
    lines += _markdown_rest(part, everything=everything)
    return "\n".join(lines).rstrip() + f"\n\n<sub>Written by unslow {escape_markdown(part.unslow_version)}.</sub>\n"


def _markdown_head(report: FleetReport, *, everything: bool) -> Iterator[str]:
    for said in statement_lines(report, urgent=True):
        hint = f" {prose(said.hint)}" if said.hint else ""
        yield f"> **{prose(said.text)}**{escape_markdown(concerned_words(said))}{hint}"
        yield ""
    headline = fleet_headline(report)
    yield f"### {escape_markdown(headline[0].upper() + headline[1:])}"
    if given := given_words(report):
        yield from ("", escape_markdown(given))
    yield from ("", f"From {escape_markdown(about_words(report))}.", "")
    if not report.causes:
        return
    yield from ("| cause | instances | tok/s lost | GPU-hours/day | worst on |", "|---|--:|--:|--:|---|")
    for one in report.causes if everything else report.causes[:MOST_CAUSES]:
        title, *worst = (escape_markdown(text).replace("|", "\\|") for text in (one.title, *one.worst[:3]))
        rate, hours = (tokens_words(one.tokens_per_s or None), gpu_hours_a_day(one.gpu_hours or None, report.window_s))
        yield f"| {title} | {one.instances:,} | {rate} | {hours} | {', '.join(worst)} |"
    yield ""


def _markdown_instances(report: FleetReport, slow: int) -> Iterator[str]:
    if not report.instances:
        return
    shown = len(report.instances)
    yield from (f"**Largest losses**{f' ({shown} of {slow:,})' if shown < slow else ''}", "")
    beside = {one.key: one.summary for group in report.peers for one in group.odd}  # those slower than their peers
    for number, one in enumerate(report.instances, 1):
        failed = ", **failed**" if one.verdict == "failed" else ""
        words = f"({escape_markdown(names_words(one))}): {speed_words(one, report.window_s)}"
        yield f"{number}. **{escape_markdown(one.key)}**{failed} {words}"
        yield f"   - {prose(cause_words(one))}"
        if one.key in beside:
            yield f"   - {prose(beside[one.key])}"
        why, command = fix_words(one)
        code = f"`{command}`" if command else ""
        if why or command:
            yield f"   - {'Fix' if one.findings else 'Next'}: {prose(why)}{f' ({code})' if code and why else code}"
    yield ""


def _markdown_rest(report: FleetReport, *, everything: bool) -> Iterator[str]:
    odd, title, more = other_odd_ones(report, everything=everything)
    if odd:
        yield from (f"**{title}**{more}", "")
        for group, one in odd:
            key, model, devices = map(escape_markdown, (one.key, group.model, group.devices))
            yield f"- **{key}** ({model} on {devices}): {prose(one.summary)}"
        yield ""
    if report.untold:
        yield from ("**Why some are undetermined**", "")
        yield from (f"- {count:,}: {prose(why)}" for why, count in list(report.untold.items())[:MOST_UNTOLD])
        yield ""
    for said in statement_lines(report, urgent=False):
        hint = f"; {prose(said.hint)}" if said.hint else ""
        yield f"- {prose(said.text)}{escape_markdown(concerned_words(said))}{hint}"


def metrics_of(report: FleetReport, **_: object) -> str:
    """No series of a single instance: those are in the Prometheus that was asked already.

    All are gauges, so that readers of the older text format, such as the textfile collector, take it as well.
    """
    version = (Sample(1, {"version": label_value(report.unslow_version)}),)
    verdicts = tuple(Sample(count, {"verdict": name}) for name, count in report.verdicts.items())
    lost, odd = report.lost, sum(len(group.odd) for group in report.peers)
    hours_lost = (lost.gpu_hours, lost.idle_gpu_hours)
    lost_s, idle_s = (None if hours is None else hours * _HOUR_S for hours in hours_lost)
    causes = [({"cause": label_value(one.cause)}, one) for one in report.causes]
    instances = tuple(Sample(one.instances, labels) for labels, one in causes)
    tokens = tuple(Sample(one.tokens_per_s, labels) for labels, one in causes if one.tokens_per_s is not None)
    hours = tuple(Sample(one.gpu_hours * _HOUR_S, labels) for labels, one in causes if one.gpu_hours is not None)
    families = [
        Family("unslow_fleet_build_info", "Version that judged.", version),
        Family("unslow_fleet_instances", "Instances by verdict.", verdicts),
        gauge("unslow_fleet_complete", "1 if every response was complete.", float(report.complete)),
        gauge("unslow_fleet_window_seconds", "Time window of the judgement.", report.window_s, "seconds"),
        gauge("unslow_fleet_queries", "Queries sent.", report.queries),
        gauge("unslow_fleet_duration_seconds", "Duration of queries and judgement.", report.seconds, "seconds"),
        gauge("unslow_fleet_gpus", "GPUs of all instances.", report.gpus),
        gauge("unslow_fleet_tokens_per_second", "Generated tokens of all instances.", report.tokens_per_s),
        gauge("unslow_fleet_lost_tokens_per_second", "Tokens lost to slow instances.", lost.tokens_per_s),
        gauge("unslow_fleet_lost_gpu_seconds", "GPU time lost.", lost_s, "seconds"),
        gauge("unslow_fleet_idle_gpu_seconds", "GPU time without requests.", idle_s, "seconds"),
        gauge("unslow_fleet_odd_instances", "Instances slower than their peers.", odd),
        Family("unslow_fleet_cause_instances", "Instances with a cause.", instances),
        Family("unslow_fleet_cause_lost_tokens_per_second", "Tokens lost to a cause.", tokens),
        Family("unslow_fleet_cause_lost_gpu_seconds", "GPU time of the window lost to a cause.", hours, unit="seconds"),
    ]
    return families_text(families, "openmetrics").rstrip("\n")


render_fleet = console.ReportKind(
    FleetReport, _parts, markdown=_markdown, openmetrics=metrics_of, called="a fleet", clean=False, crop=False
)


def shown_part(report: FleetReport, top: int, *, everything: bool) -> FleetReport:
    """The report with the instances that are shown alone, and clean: thousands of others need not be gone through."""
    most = MOST_OF_ALL if everything else top
    told = [one for one in report.instances if one.verdict in ("slow", "failed")]
    groups = tuple(group for group in report.peers if group.odd)
    return console.clean_report(msgspec.structs.replace(report, instances=tuple(told[:most]), peers=groups[:most]))


def statement_lines(report: FleetReport, *, urgent: bool) -> list[Statement]:
    """Those that must come first, in the order of their weight; or the others."""
    chosen = [one for one in report.statements if (one.kind in URGENT) is urgent]
    return sorted(chosen, key=lambda one: URGENT.index(one.kind)) if urgent else chosen


def concerned_words(statement: Statement) -> str:
    """How many it is about where it does not say so itself, and a few of them; empty where it is about everything."""
    count, said = f"{statement.instances:,}", statement.text.split()
    told = not statement.instances or count in said or str(statement.instances) in said
    parts = [] if told else [f"{count} instance{'s' if statement.instances != 1 else ''}"]
    if statement.such_as:
        more = ", ..." if statement.instances > len(statement.such_as) else ""
        parts.append(f"{', '.join(statement.such_as)}{more}")
    return f" ({': '.join(parts)})" if parts else ""


def fleet_headline(report: FleetReport) -> str:
    """How many there are of each verdict, and what is lost."""
    count = sum(report.verdicts.values())
    if not count:
        return "no instances of a supported runtime found"
    counts = {**report.verdicts, "idle": report.idle}
    counts["cannot_tell"] = counts.get("cannot_tell", 0) - report.idle
    order = ("normal", "slow", "failed", "idle", "cannot_tell")
    parts = [f"{counts[name]:,} {VERDICTS[name]}" for name in order if counts.get(name)]
    loss = report.lost
    amounts = [f"{tokens_words(loss.tokens_per_s)} tok/s"] if loss.tokens_per_s else []
    amounts += [f"{gpu_hours_a_day(loss.gpu_hours, report.window_s)} GPU-hours/day"] if loss.gpu_hours else []
    lost = "loss unknown" if loss.tokens_per_s is None else "nothing lost"
    lost = f"{' and '.join(amounts)} lost" if amounts else lost
    return f"{count:,} instance{'s' if count > 1 else ''}, {', '.join(parts)}: {lost}"


def about_words(report: FleetReport) -> str:
    """Whom it asked, over which time, and what that took."""
    whole = "" if report.complete else ", some responses incomplete"
    taken = f"{report.queries} queries, {span(report.seconds)}{whole}"
    return f"{report.prometheus} at {report.taken_at}, last {span(report.window_s)}: {taken}"


def given_words(report: FleetReport) -> str:
    """What they give, what of the GPUs nobody asks, and of how many what is lost can't be told; empty for nobody."""
    if not any(report.verdicts.values()):
        return ""
    gpus = f" on {report.gpus:,} GPU{'s' if report.gpus > 1 else ''}" if report.gpus else ""
    words = f"Total {tokens_words(report.tokens_per_s) if report.tokens_per_s else 0} tok/s{gpus}"
    if report.tokens_per_s is None:
        words = f"Total throughput{gpus} unknown"
    hours, whole = report.lost.idle_gpu_hours or 0.0, (report.gpus or 0) * report.window_s / 3600
    if whole and hours >= _HARDLY_IDLE * whole:
        day = gpu_hours_a_day(hours, report.window_s)
        words += f", idle for {min(1.0, hours / whole):.0%} of the time ({day} GPU-hours/day)"
    return f"{words}. {report.lost.because}." if report.lost.because else f"{words}."


def tokens_words(tokens_per_s: float | None) -> str:
    """A speed, of a large fleet in millions; a dash where there is none."""
    if tokens_per_s is None:
        return "-"
    return f"{tokens_per_s / _MILLION:,.2f} M" if tokens_per_s >= _MILLION else rate(tokens_per_s)


def gpu_hours_a_day(hours: float | None, window_s: float) -> str:
    """GPU-hours of the window, as many as that is in a day."""
    return rate(hours * _DAY_S / window_s) if hours is not None and window_s > 0 else "-"


def other_odd_ones(report: FleetReport, *, everything: bool) -> tuple[list[tuple[PeerGroup, Odd]], str, str]:
    """Those that are slower than their peers and not among the shown instances, how to call them, and of how many."""
    named = {one.key for one in report.instances}
    odd = [(group, one) for group in report.peers for one in group.odd if one.key not in named]
    shown = odd if everything else odd[:MOST_ODD]
    more = f" ({len(shown)} of {len(odd):,})" if len(odd) > len(shown) else ""
    return shown, "Also slower than their peers" if named else "Slower than their peers", more


def names_words(one: Instance) -> str:
    """What it runs, on what."""
    version = f" {one.version}" if one.version else ""
    device = one.devices[0] if one.devices else ""
    alike = one.devices.count(device)
    devices = f"{alike} x {device}" if alike > 1 else device
    return " · ".join(part for part in (f"{one.runtime}{version}", one.model, devices) if part)


def cause_words(one: Instance) -> str:
    """The first of its causes in a line; where nothing was found, what its exporter names or what the summary says."""
    chains = chains_of(one.findings)
    if chains:
        others = f", and {len(chains) - 1} more" if len(chains) > 1 else ""
        return f"{chains[0].root.title}{others}: {chains[0].root.because}"
    if one.by_itself:
        known = all_causes().get(one.by_itself[0])
        others = f", and {len(one.by_itself) - 1} more" if len(one.by_itself) > 1 else ""
        return f"{known.title if known else one.by_itself[0]}{others}: reported by `unslow exporter` on its machine"
    return ". ".join(one.summary.split(". ")[:2]).rstrip(".") + "."


def fix_words(one: Instance) -> tuple[str, str]:
    """The first thing to do, and the line to copy where it is short; both empty where a cause has no fix."""
    fixes = [fix for chain in chains_of(one.findings) for link in (chain.root, *chain.after) for fix in link.fixes]
    if not fixes:
        told = f"see `unslow explain {one.by_itself[0]}`" if one.by_itself else _LOOK_THERE
        return "" if one.findings else told, ""
    fix = fixes[0]
    lines = [line.text for command in fix.commands if (line := parse_line(command)).place is not Place.HAND]
    return fix.why, next((line for line in lines if len(line) <= LONGEST_COMMAND and "\n" not in line), "")


def speed_words(one: Instance, window_s: float) -> str:
    """What it loses beside what it gives, and in GPU-hours."""
    gives = f"generates {tokens_words(one.tokens_per_s)} tok/s" if one.tokens_per_s is not None else ""
    parts = [f"loses {tokens_words(one.lost.tokens_per_s)} tok/s" if one.lost.tokens_per_s else "", gives]
    parts += [f"{gpu_hours_a_day(one.lost.gpu_hours, window_s)} GPU-hours/day lost" if one.lost.gpu_hours else ""]
    return ", ".join(part for part in parts if part) or "loss unknown"


def next_command(report: FleetReport) -> str:
    """The command that shows the worst instance whole; empty where there is none to look at."""
    if not report.instances:
        return ""
    window = "" if report.window_s == USUAL_WINDOW_S else f" --window {report.window_s:.0f}s"
    asked = f"unslow fleet --prometheus {quote(report.prometheus)}{window}"
    return f"{asked} --instance {quote(report.instances[0].key)}"
