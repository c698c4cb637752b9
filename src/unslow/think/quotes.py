"""What a person wrote, quoted briefly: the words that matter, at word borders, with their line."""

from typing import Any

import msgspec

from unslow.catalog.report_words import remark_phrases
from unslow.facts.account import Remark
from unslow.facts.snapshot import Case
from unslow.think.report import Evidence, SubjectReport

LONGEST = 100
_WORDS_OF_PEOPLE = ("account.remarks", "account.comparisons")
_BEFORE = 0.6
"""How much of the room stands before the words that matter: people say first what it is about."""


def quoted(case: Case, report: SubjectReport) -> SubjectReport:
    """The report with every long text of the person's cut to a quote, wherever it stands."""
    shorter = dict(_shortened(case))
    if not shorter:
        return report
    return msgspec.structs.replace(
        report,
        findings=tuple(
            msgspec.structs.replace(f, because=_within(f.because, shorter), evidence=_cited(f.evidence, shorter))
            for f in report.findings
        ),
        cannot_tell=_all_within(report.cannot_tell, shorter),
        ruled_out=_all_within(report.ruled_out, shorter),
    )


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


def _shortened(case: Case) -> Any:
    """Each text that a person wrote, with its line, and what to say in its place."""
    for remark in case.account.remarks.value_or(()):
        yield remark.text, (f'"{excerpt(remark.text, *_matters(remark))}"', remark.source)
    for comparison in case.account.comparisons.value_or(()):
        if comparison.text:
            yield comparison.text, (f'"{excerpt(comparison.text)}"', comparison.source)


def _matters(remark: Remark) -> tuple[int, int]:
    """Where in a remark its topic is spoken of."""
    phrases = remark_phrases().get(remark.topic)
    found = phrases.says.search(remark.text.lower()) if phrases else None
    return found.span() if found else (0, 0)


def _within(sentence: str, shorter: dict[str, tuple[str, str]]) -> str:
    for text, (short, source) in sorted(shorter.items(), key=lambda pair: -len(pair[0])):
        if text in sentence:
            return sentence.replace(text, f"{short} ({source})", 1)
    return sentence


def _all_within(items: tuple[Any, ...], shorter: dict[str, tuple[str, str]]) -> Any:
    return tuple(msgspec.structs.replace(item, because=_within(item.because, shorter)) for item in items)


def _cited(evidence: tuple[Evidence, ...], shorter: dict[str, tuple[str, str]]) -> tuple[Evidence, ...]:
    return tuple(
        msgspec.structs.replace(item, value=shorter[item.value][0])
        if item.fact in _WORDS_OF_PEOPLE and item.value in shorter
        else item
        for item in evidence
    )
