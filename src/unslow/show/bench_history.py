"""The list of benchmarks that are kept, and one held against another."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from unslow.facts.bench import DECODE, FIRST, LOWER_IS_BETTER, PREFILL, Comparison, HistoryReport
from unslow.show import console
from unslow.show.console import safe_text
from unslow.show.units import amount, rate
from unslow.think.stats.changes import BenchComparison

_NAMES = {
    DECODE: "decode",
    PREFILL: "prefill",
    FIRST: "first token",
    "decode_at_4k_tokens_per_s": "decode, context filled",
    "client_decode_tokens_per_s": "decode, client's clock",
    "gap_p50_s": "between tokens, p50",
    "gap_p95_s": "between tokens, p95",
    "gap_p99_s": "between tokens, p99",
    "load_s": "load",
}
_WORDS = {"slower": "slower", "faster": "faster", "same": "same", "cannot_tell": "cannot tell"}
_STYLES = {"slower": "red", "faster": "green", "same": "", "cannot_tell": "yellow"}
_SMALLEST_P = 0.001
_STATES = {"interrupted": "interrupted", "running": "running now", "whole": ""}
_DONE = {"imported": "imported", "forgotten": "removed"}
_WIDE = 100


def _history_parts(report: HistoryReport, width: int) -> Iterator[RenderableType]:
    if report.what in _DONE:
        for line in report.benchmarks:
            yield Text(f"{_DONE[report.what]} {safe_text(line.id)}  {safe_text(line.model)}")
        return
    if not report.benchmarks:
        yield f"No benchmarks in {safe_text(report.path)}; `unslow bench` adds one."
        return
    # Ids whole, so that they can be given back; on a narrow terminal what tells least is left out
    wide = width >= _WIDE
    table = console.bare_table((0, 1, 0, 1), pad_edge=False)
    for name in ("ID", "WHEN") if wide else ("ID",):
        table.add_column(name, no_wrap=True)
    for name in ("DECODE", "PREFILL") if wide else ("DECODE",):
        table.add_column(name, justify="right", no_wrap=True)
    for name in ("MODEL AND RUNTIME", "NOTE") if wide else ("MODEL AND RUNTIME",):
        table.add_column(name, overflow="fold")
    for entry in report.benchmarks:
        subject = ", ".join(word for word in (entry.model, f"{entry.runtime} {entry.runtime_version}".strip()) if word)
        speeds = (entry.decode_tokens_per_s, entry.prefill_tokens_per_s)
        decode, prefill = ("-" if speed is None else rate(speed) for speed in speeds)
        aborted = f"aborted after {entry.answered} responses"
        state = aborted if entry.state == "broke_off" else _STATES.get(entry.state, entry.state)
        failed = f"{entry.failed} failed" if entry.failed else ""
        protocol = entry.protocol if entry.protocol != "standard" else ""
        note = ", ".join(word for word in (entry.label, state, failed, protocol) if word)
        if wide:
            moment = safe_text(entry.taken_at[:16].replace("T", " "))
            table.add_row(safe_text(entry.id), moment, decode, prefill, safe_text(subject), safe_text(note))
        else:
            about = safe_text("; ".join(word for word in (subject, note) if word))
            table.add_row(safe_text(entry.id), decode, about)
    yield table
    rest = report.total - len(report.benchmarks)
    if rest > 0:
        yield console.dim(f"and {rest} more in {safe_text(report.path)}")


def _json(report: HistoryReport) -> str:
    """Each line by the names of its fields; a line of the history is a tuple, which JSON would take for a list."""
    lines = [line._asdict() for line in report.benchmarks]
    known = {"schema": "unslow.benchmarks/1", "what": report.what, "path": report.path, "total": report.total}
    return console.as_json({**known, "benchmarks": lines})


render_history = console.ReportKind[HistoryReport](None, _history_parts, json=_json, called="a benchmark", clean=False)


def compared_parts(compared: BenchComparison) -> Iterator[RenderableType]:
    """The parts for a terminal: one plain sentence first, the figures, what changed."""
    comparison, before = console.clean_report(compared.comparison), compared.before
    yield console.verdict_head(comparison.verdict, compared_sentence(comparison))
    named = f"{before.id} ({before.label})" if before.label else before.id
    runtime = " ".join(word for word in (before.runtime, before.runtime_version) if word)
    yield console.dim(safe_text(f"against {named} of {before.taken_at[:16].replace('T', ' ')}, {runtime}"))
    yield ""
    if comparison.differences:
        table = console.plain_table("  METRIC", "BEFORE", "AFTER", "RATIO", "95 % INTERVAL", "VERDICT")
        for found in comparison.differences:
            sides = (amount(found.metric, side) for side in (found.before, found.after))
            ratio = f"×{found.ratio:.3f}", f"{found.low:.3f} to {found.high:.3f}"
            verdict = Text(_WORDS[found.verdict], style=_STYLES[found.verdict])
            table.add_row(f"  {_NAMES.get(found.metric, found.metric)}", *sides, *ratio, verdict)
        yield table
        yield ""
    if compared.changes:
        yield console.dim("WHAT CHANGED")
        for one in compared.changes:
            line = Text(safe_text(f"{one.name}: {one.before} → {one.after}"))
            yield Padding(line.append(f"  {safe_text(one.why)}" if one.why else "", "dim"), (0, 0, 0, 2))
        yield ""
    if compared.suspect:
        yield console.indent_text(safe_text(compared.suspect), "bold")
    yield from (console.dim(note) for note in comparison.notes)


def compared_sentence(comparison: Comparison) -> str:
    """`12 % slower than before, more than noise (p = 0.003)`: of the figure that decides."""
    by_name = {one.metric: one for one in comparison.differences}
    judged = [by_name[name] for name in (DECODE, PREFILL, FIRST) if name in by_name]
    deciding = [one for one in judged if one.verdict == comparison.verdict] or judged
    if not deciding:
        return "The two benchmarks have no metric in common."
    one = deciding[0]
    of = "" if one.metric == DECODE else f"{_NAMES.get(one.metric, one.metric)}: "
    speed = 1 / one.ratio if one.metric in LOWER_IS_BETTER and one.ratio else one.ratio
    share = f"{abs(speed - 1) * 100:.{0 if abs(speed - 1) >= 0.1 else 1}f} %"  # noqa: PLR2004 (two digits)
    match comparison.verdict:
        case "slower" | "faster" as way:
            p = f"{one.p_value:.3f}" if one.p_value >= _SMALLEST_P else f"below {_SMALLEST_P}"
            return f"{of}{share} {way} than before, beyond noise (p {p})"
        case "same":
            return f"{of}as fast as before: the difference of {share} is within noise"
        case _:
            way = "slower" if (one.ratio < 1) != (one.metric in LOWER_IS_BETTER) else "faster"
            why = one.because.removeprefix("can't be told: ")
            return f"{of}{share} {way} than before, but possibly noise: {why}"


def compared_fields(compared: BenchComparison) -> dict[str, object]:
    """What a program needs of it: the earlier benchmark by its id and figures, not with every request."""
    before = compared.before
    known = {"id": before.id, "taken_at": before.taken_at, "runtime_version": before.runtime_version}
    return {
        "schema": "unslow.comparison/1",
        "said": compared_sentence(compared.comparison),
        "before": {**known, "label": before.label, "figures": before.figures},
        "comparison": compared.comparison,
        "changes": list(compared.changes),
        "suspect": compared.suspect,
    }
