"""Two speeds and what differs between them: the experiments that a report tells of."""

import re
from collections.abc import Iterator, Sequence
from itertools import chain, islice

import msgspec

from unslow.facts import values
from unslow.facts.account import Comparison, Metric, Topic
from unslow.facts.values import NOT_LOOKED, Fact
from unslow.think.words.labelled import Pair, label_topics, pairs
from unslow.think.words.lines import Line
from unslow.think.words.rates import Change, changes, metric_of, slowdown, speeds
from unslow.think.words.topics import topics_of
from unslow.think.words.versions import other_version, versions_in
from unslow.think.words.worded import worded_trial

MOST_COMPARISONS = 50
STAND_IN = 1.5
"""How many times faster a side is that is only said to be; a word such as "much" is used of no less."""
_LONGEST = 160
_SLOW = re.compile(
    r"\bslow|\bdrop|\bdeclin|\bhalv|\bdegrad|\bregress|\bworse\b|\bcrippl|\bdelay|\bwaits?\b|\bhang|\bstuck"
    r"|\bless than|\blower\b|\bspeed"
)


def comparisons_told(lines: Sequence[Line]) -> tuple[Comparison, ...]:
    """Every pair of speeds; one that its own line does not explain is explained by the complaint."""
    complaint, about = complaint_topics(lines), slow_metric(lines).value_or("unknown")
    within = (comparison for line in lines for comparison in _of_line(line, complaint, about))
    across = (_of_pair(pair, complaint) for pair in pairs(lines, about))
    return tuple(islice(chain(within, across), MOST_COMPARISONS))


def complaint_topics(lines: Sequence[Line]) -> tuple[Topic, ...]:
    """What the first line that complains of slowness and names anything names."""
    named = (topics_of(line.text) for line in lines if _SLOW.search(line.text) or slowdown(line.text))
    return next((topics for topics in named if topics), ())


def _of_line(line: Line, complaint: tuple[Topic, ...], about: Metric) -> Iterator[Comparison]:
    told = list(changes(line.text))
    for pair in told:
        known = pair if pair.metric != "unknown" else pair._replace(metric=about)
        yield _comparison(line, known, _differs(line, pair) or complaint, relative=False)
    factor = slowdown(line.text)
    if factor and not told:
        change = Change(1.0, factor, metric_of("", line.text))
        yield _comparison(line, change, topics_of(line.text), relative=True)
    elif not told and (differs := worded_trial(line.text)):
        change = Change(1.0, STAND_IN, metric_of("", line.text))
        yield msgspec.structs.replace(_comparison(line, change, differs, relative=True), worded=True)


def _of_pair(pair: Pair, complaint: tuple[Topic, ...]) -> Comparison:
    change = Change(pair.slow.value, pair.fast.value, pair.slow.metric)
    return _comparison(pair.slow.line, change, pair.differs or complaint, relative=False)


def _differs(line: Line, pair: Change) -> tuple[Topic, ...]:
    """In a list with labels only what the two labels name; else what the line names."""
    if any(pair.labels):
        return label_topics(*pair.labels)
    return topics_of(line.text)


def _comparison(line: Line, pair: Change, differs: tuple[Topic, ...], *, relative: bool) -> Comparison:
    return Comparison(
        metric=pair.metric,
        slow=pair.slow,
        fast=pair.fast,
        relative=relative,
        differs=differs,
        text=line.original[:_LONGEST],
        source=line.where,
    )


def versions_compared(lines: Sequence[Line]) -> tuple[Fact[str], Fact[str]]:
    """The version of the faster and of the slower of two speeds that are labelled with versions."""
    within = ((*change.labels, line) for line in lines for change in changes(line.text) if any(change.labels))
    across = ((pair.slow.label, pair.fast.label, pair.slow.line) for pair in pairs(lines, "unknown"))
    for slow, fast, line in chain(within, across):
        if other_version(slow, fast):
            return values.told(versions_in(fast)[0], line.where), values.told(versions_in(slow)[0], line.where)
    return NOT_LOOKED, NOT_LOOKED


def slow_metric(lines: Sequence[Line]) -> Fact[Metric]:
    """Which phase the first complaint is about."""
    for line in lines:
        if _SLOW.search(line.text):
            metric = metric_of("", line.text)
            if metric != "unknown":
                return values.told(metric, line.where)
    return NOT_LOOKED


def slowdown_told(lines: Sequence[Line]) -> Fact[float]:
    """How many times slower, in their words."""
    for line in lines:
        if factor := slowdown(line.text):
            return values.told(factor, line.where)
    return NOT_LOOKED


def speed_told(lines: Sequence[Line], metric: Metric) -> Fact[float]:
    """The speed that is complained of: the slower of a pair, else the first that stands there."""
    complained_of = slow_metric(lines).value_or("decode")
    for line in lines:
        for pair in changes(line.text):
            if metric == (complained_of if pair.metric == "unknown" else pair.metric):
                return values.told(pair.slow, line.where)
    for line in lines:
        for speed in speeds(line.text):
            if speed.metric == metric or (metric == "decode" and speed.metric == "unknown"):
                return values.told(speed.value, line.where)
    return NOT_LOOKED
