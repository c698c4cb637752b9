"""What is said of a fleet, in the words that a terminal and a page of Markdown share."""

from shlex import quote

import msgspec

from unslow.facts.placed import Place, line_of
from unslow.show._clean import cleaned
from unslow.show._units import rate, span
from unslow.think.causes import all_causes
from unslow.think.chains import chains_of
from unslow.think.fleet.report import FleetReport, Instance, Kind, Loss, Odd, PeerGroup, Statement

URGENT: tuple[Kind, ...] = ("partial", "limit", "down", "skew", "stale", "duplicates")
"""What makes everything after it doubtful: said before anything else."""
VERDICTS = {"failed": "failed", "slow": "slow", "idle": "idle", "cannot_tell": "can't be told", "normal": "normal"}
MOST_INSTANCES = 10
MOST_CAUSES = 12
MOST_ODD = 10
MOST_UNTOLD = 4
MOST_OF_ALL = 1000
"""Instances that anybody reads, with --all too; JSON has all of them."""
LONGEST_COMMAND = 100
USUAL_WINDOW_S = 900.0
"""What `unslow fleet` takes where nobody says otherwise."""
_DAY_S = 86400.0
_MILLION = 1e6
_HARDLY_IDLE = 0.01
"""Of the GPUs' time: what rounding and the gaps between two requests leave."""
_LOOK_THERE = "run `unslow` on its machine: it sees settings, the log and other processes, which Prometheus does not"


def shown_part(report: FleetReport, top: int, *, everything: bool) -> FleetReport:
    """The report with the instances that are shown alone, and clean: thousands of others need not be gone through."""
    most = MOST_OF_ALL if everything else top
    told = [one for one in report.instances if one.verdict in ("slow", "failed")]
    groups = tuple(group for group in report.peers if group.odd)
    return cleaned(msgspec.structs.replace(report, instances=tuple(told[:most]), peers=groups[:most]))


def statements(report: FleetReport, *, urgent: bool) -> list[Statement]:
    """Those that must come first, in the order of their weight; or the others."""
    chosen = [one for one in report.statements if (one.kind in URGENT) is urgent]
    return sorted(chosen, key=lambda one: URGENT.index(one.kind)) if urgent else chosen


def concerned(statement: Statement) -> str:
    """How many it is about where it does not say so itself, and a few of them; empty where it is about everything."""
    count, said = f"{statement.instances:,}", statement.text.split()
    told = not statement.instances or count in said or str(statement.instances) in said
    parts = [] if told else [f"{count} instance{'s' if statement.instances != 1 else ''}"]
    if statement.such_as:
        more = ", ..." if statement.instances > len(statement.such_as) else ""
        parts.append(f"{', '.join(statement.such_as)}{more}")
    return f" ({': '.join(parts)})" if parts else ""


def headline(report: FleetReport) -> str:
    """How many there are of each verdict, and what is lost."""
    count = sum(report.verdicts.values())
    if not count:
        return "no instances of a runtime that is known were found"
    counts = {**report.verdicts, "idle": report.idle}
    counts["cannot_tell"] = counts.get("cannot_tell", 0) - report.idle
    order = ("normal", "slow", "failed", "idle", "cannot_tell")
    parts = [f"{counts[name]:,} {VERDICTS[name]}" for name in order if counts.get(name)]
    return f"{count:,} instance{'s' if count > 1 else ''}, {', '.join(parts)}: {lost(report.lost, report.window_s)}"


def lost(loss: Loss, window_s: float) -> str:
    """What is lost, the GPU-hours as they would be in a day."""
    amounts = [f"{tokens(loss.tokens_per_s)} tok/s"] if loss.tokens_per_s else []
    amounts += [f"{gpu_hours_a_day(loss.gpu_hours, window_s)} GPU-hours a day"] if loss.gpu_hours else []
    if amounts:
        return f"{' and '.join(amounts)} lost"
    return "what is lost can't be told" if loss.tokens_per_s is None else "nothing lost"


def tokens(tokens_per_s: float | None) -> str:
    """A speed, of a large fleet in millions; a dash where there is none."""
    if tokens_per_s is None:
        return "-"
    return f"{tokens_per_s / _MILLION:,.2f} M" if tokens_per_s >= _MILLION else rate(tokens_per_s)


def gpu_hours_a_day(hours: float | None, window_s: float) -> str:
    """GPU-hours of the window, as many as that is in a day."""
    return rate(hours * _DAY_S / window_s) if hours is not None and window_s > 0 else "-"


def about(report: FleetReport) -> str:
    """Whom it asked, over which time, and what that took."""
    whole = "" if report.complete else ", not every answer was whole"
    return (
        f"{report.prometheus} at {report.taken_at}, the last {span(report.window_s)}: {report.queries} queries, "
        f"{span(report.seconds)}{whole}"
    )


