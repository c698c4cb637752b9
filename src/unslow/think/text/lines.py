"""The lines of a text that a person wrote: which of them claim something, and what they are about."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from unslow.catalog.bug_reports import difference_phrases, remark_phrases
from unslow.facts.account import Remark, Topic
from unslow.facts.masking import masked_text
from unslow.think.claims.models import quants_said

MOST_LINES = 2000  # Different lines: a person writes fewer
MOST_CHARACTERS = 400_000  # Of them together, so that a hostile text costs seconds and not minutes
LONGEST_LINE = 600
MOST_PRINTED = 400
_REPEATS, _SHAPE = 3, 80  # What comes more often, but for its digits, a program has printed
_DIGITS = re.compile(r"\d+")
# sequences that drive a terminal, then what is left of control characters and of marks that turn text around
_ESCAPES = re.compile(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|(?:\x1b\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?|\x1b.")
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
# what only programs begin a line with: a clock, a level, a function of llama.cpp, a table's edge, a JSON brace
_PRINTED = re.compile(
    r"(?:\[?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d|time=\d|\w{3} \d{1,2} \d\d:\d\d:\d\d |\d+\.\d\d\.\d{3}\.\d{3} [IWED] "
    r"|(?:INFO|WARN(?:ING)?|ERROR|DEBUG)\b[ :]|\[GIN\]|\((?:EngineCore|APIServer|Worker)"
    r"|(?:[\w:]{0,60}_)?(?:llama|llm|ggml|gguf|clip|srv|slot|print_info|load_tensors|load_backend|sched_reserve|common)"
    r"\w{0,60}(?:  +|: )|[|+][-=+| ]{4,}|\{\"|[}\]],?$)"
)
_DEBUG = re.compile(r"\b(?:DEBUG|TRACE)\b")
_LABEL = re.compile(r"^\s*(?:[-*•>#]{1,4}\s+)?(?:\d{1,2}[.)]\s+)?")
_SAME = str.maketrans({"→": ">", "⇒": ">", "➜": ">", "–": "-", "—": "-", "−": "-", "~": " ", "≈": " ",
                       "’": "'", "‘": "'", "“": '"', "”": '"', "×": "x", "\xa0": " ", "İ": "i"})  # fmt: skip
"""One kind of arrow, dash and quote; places of the characters stay where they were."""


class Line(NamedTuple):
    """One line in small letters and as it was written, and where it stands."""

    text: str
    original: str
    where: str


def prose_lines(lines: Sequence[str], source: str, numbers: Sequence[int] = ()) -> Iterator[Line]:
    """The lines of prose, cleaned and bounded; without numbers of their own they count from 1."""
    seen: Counter[str] = Counter()
    characters = 0
    for number, raw in zip(numbers or range(1, len(lines) + 1), lines, strict=False):
        shape = _DIGITS.sub("0", raw[:_SHAPE])
        if seen[shape] >= _REPEATS or (shape not in seen and len(seen) >= MOST_LINES):
            continue
        seen[shape] += 1
        line = masked_text(_bare(raw))[:LONGEST_LINE]  # masked before it is cut, lest half a key be left
        if line and not _PRINTED.match(line):
            characters += len(line)
            if characters > MOST_CHARACTERS:
                return
            original = _LABEL.sub("", line)
            yield Line(original.translate(_SAME).lower(), original, f"{source}:{number}")


def printed_lines(lines: Sequence[str], source: str, numbers: Sequence[int] = ()) -> Iterator[Line]:
    """The lines that a program printed and no reader of logs knew, without what only a developer looks at."""
    found = 0
    for number, raw in zip(numbers or range(1, len(lines) + 1), lines, strict=False):
        bare = _bare(raw)
        if not _PRINTED.match(bare):  # there may be very many, and masking takes its time
            continue
        line = masked_text(bare)[:LONGEST_LINE]
        if line and not _DEBUG.search(line):
            found += 1
            if found > MOST_PRINTED:
                return
            yield Line(line.translate(_SAME).lower(), line, f"{source}:{number}")


def _bare(raw: str) -> str:
    """The line without what drives a terminal."""
    return _CONTROLS.sub("", _ESCAPES.sub("", raw[: 4 * LONGEST_LINE])).replace("\t", " ").strip()


MOST_REMARKS = 200
_LONGEST = 160
_OF_PROGRAMS = {Topic.GPU_NOT_SUPPORTED, Topic.OPERATION_ON_CPU, Topic.WEIGHTS_ON_HOST, Topic.CPU_ONLY_BUILD}
"""What programs say in words that people repeat, and that means the same from both."""


def remarks_told(lines: Sequence[Line], printed: Sequence[Line] = ()) -> tuple[Remark, ...]:
    """Every reported observation, in order; each topic of a line once. Programs are heard on a few."""
    heard = remark_phrases()
    of_programs = {topic: phrases for topic, phrases in heard.items() if topic in _OF_PROGRAMS}
    found = list[Remark]()
    for line, topics in (*((line, heard) for line in lines), *((line, of_programs) for line in printed)):
        for topic, phrases in topics.items():
            if (match := phrases.says.search(line.text)) and is_claimed(line.text, match.start()):
                denied = bool(phrases.unless and phrases.unless.search(line.text[: match.start()]))
                found.append(Remark(topic=topic, text=line.original[:_LONGEST], source=line.where, denied=denied))
    return tuple(found[:MOST_REMARKS])


def topics_of(text: str) -> tuple[Topic, ...]:
    """What a text names that can differ between two runs."""
    found = tuple(topic for topic, pattern in difference_phrases().items() if pattern.search(text))
    only_cache = Topic.KV_TYPE in found and all(quant.of_cache for quant in quants_said(text))
    return tuple(topic for topic in found if topic is not Topic.QUANT_TYPE) if only_cache else found


_STOPS = re.compile(r"[.!?](?=\s|$)")
_ASKED = re.compile(
    r"^\W*(?:(?:so|and|or|but|also|hmm|well|then|now)\b,?\s*){0,3}"
    r"(?:is|are|was|were|does|do|did|can|could|should|would|will|has|have|might|may|any ?(?:one|body)|what if|or)\b"
)
_HEARSAY = re.compile(
    r"\b(?:i(?:'ve| have)? (?:also |just |only )?(?:heard|read|saw someone)|heard (?:that|it|they)|people (?:say"
    r"|claim|told)"
    r"|some(?:one|body)? (?:says?|said|told me|claims?)|they say|rumou?rs?|supposedly|allegedly|according to"
    r"|says? (?:the |its )?(?:docs?|readme|manual|wiki))\b"
)
_GUESSED = re.compile(
    r"\b(?:wonder(?:ing|s)?|not sure (?:if|whether)|no idea (?:if|whether)|what if|maybe|perhaps|possibly"
    r"|might (?:be|have)"
    r"|could (?:it )?be|would be|suspect\w*|i (?:guess|assume|wish|want|would like)|in case|afraid (?:that )?(?:it"
    r"|of))\b"
)


def is_claimed(text: str, at: int) -> bool:
    """Whether what stands at a place of a text is claimed by its sentence; questions for a reason do claim it."""
    start = max((stop.end() for stop in _STOPS.finditer(text, 0, at)), default=0)
    stop = _STOPS.search(text, at)
    sentence = text[start : stop.end() if stop else len(text)]
    asks = sentence.rstrip().endswith("?") and bool(_ASKED.match(sentence))
    return not asks and not _HEARSAY.search(sentence) and not _GUESSED.search(sentence[: at - start])
