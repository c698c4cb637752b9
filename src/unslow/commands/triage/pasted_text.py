"""Any pasted text as a report: where it is read from, whether it is about inference, and what it tells."""

import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import NamedTuple

import msgspec

from unslow import __version__
from unslow.commands._command_lines import with_fix_commands
from unslow.commands._output import Progress
from unslow.commands.triage.expectation import with_expectation
from unslow.facts.commands import parse_line
from unslow.facts.errors import UserError
from unslow.facts.masking import mask_snapshot
from unslow.facts.merge import bound_facts
from unslow.facts.snapshot import Snapshot, Subject
from unslow.facts.values import Known, first_known
from unslow.look.logs.stream import TEXT_LOOKED_AT, is_text
from unslow.look.paste import PastedFacts, merged_machine, merged_subjects, read_paste
from unslow.think.case.view import CaseView, views_of
from unslow.think.judge.judge import diagnose
from unslow.think.judge.questions import questions
from unslow.think.judge.subject import known_facts
from unslow.think.judge.summary import summary
from unslow.think.report import Expectation, Report, SubjectReport
from unslow.think.text.prose import read_words

CHUNK_BYTES = 1 << 20
NOTHING = "The text is not about a model on local hardware."
PROVEN = 0.75  # A finding that is less sure rests on words; then the commands that would show it are asked for
BytesRead = Callable[[int], None]
_HINT = "give a log or a report as a text file, or - for standard input"
_LINES_LOOKED_AT = 5000
_WORDS = re.compile(
    r"(?i)(?<![\w/])(?:[vs]?llms?|models?|ollama|llama\S*|gguf|ggml|vllm|sglang|exllama\S*|mlx|transformers|pytorch|"
    r"inference|tok(?:en)?s?(?:/s\w*| per second)|t/s|tokens|prompts?|quant\w*|gpus?|vram|cuda|rocm|npu|tensor cores?|"
    r"lm ?studio|kobold\w*|context (?:length|size|window)|локальн\w*|видеокарт\w*|显卡|模型)(?!\w)"
)
_FROM_C = re.compile(r"\s*#\s*include\s*[<\"]")
_CODE = re.compile(r"(?:[;{}]|\*/|,)\s*+(?s://.*)?$|^\s*(?:#|//|/\*|\*)")
_MOSTLY = 0.7


class TextSource(NamedTuple):
    """Chunks of bytes, what to call them in sources of facts, and their size where it is known."""

    chunks: Iterator[bytes]
    name: str
    total_bytes: int

    def follow(self, progress: Progress) -> Callable[[int], None]:
        """Tells a progress bar how far reading is."""
        total = max(1, self.total_bytes)
        return lambda done: progress.step(f"reading {self.name}", min(1.0, done / total) if self.total_bytes else 0.5)


class TriageResult(NamedTuple):
    """The report, and the snapshot that it was judged from."""

    report: Report
    snapshot: Snapshot


@contextmanager
def read_text_source(word: str) -> Iterator[TextSource]:
    """The text at a path, or standard input for `-`; UserError where there is none."""
    if word == "-":
        if sys.stdin is None:
            raise UserError("no standard input", _HINT)
        yield TextSource(iter(partial(sys.stdin.buffer.read, CHUNK_BYTES), b""), "paste", 0)
        return
    try:
        with open(word, "rb") as file:
            kind = os.fstat(file.fileno())
            size = kind.st_size if stat.S_ISREG(kind.st_mode) else 0
            # What a file is called in sources of facts: printable, whatever bytes its name is made of
            name = os.path.basename(word) or word  # noqa: PTH119 (a name, no file)
            name = "".join(c if c.isprintable() else "?" for c in name)
            yield TextSource(iter(partial(file.read, CHUNK_BYTES), b""), name, size)
    except IsADirectoryError as error:
        raise UserError(f"{word} is a folder", "`unslow diagnose FOLDER` reads a recorded machine") from error
    except OSError as error:
        raise UserError(f"{word}: {error.strerror or error}", _HINT) from error


