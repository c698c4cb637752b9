"""The report as Markdown, for an issue or a chat: an answer that a maintainer could post as it stands."""

import re
from collections.abc import Iterator

from unslow.show.console import clean_report, commands
from unslow.show.units import fix_effect, label, value_text
from unslow.think.judge.verdict import Chain, chains_of
from unslow.think.report import Evidence, Fix, Report, SubjectReport

_HEADS = {
    "slow": "Slow, and why",
    "failed": "The model does not load, and why",
    "normal": "Normal for this hardware",
    "cannot_tell": "Undetermined so far",
}
_MARKS = re.compile(r"[\\`*\[\]]")
_VERB = re.compile(r"(?:shows|holds|gives|measures|prints)\b")
_SPAN = re.compile(r"((?<!`)`[^`\n]+`(?!`))")
MOST_SUSPECTED = 4
RULE, NOTHING = "\n\n---\n\n", "Nothing to diagnose."


def render(report: Report, *, width: int, color: bool, everything: bool) -> str:  # noqa: ARG001 (the same call for all)
    """The report as Markdown; `everything` adds what was ruled out."""
    report = clean_report(report)
    parts = [subject_markdown(subject, everything=everything) for subject in report.subjects]
    text = RULE.join(parts) or NOTHING
    return f"{text}\n\n<sub>{signature(report)}</sub>\n"


def signature(report: Report) -> str:
    """Who wrote it, and from what."""
    read = any(subject.known for subject in report.subjects)
    of = " from the text above, without access to the machine" if read else ""
    return f"Written by unslow {report.unslow_version}{of}."


def subject_markdown(subject: SubjectReport, *, everything: bool) -> str:
    """One subject of a report that is clean already."""
    lines = [f"### {_HEADS[subject.verdict]}", "", prose(subject.summary), ""]
    for number, chain in enumerate(chains_of(subject.findings), 1):
        lines += _finding(number, chain)
    if suspected := [item for item in subject.cannot_tell if item.suspected]:
        lines += ["Also suspected, not proven:" if subject.findings else "Suspected, but not proven:", ""]
        lines += [f"- {prose(item.because)} (`{item.cause}`)" for item in suspected[:MOST_SUSPECTED]]
        lines.append("")
    if subject.contradictions:
        lines += ["These contradict each other:", ""]
        for one in subject.contradictions:
            meaning = f" {escape_markdown(one.meaning)}" if one.meaning else ""
            lines.append(f"- {one.about}: {escape_markdown('; '.join(one.says))}.{meaning}")
        lines.append("")
    if subject.ask_next:
        what = "the following" if len(subject.ask_next) > 1 else "this"
        lines += [f"Please run {what} and add the output:", ""]
        for question in subject.ask_next:
            why = f"It {question.why}" if _VERB.match(question.why) else question.why[:1].upper() + question.why[1:]
            lines += [f"- {prose(why)}:", *commands([question.command], indent="  ")]
        lines.append("")
    # Those with one reason on one line: of a model that was never loaded they are many
    reasons: dict[str, list[str]] = {}
    for item in subject.ruled_out if everything else ():
        reasons.setdefault(item.because, []).append(f"`{item.cause}`")
    ruled_out = [f"- {', '.join(causes)}: {escape_markdown(because)}" for because, causes in reasons.items()]
    known = [f"- {_evidence_text(item)}" for item in subject.known]
    for title, items in (("Read from the text", known), ("Ruled out", ruled_out)):
        if items:
            lines += ["<details>", f"<summary>{title}</summary>", "", *items, "", "</details>", ""]
    return "\n".join(lines).rstrip()


def _finding(number: int, chain: Chain) -> Iterator[str]:
    finding = chain.root
    gain = f" (about {finding.speedup:.1f}× faster without it)" if finding.speedup and finding.speedup > 1 else ""
    yield f"**{number}. {finding.title}**{gain}"
    yield ""
    text = prose(finding.because[:1].upper() + finding.because[1:])
    yield (text if text.endswith((".", "!", "?")) else f"{text}.")
    yield ""
    yield from (f"- {_evidence_text(evidence)}" for evidence in finding.evidence)
    for fix in finding.fixes:
        yield from _fix(fix)
    for link in chain.after:  # what follows from the cause: its own fixes are other ways out
        yield f"- **Consequence:** {link.title[0].lower()}{link.title[1:]}: {prose(link.because)}."
        yield from (f"  - {_evidence_text(evidence)}" for evidence in link.evidence)
        for fix in link.fixes:
            yield from _fix(fix, "Or")
    yield ""


def _fix(fix: Fix, name: str = "Fix") -> Iterator[str]:
    then = fix_effect(fix.predicted)
    gives = f" (expected: {then})" if then else ""
    risk = f" Risk: {prose(fix.risk)}." if fix.risk else ""
    yield f"- **{name}:** {prose(fix.why or fix.knob)}{gives}.{risk}"
    yield from commands(fix.commands, indent="  ")


def _evidence_text(evidence: Evidence) -> str:
    against = f", against {evidence.reference}" if evidence.reference else ""
    value = escape_markdown(value_text(evidence.fact, evidence.value))
    told = ", as written" if evidence.origin == "told" and not evidence.fact.startswith("account.") else ""
    return f"{label(evidence.fact)}: {value}{escape_markdown(against)} ({escape_markdown(evidence.source)}{told})"


def prose(text: str) -> str:
    """A sentence in which single backticks mark code; all else stays text."""
    parts = _SPAN.split(text)
    return "".join(part if number % 2 else escape_markdown(part) for number, part in enumerate(parts))


def escape_markdown(text: str) -> str:
    """Text that stays text: no HTML, images or links, no mentions of people or issues by accident."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace("\n", " ")
    return _MARKS.sub(r"\\\g<0>", text).replace("@", "@\u200b").replace("#", "#\u200b")
