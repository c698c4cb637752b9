"""The answer of `unslow verify` for a terminal and in Markdown: the verdict, what it rests on, what differs."""

import shlex
from collections.abc import Iterator, Sequence

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from unslow.facts.bench import DECODE, PREFILL
from unslow.facts.stored_json import dump_stored
from unslow.facts.verification import REQUEST, Side, Work
from unslow.show import console
from unslow.show.units import amount, rate, span
from unslow.think.stats import verification_report
from unslow.think.stats.answers import perplexity_words
from unslow.think.stats.verification_report import VerifyReport

NAMES = {REQUEST: "Total request", DECODE: "Decode", PREFILL: "Prefill"}
WORDS = {"slower": "slower", "faster": "faster", "same": "the same", "cannot_tell": "cannot tell"}
WAYS = {
    "in_turns": "both measured in alternation",
    "one_after_the_other": "each restarted for every round, in alternation",
    "apart": "measured at different times",
}
_MARKDOWN_HEADS = {
    "faster": "The change makes it faster",
    "same": "The change makes no difference to the speed",
    "slower": "The change makes it slower",
    "answers_changed": "The change breaks the answers",
    "broken": "The change breaks the server",
    "cannot_tell": "Whether the change helps is undetermined",
}
_STYLES = {"slower": "red", "faster": "green", "same": "", "cannot_tell": "yellow"}
_KEPT = {"kept": "answers unchanged", "changed": "answers changed", "cannot_tell": "answers: undetermined"}
_NOTHING = "not set"
_ENDLESS = 1e6
_CODE = str.maketrans({"`": "'", "\n": " "})
_CELL = str.maketrans({"|": "\\|", "\n": " "})


def _parts(report: VerifyReport, width: int) -> Iterator[RenderableType]:
    yield console.verdict_head(report.verdict, report.because)
    yield console.dim(f"{WAYS[report.way]}: {work_words(report.work)}")
    if report.took_s is not None:
        yield console.dim(time_words(report))
    yield ""
    if report.figures:
        # The widest table that fits: rather narrow gaps than fewer columns, rather fewer columns than half a figure
        rows = [_row(one) for one in report.figures]
        left_out: tuple[tuple[str, ...], ...] = ((), ("ROUNDS",), ("ROUNDS", "95 % INTERVAL"))
        tables = [_table(rows, ()), *(_table(rows, names, gap=1) for names in left_out)]
        fitting = (table for table in tables if Console(width=10_000).measure(table).maximum <= width)
        found = next(fitting, None)
        if found is None:
            found = tables[-1]
            for column in found.columns:
                column.no_wrap, column.overflow = False, "fold"
        yield found
        yield ""
    said, *rest = answer_lines(report.answers)
    if report.verdict != "answers_changed":  # else it is the headline
        yield console.indent_text(said)
    yield from map(console.dim, rest)
    if report.predicted:
        yield console.indent_text(predicted_words(report.predicted))
    yield ""
    yield console.dim(f"before: {report.before.what}")
    yield console.dim(f"after:  {report.after.what}")
    for change in report.changes:
        yield console.indent_text(f"{change.setting}: {change.before or _NOTHING} → {change.after or _NOTHING}")
    yield from map(console.warning, report.notes)


def _row(one: verification_report.FigureShown) -> dict[str, RenderableType]:
    return {
        "  FIGURE": f"  {NAMES[one.metric]}",
        "BEFORE": amount(one.metric, one.before.mid),
        "AFTER": amount(one.metric, one.after.mid),
        "SPEED-UP": f"×{one.speedup.mid:.3f}",
        "95 % INTERVAL": interval(one.speedup),
        "ROUNDS": str(one.rounds),
        "VERDICT": Text(WORDS[one.verdict], style=_STYLES[one.verdict]),
    }


def _table(rows: Sequence[dict[str, RenderableType]], left_out: Sequence[str], gap: int = 0) -> Table:
    names = [name for name in rows[0] if name not in left_out]
    table = console.plain_table(*names)
    if gap:
        table.padding = (0, gap, 0, 0)
    for row in rows:
        table.add_row(*(row[name] for name in names))
    return table


