"""Any pasted text as a report: whether it is about inference, what it tells, and the speed that was to be expected."""

import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any, BinaryIO, NamedTuple

import msgspec

from unslow import __version__
from unslow.commands._fix_commands import spelled
from unslow.commands._output import Progress
from unslow.facts.commands import parse_line
from unslow.facts.errors import UserError
from unslow.facts.masking import masked
from unslow.facts.merge import bounded
from unslow.facts.snapshot import Case, Snapshot, Subject
from unslow.facts.values import Known, Unknown, first_known
from unslow.look.logs.stream import TEXT_LOOKED_AT, is_text
from unslow.look.paste import Pasted, merged_machine, merged_subjects, read_paste
from unslow.think.case.vram import gpus_of
from unslow.think.judge.checklist import AS_FAST
from unslow.think.judge.headline import AS_MUCH_AS_FITS, root_causes, suspects_in_words
from unslow.think.judge.judge import diagnose
from unslow.think.judge.normal_for_this_hardware import reached
from unslow.think.judge.questions import questions
from unslow.think.judge.subject import known_facts
from unslow.think.judge.summary import summary
from unslow.think.judge.verdict import CONTRADICTION, TOO_FAST, lost_speed
from unslow.think.report import ChecklistItem, Expected, Range, Report, SubjectReport
from unslow.think.speed.question import rounded_rate
from unslow.think.text.prose import read_words

CHUNK_BYTES = 1 << 20
_HINT = "name a log or a report as a text file, or - for standard input"


class TextSource(NamedTuple):
    """Chunks of bytes, what to call them in sources of facts, and their size where it is known."""

    chunks: Iterator[bytes]
    name: str
    total_bytes: int

    def follow(self, progress: Progress) -> Callable[[int], None]:
        """Tells a progress bar how far reading is."""
        total = max(1, self.total_bytes)
        return lambda done: progress.step(f"reading {self.name}", min(1.0, done / total) if self.total_bytes else 0.5)


@contextmanager
def read_text_source(word: str) -> Iterator[TextSource]:
    """The text at a path, or standard input for `-`; UserError where there is none."""
    if word == "-":
        if sys.stdin is None:
            raise UserError("there is no standard input", _HINT)
        yield TextSource(_chunks(sys.stdin.buffer), "paste", 0)
        return
    try:
        with open(word, "rb") as file:
            kind = os.fstat(file.fileno())
            size = kind.st_size if stat.S_ISREG(kind.st_mode) else 0
            # What a file is called in sources of facts: printable, whatever bytes its name is made of
            name = os.path.basename(word) or word  # noqa: PTH119 (a name, no file)
            yield TextSource(_chunks(file), "".join(c if c.isprintable() else "?" for c in name), size)
    except IsADirectoryError as error:
        raise UserError(f"{word} is a folder", "a recorded machine is read by `unslow diagnose FOLDER`") from error
    except OSError as error:
        raise UserError(f"{word}: {error.strerror or error}", _HINT) from error


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    while chunk := file.read(CHUNK_BYTES):
        yield chunk


NOTHING = "Nothing here tells of a model running on somebody's own hardware."
_LINES_LOOKED_AT = 5000
_WORDS = re.compile(
    r"(?i)(?<![\w/])(?:[vs]?llms?|models?|ollama|llama\S*|gguf|ggml|vllm|sglang|exllama\S*|mlx|transformers|pytorch|"
    r"inference|tok(?:en)?s?(?:/s\w*| per second)|t/s|tokens|prompts?|quant\w*|gpus?|vram|cuda|rocm|npu|tensor cores?|"
    r"lm ?studio|kobold\w*|context (?:length|size|window)|локальн\w*|видеокарт\w*|显卡|模型)(?!\w)"
)
_FROM_C = re.compile(r"\s*#\s*include\s*[<\"]")
_CODE = re.compile(r"(?:[;{}]|\*/|,)\s*+(?s://.*)?$|^\s*(?:#|//|/\*|\*)")
_MOSTLY = 0.7


