"""Writes the report with all its pictures as one file of HTML, Markdown or JSON, masked unless told otherwise."""

import getpass
import os
import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from unslow.commands._bench_history import read_benches
from unslow.commands._command_lines import with_fix_commands
from unslow.commands._output import Progress
from unslow.commands.diagnose.look import LookResult, with_notes
from unslow.commands.diagnose.request import resolve_request
from unslow.commands.diagnose.target import write_whole
from unslow.commands.report import ReportRequest
from unslow.commands.verify.comparison import read_verified
from unslow.facts.errors import UserError
from unslow.facts.masking import mask_snapshot, masked_text
from unslow.look.system.http import host_of, is_loopback
from unslow.page.build import view_target
from unslow.page.html.markup import MASKED, capitalize_first, metric_name
from unslow.page.html.speed import setting_words, sign_of, speedup_ends
from unslow.page.view import ChangeView, CurveView, MemoryBar, SpeedRow, SubjectView, View
from unslow.show.console import as_json, clean_report, safe_text
from unslow.show.markdown import NOTHING, RULE, escape_markdown, prose, signature, subject_markdown
from unslow.show.units import amount, budget_title, fold_small_parts, phase_parts, rate, size, span
from unslow.think.judge.judge import diagnose
from unslow.think.judge.pricing import UNEXPLAINED
from unslow.think.report import Range, SubjectReport

LARGEST_BYTES = 6_000_000
"""What an issue tracker takes without complaint; a page beyond it goes without the answers of its sliders."""
SUFFIXES = {"html": ".html", "markdown": ".md", "json": ".json"}
_FORMS = {".html": "html", ".htm": "html", ".md": "markdown", ".markdown": "markdown", ".json": "json"}
_BAR = 48
_MOST_ROWS = 24  # Of a curve: more points than that are between those that matter
_LETTERS = {
    "weights": "W", "kv": "K", "compute": "C", "stranger": "S", "reserve": "R", "free": "·", "lacking": "!",
}  # fmt: skip
HOST = "masked-host"
Rule = tuple[re.Pattern[str], str]
_PROMPT = re.compile(r"(?P<flag>(?<!\S)(?:--prompt|--system-prompt|-sys)(?:\s+|=))(?:\"[^\"]*\"|'[^']*'|[^\s\"']+)")
"""In a command line that is one text."""
_LISTENS = re.compile(r"(?P<keep>(?<!\S)--host(?:\s+|=)[\"']?)(?P<host>[\w.-]{1,253})")


def write_report(asked: ReportRequest, progress: Progress) -> None:
    """Diagnose, draw, write, and say where; files are read and the place is tried before anything is measured."""
    form = form_of(asked.format, asked.output)
    output = asked.output or f"unslow-report{SUFFIXES[form]}"
    request, benches = resolve_request(asked), tuple(bench for path in asked.bench for bench in read_benches(path))
    verified = read_verified(asked.verify) if asked.verify else None
    _check_place(output)
    seen = view_target(request, progress, benches=benches, verified=verified, ready=form == "html")
    view = seen.view if asked.no_mask else masked_view(seen.view, seen.looked)
    text = render_view(view, form, (asked.title or "")[:200])
    write_whole(text.encode(), output)
    if output != "-":
        told = "not masked: check it before sharing" if asked.no_mask else "masked"
        progress.say(f"wrote {output} ({len(text.encode()) / 1000:,.0f} kB, {told})")


def form_of(form: str | None, output: str | None) -> str:
    """The format that was named, or that the name of the file means; UserError where there is no such format."""
    if form is None:
        return _FORMS.get(Path(output or "").suffix.lower(), "html")
    if form not in SUFFIXES:
        raise UserError(f"unknown report format {form!r}", f"use one of {', '.join(SUFFIXES)}")
    return form


def _check_place(output: str) -> None:
    """UserError if nothing can be written there, before a minute of measuring."""
    if output == "-":
        return
    path = Path(os.path.realpath(output))
    if path.is_dir():
        raise UserError(f"{output} is a folder", "name a file in it, such as report.html")
    if not path.parent.is_dir():
        raise UserError(f"{output}: folder {path.parent} does not exist", "create it first, or choose another path")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UserError(f"{output} is not writable", "choose another path")


