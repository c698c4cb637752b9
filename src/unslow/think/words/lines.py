"""The lines of a text that a person wrote, apart from those that a program printed."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from unslow.facts.masking_rules import masked_text

MOST_LINES = 2000
"""Different lines: a person writes fewer."""
MOST_CHARACTERS = 400_000
"""Of them together, so that a hostile text costs seconds and not minutes."""
LONGEST_LINE = 600
_REPEATS, _SHAPE = 3, 80
"""What comes more often, but for its digits, a program has printed."""
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
MOST_PRINTED = 400
_LABEL = re.compile(r"^\s*(?:[-*•>#]{1,4}\s+)?(?:\d{1,2}[.)]\s+)?")


class Line(NamedTuple):
    """One line in small letters and as it was written, and where it stands."""

    text: str
    original: str
    where: str
    number: int


def prose(lines: Sequence[str], source: str, numbers: Sequence[int] = ()) -> Iterator[Line]:
    """The lines of prose, cleaned and bounded; without numbers of their own they count from 1."""
    seen: Counter[str] = Counter()
    characters = 0
    for number, raw in zip(numbers or range(1, len(lines) + 1), lines, strict=False):
        shape = _DIGITS.sub("0", raw[:_SHAPE])
        if seen[shape] >= _REPEATS or (shape not in seen and len(seen) >= MOST_LINES):
            continue
        seen[shape] += 1
        line = _cleaned(raw)
        if line and not _PRINTED.match(line):
            characters += len(line)
            if characters > MOST_CHARACTERS:
                return
            original = _LABEL.sub("", line)
            yield Line(plain(original), original, f"{source}:{number}", number)


def printed(lines: Sequence[str], source: str, numbers: Sequence[int] = ()) -> Iterator[Line]:
    """The lines that a program printed and no reader of logs knew, without what only a developer looks at."""
    found = 0
    for number, raw in zip(numbers or range(1, len(lines) + 1), lines, strict=False):
        if not _PRINTED.match(_bare(raw)):  # there may be very many, and masking takes its time
            continue
        line = _cleaned(raw)
        if line and not _DEBUG.search(line):
            found += 1
            if found > MOST_PRINTED:
                return
            yield Line(plain(line), line, f"{source}:{number}", number)


def _cleaned(raw: str) -> str:
    """The line without what drives a terminal and without keys: masked before it is cut, lest half a key be left."""
    return masked_text(_bare(raw))[:LONGEST_LINE]


def _bare(raw: str) -> str:
    """The line without what drives a terminal."""
    return _CONTROLS.sub("", _ESCAPES.sub("", raw[: 4 * LONGEST_LINE])).replace("\t", " ").strip()


def plain(text: str) -> str:
    """Small letters, one kind of arrow, dash and quote; places of the characters stay where they were."""
    return text.translate(_SAME).lower()


_SAME = str.maketrans({"→": ">", "⇒": ">", "➜": ">", "–": "-", "—": "-", "−": "-", "~": " ", "≈": " ",
                       "’": "'", "‘": "'", "“": '"', "”": '"', "×": "x", "\xa0": " ", "İ": "i"})  # fmt: skip
