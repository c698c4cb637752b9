"""How much faster one way is than another, told as a factor, or as how long each takes."""

import re
from collections.abc import Iterator
from typing import NamedTuple

LEAST_RATIO = 1.3
"""Times scatter more than rates: closer ones are the same."""
_VERBS = {"doubles": 2.0, "doubled": 2.0, "triples": 3.0, "tripled": 3.0, "quadruples": 4.0, "quadrupled": 4.0}
_COUNTED = {"twice": 2.0, "two": 2.0, "three": 3.0, "four": 4.0, "five": 5.0, "six": 6.0, "ten": 10.0}
_VERB = re.compile(rf"\b({'|'.join(_VERBS)})\b[^.;]{{0,16}}\b(?:speed|throughput|performance|rate|tok\w*|t/s|tps|it)\b")
_HALF = re.compile(r"\b(?:cuts?|reduc\w+|drops?)\b[^.;]{0,24}\b(?:in|by|to) half\b")
_TIMES = re.compile(rf"\b({'|'.join(_COUNTED)}|\d{{1,3}}(?:\.\d)?)(?: ?x| times)?(?: as)? (?:faster|fast as|quicker)\b")
_PERCENT = re.compile(r"\b(\d{1,3}) ?% (?:faster|quicker|more (?:speed|throughput|tok\w*))")
_DURATION = re.compile(
    r"(?<![\w./-])(\d{1,5}(?:\.\d{1,3})?)(?: ?- ?\d{1,5})? ?(ms|s|sec|seconds?|min|minutes?|m(?=[ ,;)]|$))"
    r"(?![\w/]| ?(?:per|/) ?tok)"
)
_SECONDS = {"ms": 1e-3, "s": 1.0, "m": 60.0}
_AGAINST = re.compile(r"[,;]|\bvs\b|\binstead of\b|\bto\b|\bthan\b|>|\bbut\b|\bagainst\b|\bwhile\b|\band\b|\bwas\b")
_NO_RUN = re.compile(r"\b(?:pauses?|sleep|interval|timeout|ttl|keep|idle|every|context of|audio|video|uptime)\b")


class Timed(NamedTuple):
    """Two times of one thing in a line, the longer first, and the words beside each."""

    slow_s: float
    fast_s: float
    labels: tuple[str, str]


def gain(text: str) -> float | None:
    """How many times faster something makes it, where a line says so."""
    if match := _VERB.search(text):
        return _VERBS[match[1]]
    if _HALF.search(text):
        return 2.0
    if match := _TIMES.search(text):
        factor = _COUNTED.get(match[1]) or float(match[1])
        return factor if 1 < factor < 1e3 else None  # noqa: PLR2004 (more is no factor of a speed)
    if match := _PERCENT.search(text):
        return 1 + float(match[1]) / 100
    return None


def timed(text: str) -> Iterator[Timed]:
    """`curl takes 3 s, the app 40 s`: two times that the line sets against one another."""
    found = [(_seconds(m), m) for m in _DURATION.finditer(text)]
    if len(found) != 2 or _NO_RUN.search(text):  # noqa: PLR2004 (a pair)
        return
    (first_s, first), (second_s, second) = found
    if not _AGAINST.search(text[first.end() : second.start()]) or min(first_s, second_s) <= 0:
        return
    middle = text[first.end() : second.start()]
    labels = (f"{text[: first.start()]}", f"{middle} {text[second.end() :]}")
    pair = ((first_s, labels[0]), (second_s, labels[1]))
    (fast_s, fast), (slow_s, slow) = sorted(pair)
    if slow_s >= LEAST_RATIO * fast_s:
        yield Timed(slow_s, fast_s, (slow, fast))


def _seconds(match: re.Match[str]) -> float:
    unit = match[2]
    return float(match[1]) * _SECONDS["ms" if unit == "ms" else unit[0]]