def triage(chunks: Iterable[bytes], source: str, progress: BytesRead | None = None) -> TriageResult:
    """Read a text once, in bounded memory, and judge what it tells; UserError where it tells nothing at all."""
    pasted = read_paste(_only_text(chunks, source), source, progress)
    if not pasted.bytes:
        raise UserError(f"{source} is empty", "paste a log, a bug report or the output of a command")
    snapshot = _snapshot(pasted, source)
    if not is_about_inference(pasted, snapshot):
        nothing = Snapshot(unslow_version=__version__, subjects=(Subject(),))
        report = diagnose(nothing)
        first = report.subjects[0]
        empty = SubjectReport(
            runtime=first.runtime,
            model=first.model,
            devices=first.devices,
            verdict="cannot_tell",
            summary=NOTHING,
            phase=first.phase,
            measured={},
            expected=Expectation(),
            notes=("Paste the runtime's log, or the output of commands such as `ollama ps` and `nvidia-smi`.",),
        )
        return TriageResult(msgspec.structs.replace(report, subjects=(empty,)), nothing)
    report = with_fix_commands(diagnose(snapshot), snapshot)
    cases = list(views_of(snapshot))
    subjects = tuple(_with_questions_and_facts(subject, cases[subject.number], pasted) for subject in report.subjects)
    return TriageResult(msgspec.structs.replace(report, subjects=subjects), snapshot)


def _only_text(chunks: Iterable[bytes], source: str) -> Iterator[bytes]:
    """The same chunks; UserError where the first of them are no text."""
    waiting, start = iter(chunks), b""
    while len(start) < TEXT_LOOKED_AT and (chunk := next(waiting, b"")):
        start += chunk
    if not is_text(start):
        raise UserError(f"{source} is not text", "give a log or a report; unpack an archive first")
    yield start
    yield from waiting


def _snapshot(pasted: PastedFacts, source: str) -> Snapshot:
    told = read_words(pasted.prose.lines, source, numbers=pasted.prose.numbers)
    machine = merged_machine([told.machine, pasted.machine])
    subjects = []
    for subject in merged_subjects((told.subject, *pasted.subjects)) or (Subject(),):
        # With what the text says of the system around it: commands are spelled for that one, not for this
        runtime = subject.runtime.with_facts(
            container=first_known(subject.runtime.process.container, machine.system.container),
            system=first_known(subject.runtime.process.system, machine.system.name),
        )
        subjects.append(bound_facts(msgspec.structs.replace(subject, runtime=runtime)))
    # people paste keys: what is not in the facts is in no report
    return mask_snapshot(Snapshot(unslow_version=__version__, machine=bound_facts(machine), subjects=tuple(subjects)))


def is_about_inference(pasted: PastedFacts, snapshot: Snapshot) -> bool:
    """Whether a runtime, a model, a GPU, a speed or a log of one is told of, or at least spoken of."""
    lines = pasted.prose.lines
    # A program in C prints nothing: what its strings say has not happened
    written = [line for line in islice(lines, _LINES_LOOKED_AT) if line.strip()]
    is_in_c = any(_FROM_C.match(line) for line in written[:20])
    if is_in_c and sum(bool(_CODE.search(line)) for line in written) > _MOSTLY * len(written):
        return False
    if pasted.recognised or snapshot.machine.gpus.value_or(()):
        return True
    for subject in snapshot.subjects:
        facts = (subject.runtime.name, *msgspec.structs.astuple(subject.model), *msgspec.structs.astuple(subject.run))
        if any(isinstance(fact, Known) for fact in facts):
            return True
    return any(_WORDS.search(line) for line in islice(lines, _LINES_LOOKED_AT))


def _with_questions_and_facts(subject: SubjectReport, case: CaseView, pasted: PastedFacts) -> SubjectReport:
    """With what to ask next, what was understood, and how it was read."""
    read = ", ".join(
        f"{count} recognized as {name}" for name, count in sorted(pasted.recognised.items(), key=lambda p: -p[1])
    )
    lines = f"{pasted.lines:,} line{'' if pasted.lines == 1 else 's'}"
    note = f"Read {lines}: {read or 'no log or table found'}; the rest read as prose."
    if pasted.sampled:
        note += " Repeated lines were only counted."
    judged = with_expectation(subject, case)
    # Where a cause is proven, or all is well, a command can only settle what is suspected beside it
    proven = judged.verdict == "normal" or any(finding.confidence >= PROVEN for finding in judged.findings[:1])
    asked = questions(case, tuple(one for one in judged.cannot_tell if one.suspected or not proven))
    worded = judged
    if judged.summary == subject.summary:  # with the first command that is asked for, within a sentence
        worded = summary(case, judged, f"`{parse_line(asked[0].command).text}`" if asked else "")
    return msgspec.structs.replace(worded, ask_next=asked, known=known_facts(case), notes=(*subject.notes, note))
