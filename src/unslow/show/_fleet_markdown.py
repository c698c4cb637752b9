"""The diagnosis of a fleet as Markdown: for an issue that a job opens, or a chat."""

from collections.abc import Iterator

from unslow.show import _fleet_words as words
from unslow.show.markdown import escaped, prose
from unslow.think.fleet.report import FleetReport, Instance


def markdown_of(report: FleetReport, *, slow: int, everything: bool) -> str:
    """A report that is clean and cut already; `slow` is how many there are in all."""
    lines = [*_head(report), *_causes(report, everything=everything), *_instances(report, slow)]
    lines += [*_odd(report, everything=everything), *_rest(report)]
    return "\n".join(lines).rstrip() + f"\n\n<sub>Written by unslow {escaped(report.unslow_version)}.</sub>\n"


def _head(report: FleetReport) -> Iterator[str]:
    for one in words.statements(report, urgent=True):
        hint = f" {prose(one.hint)}" if one.hint else ""
        yield f"> **{prose(one.text)}**{escaped(words.concerned(one))}{hint}"
        yield ""
    headline = words.headline(report)
    yield f"### {escaped(headline[0].upper() + headline[1:])}"
    if given := words.given(report):
        yield from ("", escaped(given))
    yield from ("", f"From {escaped(words.about(report))}.", "")


def _causes(report: FleetReport, *, everything: bool) -> Iterator[str]:
    if not report.causes:
        return
    yield from ("| cause | instances | tok/s lost | GPU-hours a day | most on |", "|---|--:|--:|--:|---|")
    for one in report.causes if everything else report.causes[: words.MOST_CAUSES]:
        worst = ", ".join(_cell(key) for key in one.worst[:3])
        rate, hours = (
            words.tokens(one.tokens_per_s or None),
            words.gpu_hours_a_day(one.gpu_hours or None, report.window_s),
        )
        yield f"| {_cell(one.title)} | {one.instances:,} | {rate} | {hours} | {worst} |"
    yield ""


def _instances(report: FleetReport, slow: int) -> Iterator[str]:
    if not report.instances:
        return
    shown = len(report.instances)
    yield from (f"**What loses most**{f' ({shown} of {slow:,})' if shown < slow else ''}", "")
    beside = words.beside_peers(report)
    for number, one in enumerate(report.instances, 1):
        yield from _instance(number, one, report.window_s, beside.get(one.key, ""))
    yield ""


def _instance(number: int, one: Instance, window_s: float, beside: str) -> Iterator[str]:
    failed = ", **failed**" if one.verdict == "failed" else ""
    yield f"{number}. **{escaped(one.key)}**{failed} ({escaped(words.names(one))}): {words.speed_words(one, window_s)}"
    yield f"   - {prose(words.cause_words(one))}"
    if beside:
        yield f"   - {prose(beside)}"
    why, command = words.fix_words(one)
    if why or command:
        yield f"   - First: {prose(why)}{f' (`{command}`)' if command and why else f'`{command}`' if command else ''}"


def _odd(report: FleetReport, *, everything: bool) -> Iterator[str]:
    odd = words.other_odd(report)
    if not odd:
        return
    shown = odd if everything else odd[: words.MOST_ODD]
    more = f" ({len(shown)} of {len(odd):,})" if len(odd) > len(shown) else ""
    yield from (f"**{'Also slower' if report.instances else 'Slower'} than their peers**{more}", "")
    for group, one in shown:
        yield f"- **{escaped(one.key)}** ({escaped(group.model)} on {escaped(group.devices)}): {prose(one.summary)}"
    yield ""


def _rest(report: FleetReport) -> Iterator[str]:
    if report.untold:
        yield from ("**Why some could not be judged**", "")
        yield from (f"- {count:,}: {prose(why)}" for why, count in list(report.untold.items())[: words.MOST_UNTOLD])
        yield ""
    for one in words.statements(report, urgent=False):
        yield f"- {prose(one.text)}{escaped(words.concerned(one))}{f'; {prose(one.hint)}' if one.hint else ''}"


def _cell(text: str) -> str:
    """Text within a table, which ends at a bar."""
    return escaped(text).replace("|", "\\|")