def is_about_inference(pasted: Pasted, snapshot: Snapshot) -> bool:
    """Whether a runtime, a model, a GPU, a speed or a log of one is told of, or at least spoken of."""
    lines = pasted.prose.lines
    # A program in C prints nothing: what its strings say has not happened
    written = [line for line in islice(lines, _LINES_LOOKED_AT) if line.strip()]
    is_in_c = any(_FROM_C.match(line) for line in written[:20])
    if is_in_c and sum(bool(_CODE.search(line)) for line in written) > _MOSTLY * len(written):
        return False
    if pasted.recognised or snapshot.machine.gpus.value_or(()):
        return True
    has_facts = any(
        isinstance(subject.runtime.name, Known) or _knows_any(subject.model) or _knows_any(subject.run)
        for subject in snapshot.subjects
    )
    return has_facts or any(_WORDS.search(line) for line in islice(lines, _LINES_LOOKED_AT))


def _knows_any(facts: Any) -> bool:
    return any(isinstance(getattr(facts, name), Known) for name in facts.__struct_fields__)


# The speed that named hardware should give a named model: for a text that says no more than that.
#
# A report rarely holds what the exact prediction needs (tensors, placement, bandwidth measured). It often says "RTX
# 3090" and "Llama 3 8B Q4_K_M", and the catalogue knows both.

DECODE = "decode_tokens_per_s"
CPU_UNTOLD = "a part of the model is on the CPU, and the text does not tell how fast that reads memory"
_USUAL_QUANTS = {"Ollama": "Q4_K_M", "LM Studio": "Q4_K_M"}


class Usual(NamedTuple):
    """What is usual, the most that bandwidth allows, and whether only a part of the model finds room on the GPU."""

    speed: Range
    ceiling: float
    in_part: bool


def with_expectation(subject: SubjectReport, case: Case) -> SubjectReport:
    """The report with the catalogue's expectation, and the verdict that follows where nothing else decided one.

    A prediction that rests on more than names stands, unless it is of a model that all fits where it can't.
    """
    if subject.verdict == "failed":
        return subject
    known, usual = DECODE in subject.expected.achievable, _usual(case)
    if usual is None or (known and not usual.in_part):
        return _unpredicted(subject) if known and root_causes(subject.findings) == ["weights_spill_to_ram"] else subject
    most = usual.speed.mid if subject.findings else usual.speed.high
    if usual.in_part and subject.measured.get(DECODE, 0.0) > most:
        return _unpredicted(subject)
    expected = Expected(achievable={DECODE: usual.speed}, because=AS_MUCH_AS_FITS if usual.in_part else "")
    checklist, rate, speed = subject.checklist, subject.measured.get(DECODE), usual.speed
    if rate is not None:
        because = f"{rounded_rate(rate)} tok/s, {rounded_rate(speed.low)} to {rounded_rate(speed.high)} expected"
        answered = ChecklistItem(item=AS_FAST, state="ok" if reached(rate, speed.low) else "bad", because=because)
        checklist = tuple(answered if item.item == AS_FAST else item for item in checklist)
    subject = msgspec.structs.replace(subject, expected=expected, checklist=checklist)
    return subject if known else _judged(subject, usual, was_faster=lost_speed(case))


def _unpredicted(subject: SubjectReport) -> SubjectReport:
    """Where it is faster than a part on a usual CPU would be, its CPU is not a usual one."""
    asked = ChecklistItem(item=AS_FAST, state="unknown", because=CPU_UNTOLD)
    checklist = tuple(asked if item.item == AS_FAST else item for item in subject.checklist)
    return msgspec.structs.replace(subject, expected=Expected(because=CPU_UNTOLD), checklist=checklist)


def _usual(case: Case) -> Usual | None:
    """Of one GPU: several are placed in ways that a text seldom tells, and of a CPU it leaves out what decides."""
    gpus = gpus_of(case)
    device = gpus[0].name.value_or("") if len(gpus) == 1 else ""
    quant = case.model.quant.value_or(_USUAL_QUANTS.get(case.runtime.name.value_or(""), ""))
    several = case.runtime.running_requests.value_or(1) > 1  # their speeds add up
    if several or not device or not quant or not isinstance(case.model.name, Known):
        return None
    from unslow.commands.predict.cases import expected

    found = expected(case.model.name.value, quant, device)
    if isinstance(found, Unknown):
        return None
    rate = found.decode
    speed = Range(low=rate.low, mid=rate.mid, high=rate.high)
    return Usual(speed, found.ceiling_tokens_per_s, in_part=found.gpu_layers is not None)


