"""Any pasted text as a report: logs, tables, commands and words, judged by the same causes as a live machine."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import msgspec

from unslow import __version__
from unslow.app.relevance import is_about_inference, nothing_told
from unslow.app.spell import spelled
from unslow.app.told_expectation import with_expectation
from unslow.facts.bounded import bounded
from unslow.facts.errors import UserError
from unslow.facts.machine import Machine
from unslow.facts.masking import masked
from unslow.facts.placed import line_of
from unslow.facts.snapshot import Case, Snapshot, Subject
from unslow.facts.values import first_known
from unslow.look.logs.cleaning import TEXT_LOOKED_AT, is_text
from unslow.look.paste import Pasted, read_paste
from unslow.look.paste.machines import merged_machine
from unslow.look.paste.subjects import merged_subjects
from unslow.think.judge import diagnose
from unslow.think.known_facts import known_facts
from unslow.think.questions import questions
from unslow.think.report import Question, Report, SubjectReport, Untold
from unslow.think.summary import summary
from unslow.think.words import read_words

PROVEN = 0.75
"""A finding that is less sure rests on words; then the commands that would show it are asked for."""
Progress = Callable[[int], None]


class Triaged(NamedTuple):
    """The report, and the snapshot that it was judged from."""

    report: Report
    snapshot: Snapshot


def triage(chunks: Iterable[bytes], source: str, progress: Progress | None = None) -> Triaged:
    """Read a text once, in bounded memory, and judge what it tells; UserError where it tells nothing at all."""
    pasted = read_paste(_only_text(chunks, source), source, progress)
    if not pasted.bytes:
        raise UserError(f"{source} is empty", "paste a log, a bug report or the output of a command")
    snapshot = _snapshot(pasted, source)
    if not is_about_inference(pasted, snapshot):
        nothing = Snapshot(unslow_version=__version__, subjects=(Subject(),))
        return Triaged(nothing_told(diagnose(nothing)), nothing)
    report = spelled(diagnose(snapshot), snapshot)
    subjects = tuple(_completed(subject, case, pasted) for subject, case in _pairs(report, snapshot))
    return Triaged(msgspec.structs.replace(report, subjects=subjects), snapshot)


def _only_text(chunks: Iterable[bytes], source: str) -> Iterator[bytes]:
    """The same chunks; UserError where the first of them are no text."""
    waiting, start = iter(chunks), b""
    while len(start) < TEXT_LOOKED_AT and (chunk := next(waiting, b"")):
        start += chunk
    if not is_text(start):
        raise UserError(f"{source} is no text", "name a log or a report; a packed one has to be unpacked first")
    yield start
    yield from waiting


def _snapshot(pasted: Pasted, source: str) -> Snapshot:
    told = read_words(pasted.prose.lines, source, numbers=pasted.prose.numbers)
    machine = merged_machine([told.machine, pasted.machine])
    subjects = tuple(_at_home(s, machine) for s in merged_subjects((told.subject, *pasted.subjects)) or (Subject(),))
    seen = Snapshot(
        unslow_version=__version__, machine=bounded(machine), subjects=tuple(bounded(subject) for subject in subjects)
    )
    return masked(seen)  # people paste keys: what is not in the facts is in no report


def _at_home(subject: Subject, machine: Machine) -> Subject:
    """With what the text says of the system around the runtime: commands are spelled for that one, not for this."""
    runtime = msgspec.structs.replace(
        subject.runtime,
        container=first_known(subject.runtime.container, machine.system.container),
        system=first_known(subject.runtime.system, machine.system.name),
    )
    return msgspec.structs.replace(subject, runtime=runtime)


def _pairs(report: Report, snapshot: Snapshot) -> Iterator[tuple[SubjectReport, Case]]:
    cases = list(snapshot.cases())
    return ((subject, cases[subject.number]) for subject in report.subjects)


def _open(subject: SubjectReport) -> tuple[Untold, ...]:
    """What a command could still settle: where a cause is proven, or all is well, only what is suspected beside it."""
    proven = subject.verdict == "normal" or any(finding.confidence >= PROVEN for finding in subject.findings[:1])
    return tuple(one for one in subject.cannot_tell if one.suspected or not proven)


def _completed(subject: SubjectReport, case: Case, pasted: Pasted) -> SubjectReport:
    """With what to ask next, what was understood, and how it was read."""
    read = ", ".join(f"{count} of {name}" for name, count in sorted(pasted.recognised.items(), key=lambda p: -p[1]))
    lines = f"{pasted.lines:,} line{'' if pasted.lines == 1 else 's'}"
    note = f"Read {lines}: {read or 'no log or table among them'}; the rest as words."
    if pasted.sampled:
        note += " Lines that repeat were counted, not read one by one."
    judged = with_expectation(subject, case)
    asked = questions(case, _open(judged))
    worded = judged if judged.summary != subject.summary else summary(case, judged, _advice(asked))
    return msgspec.structs.replace(worded, ask_next=asked, known=known_facts(case), notes=(*subject.notes, note))


def _advice(asked: tuple[Question, ...]) -> str:
    """The first command that is asked for, within a sentence."""
    return f"`{line_of(asked[0].command).text}`" if asked else ""
