"""What people wrote, cut to quotes: wherever a report repeats a long text of theirs."""

from typing import Any

import msgspec

from unslow.catalog.bug_reports import remark_phrases
from unslow.facts.snapshot import Case
from unslow.think.report import SubjectReport

LONGEST = 100
_WORDS_OF_PEOPLE = ("account.remarks", "account.comparisons")
_BEFORE = 0.6  # How much of the room stands before the words that matter: people say first what it is about


def with_quotes(case: Case, report: SubjectReport) -> SubjectReport:
    """The report with every long text of the person's cut to a quote, wherever it stands."""
    shorter = dict[str, tuple[str, str]]()
    for remark in case.account.remarks.value_or(()):
        phrases = remark_phrases().get(remark.topic)
        topic = phrases.says.search(remark.text.lower()) if phrases else None
        quote = excerpt(remark.text, *(topic.span() if topic else ()))
        shorter[remark.text] = (f'"{quote}"', remark.source)
    for comparison in case.account.comparisons.value_or(()):
        if comparison.text:
            shorter[comparison.text] = (f'"{excerpt(comparison.text)}"', comparison.source)
    if not shorter:
        return report
    findings = []
    for finding in _all_within(report.findings, shorter):
        evidence = tuple(
            msgspec.structs.replace(item, value=shorter[item.value][0])
            if item.fact in _WORDS_OF_PEOPLE and item.value in shorter
            else item
            for item in finding.evidence
        )
        findings.append(msgspec.structs.replace(finding, evidence=evidence))
    return msgspec.structs.replace(
        report,
        findings=tuple(findings),
        cannot_tell=_all_within(report.cannot_tell, shorter),
        ruled_out=_all_within(report.ruled_out, shorter),
    )


def _all_within(items: tuple[Any, ...], shorter: dict[str, tuple[str, str]]) -> Any:
    """The items with the longest text of a person's that their reason holds cut to its quote."""
    longest_first, cut = sorted(shorter, key=len, reverse=True), []
    for item in items:
        because, text = item.because, next((text for text in longest_first if text in item.because), "")
        if text:
            because = because.replace(text, "{} ({})".format(*shorter[text]), 1)
        cut.append(msgspec.structs.replace(item, because=because))
    return tuple(cut)


def excerpt(text: str, start: int = 0, end: int = 0) -> str:
    """At most about a hundred letters around a place, at word borders, with dots where something is left out."""
    text = " ".join(text.split())
    if len(text) <= LONGEST:
        return text
    first = max(0, min(start - int(_BEFORE * (LONGEST - min(LONGEST, end - start))), len(text) - LONGEST))
    last = min(len(text), first + LONGEST)
    if first:
        first = text.find(" ", first, last) + 1 or first
    if last < len(text):
        last = max(text.rfind(" ", first, last), first + 1)
    left, right = "… " if first else "", " …" if last < len(text) else ""
    return f"{left}{text[first:last].strip(' ,;:')}{right}"
