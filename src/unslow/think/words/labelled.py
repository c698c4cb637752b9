"""Speeds with labels, in one line or in several: `-sm layer 23 tok/s, -sm row 7 tok/s`, `3090 alone: 81 t/s`.

Whoever writes down two speeds of one kind tells of an experiment; what the labels name is what differs.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from unslow.facts.account import Metric, Topic
from unslow.think.words.lines import Line
from unslow.think.words.rates import direct_changes, metric_of, speeds
from unslow.think.words.topics import topics_of
from unslow.think.words.versions import other_version

LEAST_RATIO = 1.15
"""Speeds that differ by less are the same speed, measured twice."""
_MOST = 40
_ROUNDED = 0.02
"""Speeds that are this close in proportion are the same figure, rounded."""
_END = re.compile(r"[,;]|\.\s|\bvs\b|\bbut\b|\bwhile\b|\bwithout\b|\band\b(?= \w+ \d)")
_UNCLOSED = re.compile(r"\([^()]{0,80}$")
_CARDS = re.compile(
    r"\b(\d{1,2}) ?(?:x ?(?=(?:rtx|gtx|rx|tesla|nvidia|amd|[hablpvtm]\d{2,3}|\d{4}|mi\d{2,3}|gpus?|cards?)\b)"
    r"|(?=(?:gpus?|cards?)\b))"
)
_SPLIT = re.compile(r"\b(layer|row|none|tensor|graph)s?\b")
_SHORT = re.compile(
    r"^\W*(?:again |back (?:to|on) |with |on |under |in |version |release |v|koboldcpp |lm studio )?"
    r"(\d{1,2}\.\d{1,3})(?!\s?(?:s\b|sec|ms|gi?b|%|x\b|b\b|k\b))\W*$"
)
_SWITCH = re.compile(r"\b(?:with|without|on|off|enabled|disabled)\b")
_TIME_UNIT = re.compile(r"(?<![a-z])(?:ms|s|sec|seconds?)\s?(?:/|per)")


class Labelled(NamedTuple):
    """A speed, what stands beside it, and its line."""

    value: float
    metric: Metric
    label: str
    line: Line


class Pair(NamedTuple):
    """The slowest and the fastest of one kind."""

    slow: Labelled
    fast: Labelled

    @property
    def differs(self) -> tuple[Topic, ...]:
        """What either label names; where both name the same things, they name different values of them."""
        return label_topics(self.slow.label, self.fast.label)


def label_topics(one: str, other: str) -> tuple[Topic, ...]:
    """What two labels name, and the version where each names another."""
    version = (Topic.VERSION,) if other_version(one, other) or _other(_SHORT, one, other) else ()
    cards = (Topic.GPU_COUNT,) if _other_count(one, other) else ()
    split = (Topic.SPLIT_MODE,) if _other(_SPLIT, one, other) else ()
    return tuple(dict.fromkeys((*topics_of(one), *topics_of(other), *version, *cards, *split)))


def _other(pattern: re.Pattern[str], one: str, other: str) -> bool:
    """Whether each of two labels has one word of a kind, and not the same."""
    ours, theirs = set(pattern.findall(one)), set(pattern.findall(other))
    return len(ours) == len(theirs) == 1 and ours != theirs


def _other_count(one: str, other: str) -> bool:
    """Whether two labels name other numbers of cards: `8x H100`, `4x A100`, `2 GPUs`."""
    counts = [{int(m[1]) for m in _CARDS.finditer(label)} for label in (one, other)]
    return all(len(count) == 1 for count in counts) and counts[0] != counts[1]


def pairs(lines: Sequence[Line], about: Metric) -> Iterator[Pair]:
    """The extremes of the labelled speeds of each kind; lines that compare by themselves are left out."""
    found = [one for line in lines if not any(direct_changes(line.text)) for one in _labelled(line, about)][:_MOST]
    for _, group in groupby(sorted(found, key=lambda one: one.metric), key=lambda one: one.metric):
        alike = list(group)
        slow, fast = min(alike, key=lambda one: one.value), max(alike, key=lambda one: one.value)
        clear = fast.value >= LEAST_RATIO * slow.value
        pair = Pair(slow, fast)
        told = pair.differs or (_SWITCH.search(slow.label) and _SWITCH.search(fast.label))
        if slow.label != fast.label and (clear or (fast.value > slow.value and told)):
            yield pair


def labels_at(line: Line, slow: float, fast: float) -> tuple[str, str]:
    """What stands beside each of two speeds of a line; empty beside one that it does not give with its unit."""
    found = list(_labelled(line, "unknown"))
    return _label_at(found, slow), _label_at(found, fast)


def _label_at(found: Sequence[Labelled], speed: float) -> str:
    return next((one.label for one in found if abs(one.value - speed) <= _ROUNDED * speed), "")


def _labelled(line: Line, about: Metric) -> Iterator[Labelled]:
    """Each speed of a line with the words before it, back to the last, and after it, up to the next comma."""
    start = 0
    found = list(speeds(line.text))
    rates = [speed for speed in found if not _TIME_UNIT.search(line.text[speed.start : speed.end])]
    for speed in rates or found:  # beside a rate, a time is the same speed said once more
        inside = _UNCLOSED.search(line.text[start : speed.start]) and ")" in line.text[speed.end :]
        skipped = line.text.index(")", speed.end) - speed.end if inside else 0
        rest = line.text[speed.end :]
        end = _END.search(rest, skipped)
        stop = speed.end + (end.start() if end else len(rest))
        label = f"{line.text[start : speed.start]} {line.text[speed.end : stop]}".strip(" ,;:()")
        start = stop
        metric = speed.metric if speed.metric != "unknown" else metric_of(label, "")
        yield Labelled(speed.value, metric if metric != "unknown" else about, label, line)