def _judged(subject: SubjectReport, usual: Usual, *, was_faster: bool) -> SubjectReport:
    """Normal where the speed is as expected and nothing speaks against it; slow where it is below."""
    rate = subject.measured.get(DECODE)
    if rate is None or subject.findings or subject.verdict != "cannot_tell":
        return subject
    expected, fitting = usual.speed, f" {AS_MUCH_AS_FITS}" if usual.in_part else ""
    now, between = rounded_rate(rate), f"{rounded_rate(expected.low)} to {rounded_rate(expected.high)}"
    if rate > CONTRADICTION * usual.ceiling and not usual.in_part:
        too_fast = msgspec.structs.replace(subject.expected, because=TOO_FAST)
        return msgspec.structs.replace(subject, expected=too_fast)
    if not reached(rate, expected.low):
        less = f"{1 - rate / expected.mid:.0%} less than the {rounded_rate(expected.mid)} that are usual{fitting}"
        said = (f"It generates {now} tokens per second, {less} ({between}).", "The text does not prove why.")
        summary = " ".join(s for s in (*said, suspects_in_words(subject)) if s)
        return msgspec.structs.replace(subject, verdict="slow", summary=summary)
    if was_faster or any(item.suspected for item in subject.cannot_tell):
        return subject
    should = f"{rounded_rate(expected.mid)} tokens per second are usual{fitting} ({between})"
    above = " It is faster than that: the prediction was low." if rate > expected.high else ""
    summary = f"It generates {now} tokens per second, which is normal for this hardware: {should}.{above}"
    return msgspec.structs.replace(subject, verdict="normal", summary=summary)


PROVEN = 0.75  # A finding that is less sure rests on words; then the commands that would show it are asked for
BytesRead = Callable[[int], None]


class Triaged(NamedTuple):
    """The report, and the snapshot that it was judged from."""

    report: Report
    snapshot: Snapshot


def triage(chunks: Iterable[bytes], source: str, progress: BytesRead | None = None) -> Triaged:
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
            expected=Expected(),
            notes=("Paste the log of the runtime, or what commands such as `ollama ps` and `nvidia-smi` print.",),
        )
        return Triaged(msgspec.structs.replace(report, subjects=(empty,)), nothing)
    report = spelled(diagnose(snapshot), snapshot)
    cases = list(snapshot.cases())
    subjects = tuple(_completed(subject, cases[subject.number], pasted) for subject in report.subjects)
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
    subjects = []
    for subject in merged_subjects((told.subject, *pasted.subjects)) or (Subject(),):
        # With what the text says of the system around it: commands are spelled for that one, not for this
        runtime = msgspec.structs.replace(
            subject.runtime,
            container=first_known(subject.runtime.container, machine.system.container),
            system=first_known(subject.runtime.system, machine.system.name),
        )
        subjects.append(bounded(msgspec.structs.replace(subject, runtime=runtime)))
    # people paste keys: what is not in the facts is in no report
    return masked(Snapshot(unslow_version=__version__, machine=bounded(machine), subjects=tuple(subjects)))


def _completed(subject: SubjectReport, case: Case, pasted: Pasted) -> SubjectReport:
    """With what to ask next, what was understood, and how it was read."""
    read = ", ".join(f"{count} of {name}" for name, count in sorted(pasted.recognised.items(), key=lambda p: -p[1]))
    lines = f"{pasted.lines:,} line{'' if pasted.lines == 1 else 's'}"
    note = f"Read {lines}: {read or 'no log or table among them'}; the rest as words."
    if pasted.sampled:
        note += " Lines that repeat were counted, not read one by one."
    judged = with_expectation(subject, case)
    # Where a cause is proven, or all is well, a command can only settle what is suspected beside it
    proven = judged.verdict == "normal" or any(finding.confidence >= PROVEN for finding in judged.findings[:1])
    asked = questions(case, tuple(one for one in judged.cannot_tell if one.suspected or not proven))
    worded = judged
    if judged.summary == subject.summary:  # with the first command that is asked for, within a sentence
        worded = summary(case, judged, f"`{parse_line(asked[0].command).text}`" if asked else "")
    return msgspec.structs.replace(worded, ask_next=asked, known=known_facts(case), notes=(*subject.notes, note))
