"""Sentences, phrases and numbers with a unit: as people write them in a claim, and as an answer writes them."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from unslow.facts.values import GB, GIB, KIB, MB, MIB


def any_phrase(*phrases: str) -> re.Pattern[str]:
    """Any of the phrases, as whole words; each may be an expression itself."""
    return re.compile(rf"\b(?:{'|'.join(phrases)})\b")


SAME_LENGTH = str.maketrans(
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


def sentences(text: str) -> Iterator[str]:
    """Each sentence, and each cell of a table with the heads of its row and column, without markup."""
    for block, kind in _blocks(text):
        if kind == "table":
            yield from _cells(block)
        else:
            is_code = kind == "code"
            parts = block.splitlines() if is_code else _ENDS.split(_MARKUP.sub("", _LINK.sub(r"\1", block)))
            yield from (" ".join(part.split())[:LONGEST_SENTENCE] for part in parts if part.strip())


def _blocks(text: str) -> Iterator[tuple[str, str]]:
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
    lines = (_MARKUP.sub("", _LINK.sub(r"\1", line)) for line in block.splitlines() if not _RULE.match(line))
    table = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines]
    heads, *rows = table or [[]]
    if heads and not rows:
        yield " ".join(heads)[:LONGEST_SENTENCE]
    for row in rows:
        numbers = [n for n, cell in enumerate(row) if n and re.search(r"\d|thousands", cell)]
        subject = ", ".join(cell for n, cell in enumerate(row) if n not in numbers or not n)
        for n in numbers:
            head = heads[n] if n < len(heads) else ""
            yield f"{subject}: {row[n]} ({head})"[:LONGEST_SENTENCE]


_NUMBER = r"(?:\d{1,3}(?:,\d{3}){1,5}|\d{1,15})(?:\.\d{1,9})?"
_MANY = {"dozens": 24, "hundreds": 100, "thousands": 1000, "tens of thousands": 10_000}
_TOKENS = r"(?:t|tks?|toks?|tokens?)\b"
_RATE = rf"(?:(?:[a-z]+\s)?{_TOKENS}\s?(?:/|per|a)\s?(?:s|sec|seconds?)\b|t/s|tps\b|tokps\b)"
_TIMES = "ms|us|milliseconds?|microseconds?|s|seconds?"
_UNITS = {
    "speed": rf"(?P<unit>{_RATE})",
    "token_time": rf"(?P<unit>{_TIMES})\s?(?:/|per|a|each|for each|for a)\s?(?:\w+\s){{0,2}}?tok(?:en)?s?\b",
    "bandwidth": r"(?P<unit>[mgtp]i?b)(?:/s|ps\b|\s?(?:per|a)\s(?:s|sec|seconds?)\b)",
    "size": r"(?P<unit>[mgt]i?b|gigs?|gigabytes?|megabytes?|terabytes?)\b(?!/s|ps\b|\s?(?:per|a) sec)",
    "percent": r"(?P<unit>%|percent)",
}
_SCALES = {
    "ms": 1e-3, "us": 1e-6, "s": 1.0, "milliseconds": 1e-3, "millisecond": 1e-3, "microsecond": 1e-6,
    "microseconds": 1e-6, "second": 1.0, "seconds": 1.0, "mb": MB, "gb": GB, "tb": 1000 * GB, "pb": 10**15, "mib": MIB,
    "gib": GIB, "tib": 1024 * GIB, "gig": GB, "gigs": GB, "gigabyte": GB, "gigabytes": GB, "megabyte": MB,
    "megabytes": MB, "terabyte": 1000 * GB, "terabytes": 1000 * GB, "%": 0.01, "percent": 0.01,
}  # fmt: skip
_BEFORE = r"(?P<before>(?:under|below|less than|at most|no more than|<)\s*)?"
_MANY_WORDS = r"tens of thousands|thousands|hundreds|dozens"
_PATTERNS = {
    kind: re.compile(
        rf"{_BEFORE}(?<![\w.])(?:(?P<low>{_NUMBER})\s?(?P<klow>k)?(?:\s?(?P<lowunit>[mgt]i?b|%))?"
        rf"(?:\s?(?:-|to|and|\.\.)\s?~?(?P<high>{_NUMBER}))?\s?(?P<k>k)?(?P<plus>\+)?|(?P<many>{_MANY_WORDS})(?:\sof)?)"
        rf"\s?-?{unit}"
    )
    for kind, unit in _UNITS.items()
}


_TAKEN = re.compile(
    rf"(?<![\w.])(?P<tokens>{_NUMBER})\s?(?P<k>k)?[\s-](?:\w+\s)?(?:tokens?|prompt)\b(?:\s(?:prompt|of text))?"
    rf"\s(?:\w+\s)?in\s(?:about |only |just |~)?(?P<time>{_NUMBER})\s?(?P<unit>ms|s|sec|seconds?|minutes?)\b"
)
_SECONDS = {"ms": 1e-3, "minute": 60.0, "minutes": 60.0}


class Amount(NamedTuple):
    """A number or a range, in SI units, and where it stands."""

    kind: str
    low: float
    high: float
    start: int
    end: int
    unit: str = ""
    is_limit: bool = False  # Whether it is said to stay below


def amounts(text: str) -> list[Amount]:
    """Every amount of a plain text, in order; a longer reading wins over a shorter one."""
    found = [amount for kind in _PATTERNS for amount in _amounts_of_kind(kind, text)]
    for match in _TAKEN.finditer(text):  # `512 tokens in 4 seconds` is a speed too
        seconds = number(match["time"]) * _SECONDS.get(match["unit"], 1.0)
        tokens = number(match["tokens"]) * (1024 if match["k"] else 1)
        if seconds > 0 and tokens > 0:
            found.append(Amount("speed", tokens / seconds, tokens / seconds, *match.span(), match["unit"]))
    kept: list[Amount] = []
    for amount in sorted(found, key=lambda a: (a.start, -a.end)):
        if not kept or amount.start >= kept[-1].end:
            kept.append(amount)
    return kept


def _amounts_of_kind(kind: str, text: str) -> Iterator[Amount]:
    for match in _PATTERNS[kind].finditer(text):
        unit, scale = match["unit"], float(_SCALES.get(match["unit"], 1.0))
        if match["many"]:
            low = high = float(_MANY[match["many"]])
            high *= 10
        else:  # `2-3k` are thousands both, `2k-3k` too
            low = high = number(match["low"]) * (1000 if match["klow"] or match["k"] else 1)
            high = number(match["high"]) * (1000 if match["k"] else 1) if match["high"] else high
        low, high = low * scale, high * scale
        from_to = match["high"] and (text[: match.start()].endswith("from ") or high < low)
        if from_to and kind != "token_time":  # `from 2.8 GB to 1.4 GB` are two amounts and no range
            middle = match.start("high")
            yield Amount(kind, low, low, match.start(), middle - 1, unit)
            yield Amount(kind, high, high, middle, match.end(), unit)
        elif kind == "token_time" and min(low, high) > 0:
            yield Amount("speed", 1 / max(low, high), 1 / min(low, high), *match.span(), unit)
        elif kind != "token_time":
            yield Amount(kind, low, max(low, high), *match.span(), unit, is_limit=bool(match["before"]))


def number(text: str) -> float:
    """A number with or without commas."""
    return float(text.replace(",", ""))


_TERABYTES_FROM = 1e13  # of chips with memory of their own


def rate(tokens_per_s: float) -> str:
    """Three digits, or as many as the number has before its point."""
    if tokens_per_s == float("inf"):
        return "any number of tok/s"
    return f"{three_digits(tokens_per_s)} tok/s"


def three_digits(value: float) -> str:
    """Three digits."""
    for limit, places in ((100, 0), (10, 1), (1, 2)):
        if value >= limit:
            text = f"{value:,.{places}f}"
            return text.rstrip("0").rstrip(".") if "." in text else text
    return f"{value:.2g}"


def gb(count: float) -> str:
    """Bytes in units of thousands, as files and reads are counted."""
    return f"{three_digits(count / GB)} GB" if count >= GB / 10 else f"{three_digits(count / MB)} MB"


def gib(count: float) -> str:
    """Bytes in binary units, as memories are."""
    return f"{three_digits(count / GIB)} GiB" if count >= GIB / 10 else f"{three_digits(count / MIB)} MiB"


def gb_and_gib(count: float) -> str:
    """Bytes in both."""
    return f"{gb(count)} ({gib(count)})"


def bandwidth(bytes_per_s: float) -> str:
    """GB/s, or TB/s from ten on."""
    if bytes_per_s >= _TERABYTES_FROM:
        return f"{three_digits(bytes_per_s / 1e12)} TB/s"
    return f"{three_digits(bytes_per_s / GB)} GB/s"


def percent(part: float) -> str:
    """A percentage."""
    return f"{part * 100:.0f} %"


def tokens(count: int) -> str:
    """A length of context."""
    return f"{count // KIB}K" if count >= KIB and count % KIB == 0 else f"{count:,}"
