"""The report as Markdown, for an issue or a chat: an answer that a maintainer could post as it stands."""

import re
from collections.abc import Iterator, Sequence

from unslow.show._clean import cleaned
from unslow.show._units import fact_value, rate
from unslow.think.report import Evidence, Finding, Report, SubjectReport, Untold

_DECODE = "decode_tokens_per_s"
_HEADS = {
    "slow": "It is slow, and this is why",
    "failed": "The model does not load, and this is why",
    "normal": "This is normal for the hardware",
    "cannot_tell": "What is here does not decide it yet",
}
_MARKS = re.compile(r"[\\`*\[\]]")
_TICKS = re.compile("`+")


def render(report: Report, *, width: int, color: bool, everything: bool) -> str:  # noqa: ARG001 (the same call for all)
    """The report as Markdown; `everything` adds what was ruled out."""
    report = cleaned(report)
    parts = [_subject(subject, everything=everything) for subject in report.subjects]
    text = "\n\n---\n\n".join(parts) or "Nothing was found to diagnose."
    return f"{text}\n\n<sub>{_signature(report)}</sub>\n"


def _signature(report: Report) -> str:
    read = any(subject.known for subject in report.subjects)
    return f"Written by unslow {report.unslow_version}" + (
        " from the text above; no machine was touched." if read else "."
    )


def _subject(subject: SubjectReport, *, everything: bool) -> str:
    lines = [f"### {_HEADS[subject.verdict]}", "", _escaped(subject.summary), ""]
    for number, finding in enumerate(subject.findings, 1):
        lines += _finding(number, finding)
    lines += _suspicions([item for item in subject.cannot_tell if item.suspected], found=bool(subject.findings))
    lines += _contradictions(subject)
    lines += _questions(subject)
    lines += _known(subject)
    if everything and subject.ruled_out:
        lines += _folded("Ruled out", [f"- `{r.cause}`: {_escaped(r.because)}" for r in subject.ruled_out])
    return "\n".join(lines).rstrip()


def _finding(number: int, finding: Finding) -> Iterator[str]:
    gain = f" (about {finding.speedup:.1f}× slower than without it)" if finding.speedup and finding.speedup > 1 else ""
    yield f"**{number}. {finding.title}**{gain}"
    yield ""
    yield _escaped(finding.because[:1].upper() + finding.because[1:]) + "."
    yield ""
    yield from (f"- {_cited(evidence)}" for evidence in finding.evidence)
    for fix in finding.fixes:
        then = fix.predicted.get(_DECODE)
        gives = f", then about {rate(then)} tok/s" if then else ""
        risk = f" Careful: {_escaped(fix.risk)}." if fix.risk else ""
        yield f"- **Fix:** {_escaped(fix.why or fix.knob)}{gives}.{risk}"
        yield from _code(fix.commands, indent="  ")
    yield ""


def _cited(evidence: Evidence) -> str:
    against = f" against {evidence.reference}" if evidence.reference else ""
    value = _escaped(fact_value(evidence.fact, evidence.value))
    return f"`{evidence.fact}` is {value}{_escaped(against)} ({evidence.origin}, {_escaped(evidence.source)})"


def _suspicions(items: list[Untold], *, found: bool) -> Iterator[str]:
    if items:
        yield "Also possible, not proven:" if found else "Possible, but not proven by what is here:"
        yield ""
        yield from (f"- `{item.cause}`: {_escaped(item.because)}" for item in items[:4])
        yield ""


def _contradictions(subject: SubjectReport) -> Iterator[str]:
    if subject.contradictions:
        yield "These can't all be right:"
        yield ""
        for item in subject.contradictions:
            meaning = f" {_escaped(item.meaning)}" if item.meaning else ""
            yield f"- {item.about}: {_escaped('; '.join(item.says))}.{meaning}"
        yield ""


def _questions(subject: SubjectReport) -> Iterator[str]:
    if subject.ask_next:
        several = len(subject.ask_next) > 1
        yield "Please run the following and add the output:" if several else "Please run this and add the output:"
        yield ""
        yield from _code([line for question in subject.ask_next for line in (f"# {question.why}", question.command)])
        yield ""


def _known(subject: SubjectReport) -> list[str]:
    return _folded("What was understood", [f"- {_cited(item)}" for item in subject.known]) if subject.known else []


def _folded(title: str, lines: list[str]) -> list[str]:
    return ["<details>", f"<summary>{title}</summary>", "", *lines, "", "</details>", ""]


def _code(lines: Sequence[str], indent: str = "") -> Iterator[str]:
    """Lines to copy, in a fence that none of them can close."""
    if lines:
        fence = "`" * max(3, 1 + max(len(ticks) for line in lines for ticks in _TICKS.findall(line) or [""]))
        yield f"{indent}{fence}sh"
        yield from (f"{indent}{' '.join(line.split(chr(10)))}" for line in lines)
        yield f"{indent}{fence}"


def _escaped(text: str) -> str:
    """Text that stays text: no HTML, images or links, no mentions of people or issues by accident."""
    text = " ".join(text.replace("&", "&amp;").replace("<", "&lt;").split("\n"))
    return _MARKS.sub(r"\\\g<0>", text).replace("@", "@\u200b").replace("#", "#\u200b")
