"""Whether a text is about a model on somebody's own hardware at all; of any other, lists of causes would be noise."""

import re
from collections.abc import Sequence
from itertools import islice
from typing import Any

import msgspec

from unslow.facts.snapshot import Snapshot
from unslow.facts.values import Known
from unslow.look.paste import Pasted
from unslow.think.report import Expected, Report, SubjectReport

NOTHING = "Nothing here tells of a model running on somebody's own hardware."
_HINT = "Paste the log of the runtime, or what commands such as `ollama ps` and `nvidia-smi` print."
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
    if _is_source_code(lines):
        return False
    told = bool(pasted.recognised) or _has_facts(snapshot)
    return told or any(_WORDS.search(line) for line in islice(lines, _LINES_LOOKED_AT))


def _has_facts(snapshot: Snapshot) -> bool:
    gpus = bool(snapshot.machine.gpus.value_or(()))
    return gpus or any(
        isinstance(subject.runtime.name, Known) or _knows_any(subject.model) or _knows_any(subject.run)
        for subject in snapshot.subjects
    )


def _knows_any(facts: Any) -> bool:
    return any(isinstance(getattr(facts, name), Known) for name in facts.__struct_fields__)


def _is_source_code(lines: Sequence[str]) -> bool:
    """A program in C prints nothing: what its strings say has not happened."""
    written = [line for line in islice(lines, _LINES_LOOKED_AT) if line.strip()]
    if not any(_FROM_C.match(line) for line in written[:20]):
        return False
    return sum(bool(_CODE.search(line)) for line in written) > _MOSTLY * len(written)


def nothing_told(report: Report) -> Report:
    """The report on a text about something else: one sentence, and what to paste instead."""
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
        notes=(_HINT,),
    )
    return msgspec.structs.replace(report, subjects=(empty,))