def render_view(view: View, form: str, title: str = "") -> str:
    """The view in that format."""
    if form == "json":
        return as_json(view) + "\n"
    if form == "markdown":
        return view_markdown(view, title)
    from unslow.page.html.document import document  # noqa: PLC0415 (each format imports only what it needs)

    text = document(view, title=title)
    if len(text.encode()) <= LARGEST_BYTES:
        return text
    subjects = []
    for subject in view.subjects:
        memory = msgspec.structs.replace(subject.memory, ready=()) if subject.memory else None
        subjects.append(msgspec.structs.replace(subject, memory=memory))
    return document(msgspec.structs.replace(view, subjects=tuple(subjects)), title=title)


def masked_view(view: View, looked: LookResult | None = None) -> View:
    """The view, fit to be shown to a stranger; with what was seen, its report is made anew from that, masked."""
    if view.masked:
        return view
    report = view.report
    if looked:  # a command line can only be masked while its words are apart; every text is masked once more below
        snapshot = mask_snapshot(looked.snapshot)
        report = with_notes(with_fix_commands(diagnose(snapshot), snapshot), looked)
    # The names of other machines on which subjects run may name a person, a house or a company
    hosts = {host_of(subject.url) for subject in view.report.subjects}
    rules = [*(_host(name) for name in sorted(hosts) if name and not is_loopback(name)), *_own_names()]
    raw = _mask_texts(msgspec.to_builtins(msgspec.structs.replace(view, report=report, masked=True)), rules)
    return msgspec.convert(raw, View)


def _own_names() -> Iterator[Rule]:
    """The user's name as a part of paths, and this machine's name unless it is a common word."""
    users = {Path("~").expanduser().name}
    with suppress(KeyError, OSError):  # a user id without a name, as in containers
        users.add(getpass.getuser())
    users -= {"", "~", "root", "user"}
    for name in sorted(users):
        yield re.compile(rf"(?<=[/\\]){re.escape(name)}(?![\w-]|\.\w)"), "user"
    host = socket.gethostname()
    yield from (_host(name) for name in (host, host.partition(".")[0]) if re.search(r"\w[\d.-]", name))


def _host(name: str) -> Rule:
    return re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-]|\.\w)", re.IGNORECASE), HOST


def _mask_texts(value: Any, rules: Sequence[Rule]) -> Any:
    match value:
        case str():
            text = _LISTENS.sub(_mask_host, _PROMPT.sub(r"\g<flag>masked", masked_text(value)))
            for pattern, instead in rules:
                text = pattern.sub(instead, text)
            return text
        case list() | tuple():
            return [_mask_texts(one, rules) for one in value]
        case dict():
            return {key: _mask_texts(one, rules) for key, one in value.items()}
        case _:
            return value


def _mask_host(found: re.Match[str]) -> str:
    """A host name may name a person; numbers don't."""
    is_name = re.search(r"[A-Za-z]", found["host"]) and not is_loopback(found["host"])
    return found["keep"] + (HOST if is_name else found["host"])


def view_markdown(view: View, title: str = "") -> str:
    """The whole view."""
    view = clean_report(view)
    drawn = {subject.number: subject for subject in view.subjects}
    parts = []
    for number, report in enumerate(view.report.subjects):
        names = [report.runtime, report.model, report.devices[0] if report.devices else ""]
        title_line = escape_markdown(" · ".join(name for name in names if name))
        lines = [title_line, "", subject_markdown(report, everything=True), ""]
        if number in drawn:
            lines += [*_speeds(drawn[number].speeds), *_budgets(report), *_panels(drawn[number])]
        parts.append("\n".join(lines).rstrip())
    head = f"## {escape_markdown(safe_text(title))}\n\n" if title else ""
    masked = f" {MASKED}" if view.masked else ""
    return f"{head}{RULE.join(parts) or NOTHING}\n\n<sub>{signature(view.report)}{masked}</sub>\n"


def _panels(drawn: SubjectView) -> Iterator[str]:
    if drawn.memory:
        yield from _head("Memory", drawn.memory.now.summary)
        yield from ("```text", *(line for bar in drawn.memory.now.bars for line in _bar(bar)), "```", "")
    for curve in filter(None, (drawn.depth, drawn.users)):
        yield from _curve(curve)
    if drawn.roofline:
        yield from _head("Roofline", drawn.roofline.summary)
    if drawn.timeline and drawn.timeline.summary:
        yield from _head("Timeline", drawn.timeline.summary)
    if drawn.change:
        yield from _change(drawn.change)