def given(report: FleetReport) -> str:
    """What they give, what of the GPUs nobody asks, and of how many what is lost can't be told; empty for nobody."""
    count = sum(report.verdicts.values())
    if not count:
        return ""
    gpus = f" on {report.gpus:,} GPU{'s' if report.gpus > 1 else ''}" if report.gpus else ""
    parts = [f"{_rate(report, count, gpus)}{_idle(report)}."]
    if report.lost.because:
        parts.append(f"What {report.lost.because}.")
    return " ".join(parts)


def _rate(report: FleetReport, count: int, gpus: str) -> str:
    """What they give together; that nobody tells it is not that they give nothing."""
    they, verb = ("They", "give") if count > 1 else ("It", "gives")
    if report.tokens_per_s is None:
        return f"How many tokens {they.lower()} {verb}{gpus} is not known"
    return f"{they} {verb} {tokens(report.tokens_per_s) if report.tokens_per_s else 'no'} tok/s{gpus}"


def _idle(report: FleetReport) -> str:
    """How much of the GPUs' time nobody asks anything of them, where that is worth a word."""
    hours, whole = report.lost.idle_gpu_hours or 0.0, (report.gpus or 0) * report.window_s / 3600
    if not whole or hours < _HARDLY_IDLE * whole:
        return ""
    day = gpu_hours_a_day(hours, report.window_s)
    return f", idle for {min(1.0, hours / whole):.0%} of the time ({day} GPU-hours a day)"


def beside_peers(report: FleetReport) -> dict[str, str]:
    """What is said of those that are slower than their peers, by their keys."""
    return {one.key: one.summary for group in report.peers for one in group.odd}


def other_odd(report: FleetReport) -> list[tuple[PeerGroup, Odd]]:
    """Those that are slower than their peers and not among the instances that are shown, where it is said already."""
    shown = {one.key for one in report.instances}
    return [(group, one) for group in report.peers for one in group.odd if one.key not in shown]


def names(one: Instance) -> str:
    """What it runs, on what."""
    version = f" {one.version}" if one.version else ""
    devices = devices_words(one)
    return " · ".join(part for part in (f"{one.runtime}{version}", one.model, devices) if part)


def devices_words(one: Instance) -> str:
    """Its first device, with how many there are."""
    if not one.devices:
        return ""
    alike = one.devices.count(one.devices[0])
    return f"{alike} x {one.devices[0]}" if alike > 1 else one.devices[0]


def cause_words(one: Instance) -> str:
    """The first of its causes in a line; where nothing was found, what its exporter names or what the summary says."""
    chains = chains_of(one.findings)
    if chains:
        others = f", and {len(chains) - 1} more" if len(chains) > 1 else ""
        return f"{chains[0].root.title}{others}: {chains[0].root.because}"
    if one.by_itself:
        known = all_causes().get(one.by_itself[0])
        others = f", and {len(one.by_itself) - 1} more" if len(one.by_itself) > 1 else ""
        return f"{known.title if known else one.by_itself[0]}{others}: says `unslow exporter` on its machine"
    return ". ".join(one.summary.split(". ")[:2]).rstrip(".") + "."


def fix_words(one: Instance) -> tuple[str, str]:
    """The first thing to do, and the line to copy where it is short; both empty where a cause has no fix."""
    fixes = [fix for chain in chains_of(one.findings) for link in (chain.root, *chain.after) for fix in link.fixes]
    if not fixes:
        told = f"see `unslow explain {one.by_itself[0]}`" if one.by_itself else _LOOK_THERE
        return "" if one.findings else told, ""
    fix = fixes[0]
    lines = [line.text for command in fix.commands if (line := line_of(command)).place is not Place.HAND]
    return fix.why, next((line for line in lines if len(line) <= LONGEST_COMMAND and "\n" not in line), "")


def speed_words(one: Instance, window_s: float) -> str:
    """What it loses beside what it gives, and in GPU-hours."""
    gives = f"gives {tokens(one.tokens_per_s)} tok/s" if one.tokens_per_s is not None else ""
    parts = [f"loses {tokens(one.lost.tokens_per_s)} tok/s" if one.lost.tokens_per_s else "", gives]
    parts += [f"{gpu_hours_a_day(one.lost.gpu_hours, window_s)} GPU-hours a day lost" if one.lost.gpu_hours else ""]
    return ", ".join(part for part in parts if part) or "what it loses can't be told"


def next_command(report: FleetReport) -> str:
    """The command that shows the worst instance whole; empty where there is none to look at."""
    if not report.instances:
        return ""
    window = "" if report.window_s == USUAL_WINDOW_S else f" --window {report.window_s:.0f}s"
    asked = f"unslow fleet --prometheus {quote(report.prometheus)}{window}"
    return f"{asked} --instance {quote(report.instances[0].key)}"