def _markdown(report: VerifyReport) -> Iterator[str]:
    yield f"### {_MARKDOWN_HEADS[report.verdict]}"
    yield ""
    yield f"{report.because}. ({WAYS[report.way]}: {work_words(report.work)})"
    yield ""
    if report.figures:
        yield "| metric | before | after | speed-up | 95 % interval | rounds | verdict |"
        yield "|---|---:|---:|---:|---:|---:|---|"
        for one in report.figures:
            yield f"| {' | '.join(str(cell).strip() for cell in _row(one).values())} |"
        yield ""
    said, *rest = answer_lines(report.answers)
    yield from (f"- {line}" for line in (rest if report.verdict == "answers_changed" else [said, *rest]))
    if report.predicted:
        yield f"- {predicted_words(report.predicted)}"
    yield f"- before: `{report.before.what.translate(_CODE)}`"
    yield f"- after: `{report.after.what.translate(_CODE)}`"
    for change in report.changes:
        yield f"- {change.setting}: {change.before.translate(_CELL) or '-'} → {change.after.translate(_CELL) or '-'}"
    yield from (f"- note: {note}" for note in report.notes)
    yield ""
    yield f"<sub>Written by unslow {report.unslow_version}.</sub>"


def work_words(work: Work | verification_report.WorkShown) -> str:
    """The request that both were asked."""
    kept = f" after {work.kept_tokens:,} cached" if work.kept_tokens else ""
    return f"{work.prompt_tokens:,} prompt tokens{kept}, {work.answer_tokens:,} generated"


def time_words(report: VerifyReport) -> str:
    """How much was measured in which time."""
    rounds = max((figure.rounds for figure in report.figures), default=0)
    sides = (report.before, report.after) if report.way != "apart" else (report.after,)
    starts = [seconds for side in sides for seconds in side.starts_s]
    many = "1 round" if rounds == 1 else f"{rounds} rounds"
    started = "1 start" if len(starts) == 1 else f"{len(starts)} starts"
    of_starts = f", including {span(sum(starts))} for {started}" if starts else ""
    return f"{many} in {span(report.took_s or 0.0)}{of_starts}"


def interval(shown: verification_report.IntervalShown) -> str:
    """Both ends of a ratio; one round has none."""
    return f"{shown.low:.3f} to {shown.high:.3f}" if shown.high < _ENDLESS else "-"


def answer_lines(answers: verification_report.AnswersShown) -> Iterator[str]:
    """Whether it still answers as before, and what that rests on."""
    yield f"{_KEPT[answers.verdict]}: {answers.because}"
    if answers.perplexity:
        seen = answers.perplexity
        if f"{seen.before:.2f} before" not in answers.because:
            yield perplexity_words(seen)
        yield f"both choose the same token at {seen.same_choice:.0%} of {seen.places} positions of a given text"
    if answers.published:
        rise = f"{answers.perplexity.increase.mid:+.2%} perplexity " if answers.perplexity else ""
        yield f"the measured {rise}{answers.published.because}"
    if answers.together is not None and answers.begin_alike is not None:
        before = answers.together_before
        usual = "" if before is None else f" ({before:.0%} when the same server is asked twice)"
        begin = f"{answers.begin_alike:.0%} of {answers.questions} answers begin the same"
        yield f"{begin}; they agree for {answers.together:.0%} of their words{usual}"


def predicted_words(predicted: verification_report.PredictedShown) -> str:
    """What the plan had said."""
    said = predicted.decode_tokens_per_s
    decode = f"; decode {rate(said.mid)} tok/s ({rate(said.low)} to {rate(said.high)})" if said else ""
    return f"{predicted.option}: {predicted.because}{decode}"


def render_side(side: Side, form: str, path: str, *, width: int, color: bool) -> str:
    """What was kept of one server, to be held against another later."""
    if form == "json":
        return console.safe_json(dump_stored(side).decode())
    page = console.TextConsole(width=width, color=color)
    page.print(Text(console.safe_text(f"{side.what}: {len(side.samples)} rounds saved to {path}"), style="bold"))
    page.print(console.dim("make the change, restart the server, then run:"))
    line = f"  unslow verify --against {shlex.quote(path)} {shlex.quote(side.what)}"
    page.print(Text(console.safe_text(line), style="dim"), soft_wrap=True)  # one line, however long: it is to be copied
    return page.text


render_verify = console.ReportKind(VerifyReport, _parts, markdown=lambda report: "\n".join([*_markdown(report), ""]))
