"""Text as claims are looked for in it: plain letters, one sentence or one cell of a table at a time."""

import re
from collections.abc import Iterator
from itertools import pairwise

_SAME_LENGTH = str.maketrans(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZ–—−‑×≈µμ\u00a0\u202f\u2009’“”≤≥→", 'abcdefghijklmnopqrstuvwxyz----x~uu   \'""<>>'
)
_ENDS = re.compile(
    r"(?<=[.!?])(?:[)\"'*_]*)\s+(?=[A-Z~*_`\"(\d\-])|\n\s*\n|\n(?=\s*(?:[-*+•]|\d{1,2}[.)])\s)|\n(?=\s*#)"
)
_MARKUP = re.compile(r"[*`]{1,3}|^\s*(?:#{1,6}|[-*+•>]|\d{1,2}[.)])\s+|<!--.*?-->", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[([^\]\n]{1,200})\]\([^)\n]{1,400}\)")
_ROW = re.compile(r"^\s*\|(.+)\|?\s*$")
_RULE = re.compile(r"^[\s|:\-]+$")
LONGEST_SENTENCE = 2000


def plain(text: str) -> str:
    """The text in small letters and with one form of each sign; every letter stays where it is."""
    return text.translate(_SAME_LENGTH)


def sentences(text: str) -> Iterator[str]:
    """Each sentence, and each cell of a table with the heads of its row and column, without markup."""
    for block, kind in _blocks(text):
        if kind == "table":
            yield from _cells(block)
            continue
        if kind == "code":
            yield from (" ".join(line.split())[:LONGEST_SENTENCE] for line in block.splitlines() if line.strip())
            continue
        for part in _ENDS.split(_MARKUP.sub("", _LINK.sub(r"\1", block))):
            if sentence := " ".join(part.split()):
                yield sentence[:LONGEST_SENTENCE]


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    """Stretches of lines that are rows of a table, lines of code or words."""
    lines = text.splitlines()
    kinds: list[str] = []
    fenced = False
    for line in lines:
        fence = line.lstrip().startswith("```")
        fenced ^= fence
        is_code = fenced or fence or line.startswith("    ")
        kinds.append("code" if is_code else "table" if _ROW.match(line) else "words")
    starts = [i for i in range(len(lines)) if i == 0 or kinds[i] != kinds[i - 1]]
    for start, end in pairwise([*starts, len(lines)]):
        yield "\n".join(line for line in lines[start:end] if not line.lstrip().startswith("```")), kinds[start]


def _cells(block: str) -> Iterator[str]:
    table = [_row(line) for line in block.splitlines() if not _RULE.match(line)]
    heads, *rows = table or [[]]
    if heads and not rows:
        yield " ".join(heads)[:LONGEST_SENTENCE]
    for row in rows:
        numbers = [n for n, cell in enumerate(row) if n and re.search(r"\d|thousands", cell)]
        subject = ", ".join(cell for n, cell in enumerate(row) if n not in numbers or not n)
        for n in numbers:
            head = heads[n] if n < len(heads) else ""
            yield f"{subject}: {row[n]} ({head})"[:LONGEST_SENTENCE]


def _row(line: str) -> list[str]:
    clean = _MARKUP.sub("", _LINK.sub(r"\1", line)).strip().strip("|")
    return [cell.strip() for cell in clean.split("|")]