def _speeds(rows: Sequence[SpeedRow]) -> Iterator[str]:
    def cell(metric: str, value: Range | float | None) -> str:
        if isinstance(value, Range):
            return f"{amount(metric, value.low)} to {amount(metric, value.high)}"
        return amount(metric, value) if value is not None else "-"

    if rows:
        yield from _head("Speed")
        shown = []
        for row in rows:
            values = (row.measured, row.as_configured, row.achievable, row.ceiling, row.goal)
            shown.append([metric_name(row.metric), *(cell(row.metric, value) for value in values)])
        yield from _table(("", "measured", "expected", "achievable", "ceiling", "goal"), shown)


def _budgets(report: SubjectReport) -> Iterator[str]:
    for phase, told in phase_parts(report.budget):
        total = sum(part.seconds for part in told) or 1.0
        yield from _head(budget_title(phase, total))
        parts, lines = fold_small_parts(told), []
        longest = max(len(part.part) for part in parts)
        for part in parts:
            share, took = part.seconds / total, span(part.seconds) if part.seconds else "-"
            bar = ("░" if part.part == UNEXPLAINED else "█") * round(_BAR / 2 * share)
            lines.append(f"{part.part:<{longest}}  {took:>8}  {share:4.0%}  {bar}".rstrip())
        yield from ("```text", *lines, "```", "")


def _bar(bar: MemoryBar) -> Iterator[str]:
    total = max(sum(part.bytes for part in bar.parts), bar.capacity_bytes or 0) or 1
    line, edge = "", 0.0
    for part in bar.parts:
        start, edge = edge, edge + _BAR * part.bytes / total
        line += _LETTERS[part.kind] * (round(edge) - round(start))
    whole = f", {size(bar.capacity_bytes)}" if bar.capacity_bytes else ""
    yield f"{_inline_name(bar.name)}{whole}"
    yield f"[{line:<{_BAR}}]"
    for part in (part for part in bar.parts if part.bytes):
        yield f"  {_LETTERS[part.kind]} {_inline_name(part.name)}: {size(part.bytes)}"


def _curve(curve: CurveView) -> Iterator[str]:
    """The measured points, and an even selection of the predicted ones."""
    by = "context depth" if curve.axis == "depth" else "concurrent users"
    yield from _head(f"Speed by {by}", curve.because)
    others = [point for point in curve.points if point.measured is None]
    kept = {id(point) for point in others[:: max(1, -(-len(others) // _MOST_ROWS))]}
    rows = []
    for point in curve.points:
        if point.measured is not None or id(point) in kept:
            measured = rate(point.measured) if point.measured is not None else "-"
            predicted = rate(point.predicted) if point.predicted is not None else "-"
            low, high = point.predicted_low, point.predicted_high
            if point.predicted is not None and low is not None and high is not None:
                predicted += f" ({rate(low)} to {rate(high)})"
            rows.append((f"{point.at:,.0f}", measured, predicted))
    table = _table((by, "measured, tok/s", "predicted, tok/s"), rows)
    yield from ["<details>", "<summary>Numbers</summary>", "", *table, "</details>", ""]


def _change(change: ChangeView) -> Iterator[str]:
    yield from _head("Before and after", change.because)
    rows = []
    for row in change.rows:
        sides = (amount(row.metric, side.mid) for side in (row.before, row.after))
        speedup = f"×{row.speedup.mid:.2f} ({speedup_ends(row.speedup)})"
        rows.append((metric_name(row.metric), *sides, speedup, sign_of(row.verdict).word))
    yield from _table(("", "before", "after", "speedup", "verdict"), rows)
    if change.answers:
        yield from (_sentence(change.answers), "")
    yield from (f"- {prose(setting_words(said))}" for said in change.changes)
    yield ""


def _head(title: str, said: str = "") -> Iterator[str]:
    yield from (f"#### {title}", "")
    if said:
        yield from (_sentence(said), "")


def _sentence(said: str) -> str:
    return prose(f"{capitalize_first(said)}{'' if said.endswith(('.', '!', '?')) else '.'}")


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield f"|{'|'.join('---' if not column else '---:' for column in range(len(heads)))}|"
    for row in rows:
        cells = [escape_markdown(cell).replace("|", "\\|") for cell in row]
        yield f"| {' | '.join(cells)} |"
    yield ""


def _inline_name(text: str) -> str:
    """A name that can't end its code block."""
    return " ".join(text.replace("`", "'").split())
