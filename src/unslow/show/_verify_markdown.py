"""A verified change in Markdown, for an issue or a chat."""

from collections.abc import Iterator

from unslow.show._verify_words import (
    NAMES,
    WAYS,
    WORDS,
    amount,
    answer_lines,
    interval,
    predicted_words,
    speedup,
    work_words,
)
from unslow.think.verify.report import VerifyReport

_HEADS = {
    "faster": "The change makes it faster",
    "same": "The change makes no difference to its speed",
    "slower": "The change makes it slower",
    "answers_changed": "The change breaks its answers",
    "broken": "The change breaks the server",
    "cannot_tell": "Whether the change helps can't be told",
}
_CODE = str.maketrans({"`": "'", "\n": " "})
_CELL = str.maketrans({"|": "\\|", "\n": " "})


def verify_markdown(report: VerifyReport) -> str:
    """The whole report, which is clean already."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: VerifyReport) -> Iterator[str]:
    yield f"### {_HEADS[report.verdict]}"
    yield ""
    yield f"{report.because}. ({WAYS[report.way]}: {work_words(report.work)})"
    yield ""
    if report.figures:
        yield "| figure | before | after | speed-up | 95 % interval | rounds | verdict |"
        yield "|---|---:|---:|---:|---:|---:|---|"
        for one in report.figures:
            before, after = (amount(one.metric, side.mid) for side in (one.before, one.after))
            cells = (NAMES[one.metric], before, after, speedup(one), interval(one.speedup), str(one.rounds))
            yield f"| {' | '.join((*cells, WORDS[one.verdict]))} |"
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
