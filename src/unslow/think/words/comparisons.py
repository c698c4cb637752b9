"""Two speeds and what differs between them: the experiments that a report tells of."""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain, islice

import msgspec

from unslow.facts import values
from unslow.facts.account import Comparison, Metric, Topic
from unslow.facts.values import NOT_LOOKED, Fact
from unslow.think.words import sides
from unslow.think.words.gains import Timed, gain, timed
from unslow.think.words.in_use import settings_in_use, side_in_use, sides_are_told
from unslow.think.words.labelled import Pair, label_topics, labels_at, pairs
from unslow.think.words.lines import Line
from unslow.think.words.rates import Change, changes, metric_of, phases, slowdown, speeds
from unslow.think.words.topics import topics_of
from unslow.think.words.versions import other_version, versions_in
from unslow.think.words.worded import PROVABLE, worded_trial

MOST_COMPARISONS = 50
MOST_WAYS = 100
"""Sentences that are heard on which way is slow, and on which is in use: a person writes fewer."""
STAND_IN = 1.5
"""How many times faster a side is that is only said to be; a word such as "much" is used of no less."""
_LONGEST = 160
BOTH_LINES = " ; "
"""Between the two lines of a pair."""
_SLOW = re.compile(
    r"\bslow|\b\d{1,3} ?m(?:in)? ?\d{1,2} ?s\b|\b\d{1,3}(?:\.\d)? ?(?:h|hours?)\b|\bpauses?\b|\bwaiting\b|\bdrop"
    r"|\bdeclin|\bhalv|\bdegrad|\bregress|\bworse\b|\bcrippl|\bdelay|\bwaits?\b|\bhang|\bstuck"
    r"|\bless than|\blower\b|\bspeed|\bcollaps|\bpoor\b|\bbad(?:ly)?\b|\bforever\b|\bminutes\b"
    r"|\blong time|\bloss\b|\blos(?:t|es|ing)\b"
    r"|\bdecreas|\breduc|\bunusabl|\bcrawl|\bbelow\b|\blag(?:s|gy|ging)?\b|\bsluggish|\bunderperform"
    r"|\bbottleneck|\bno faster|\bnot faster"
    r"|\bfalls?\b|\btakes? (?:too |very |so |extremely )?(?:long|\d)|\btook \d|\bnever (?:ends|finishes)"
    r"|\btime ?outs?\b|\bdominat"
)
_HEADING = re.compile(r"^(?:hardware|runtime|model|gpus?|cpu|system|machine|specs?|os|version)\b[^:]{0,20}:")


def comparisons_told(lines: Sequence[Line]) -> tuple[Comparison, ...]:
    """Every pair of speeds; one that its own line does not explain is explained by the complaint."""
    return _comparisons(tuple(lines))


@lru_cache(maxsize=4)  # a report is asked for its comparisons and, by phase, for its speeds
def _comparisons(lines: tuple[Line, ...]) -> tuple[Comparison, ...]:
    complaint, about = complaint_topics(lines), slow_metric(lines).value_or("unknown")
    within = (comparison for line in lines for comparison in _of_line(line, complaint, about))
    across = (_of_pair(pair, complaint) for pair in pairs(lines, about))
    found = list(islice(chain(within, across), MOST_COMPARISONS))
    ways = list(islice((told for line in lines if any(told := sides.told(line.text))), MOST_WAYS)) if found else []
    settings = [sentence for _, sentence in islice(settings_in_use(lines), MOST_WAYS)] if found else []
    return tuple(_with_use(_with_sides(comparison, ways), settings) for comparison in found)


def _with_sides(told: Comparison, ways: Sequence[sides.Sides]) -> Comparison:
    """Where its own words do not tell which side is which, those of another line that speaks of the same."""
    if sides_are_told(told) or not told.differs:
        return told
    others = (msgspec.structs.replace(told, slow_is=way.slow, fast_is=way.fast) for way in ways)
    return next((other for other in others if sides_are_told(other)), told)


def _with_use(told: Comparison, settings: Sequence[str]) -> Comparison:
    return msgspec.structs.replace(told, now=side_in_use(settings, told)) if told.differs else told


def complaint_topics(lines: Sequence[Line]) -> tuple[Topic, ...]:
    """What the first complaint of slowness names; else the first thing that is named alone and can be switched."""
    complaints = (topics_of(line.text) for line in lines if _complains(line) or slowdown(line.text))
    if named := next((topics for topics in complaints if topics), ()):
        return named
    others = (set(topics_of(line.text)) for line in lines if not _HEADING.match(line.text))
    return next((tuple(topics) for topics in others if len(topics) == 1 and topics <= PROVABLE - {Topic.CLIENT}), ())


def _complains(line: Line) -> bool:
    """Whether a line says that something is slow; what describes the machine does not."""
    return bool(_SLOW.search(line.text)) and not _HEADING.match(line.text)


def _of_line(line: Line, complaint: tuple[Topic, ...], about: Metric) -> Iterator[Comparison]:
    told = list(changes(line.text))
    for pair in told:
        differs = _differs(line, pair) or complaint
        if pair.rose and not differs:
            continue  # a gain that nothing explains is no loss
        known = pair if pair.metric != "unknown" else pair._replace(metric=about)
        yield _comparison(line, known, differs, relative=False)
    factor = slowdown(line.text)
    for times in () if told else timed(line.text):
        yield _comparison(line, _of_times(line, times), label_topics(*times.labels) or complaint, relative=False)
    if factor and not told:
        change = Change(1.0, factor, metric_of("", line.text))
        yield _comparison(line, change, topics_of(line.text), relative=True)
    elif not told and (more := gain(line.text)):
        version = (Topic.VERSION,) if versions_in(line.text) else ()
        differs = tuple(dict.fromkeys((*topics_of(line.text), *version)))
        yield _comparison(line, Change(1.0, more, metric_of("", line.text)), differs, relative=True)
    elif not told and (differs := worded_trial(line.text)):
        change = Change(1.0, STAND_IN, metric_of("", line.text))
        yield msgspec.structs.replace(_comparison(line, change, differs, relative=True), worded=True)


def _of_times(line: Line, pair: Timed) -> Change:
    """Times as rates; what takes so long is the load where the line says so, else the whole."""
    metric = metric_of("", line.text)
    phase: Metric = metric if metric in {"load", "first_token"} else "total"
    return Change(1 / pair.slow_s, 1 / pair.fast_s, phase, sides=pair.labels)


def _of_pair(pair: Pair, complaint: tuple[Topic, ...]) -> Comparison:
    change = Change(pair.slow.value, pair.fast.value, pair.slow.metric, sides=(pair.slow.label, pair.fast.label))
    told = _comparison(pair.slow.line, change, pair.differs or complaint, relative=False)
    if pair.slow.line == pair.fast.line:
        return told
    return msgspec.structs.replace(told, text=f"{told.text}{BOTH_LINES}{pair.fast.line.original[:_LONGEST]}")


def _differs(line: Line, pair: Change) -> tuple[Topic, ...]:
    """In a list with labels only what the two labels name; else what the line names."""
    if any(pair.labels):
        return label_topics(*pair.labels)
    return topics_of(line.text)


def _comparison(line: Line, pair: Change, differs: tuple[Topic, ...], *, relative: bool) -> Comparison:
    ways = sides.told(line.text) if relative else pair.sides if any(pair.sides) else _labels(line, pair)
    return Comparison(
        metric=pair.metric,
        slow=pair.slow,
        fast=pair.fast,
        relative=relative,
        differs=differs,
        slow_is=ways[0][:_LONGEST],
        fast_is=ways[1][:_LONGEST],
        text=line.original[:_LONGEST],
        source=line.where,
    )


def _labels(line: Line, pair: Change) -> tuple[str, str]:
    """The words beside each speed with its unit, else those of the list."""
    slow, fast = labels_at(line, pair.slow, pair.fast)
    return (slow, fast) if slow and fast else pair.labels


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
        if _complains(line):
            metric = _blamed(line.text)
            if metric != "unknown":
                return values.told(metric, line.where)
    return NOT_LOOKED


def _blamed(text: str) -> Metric:
    """The phase that is named nearest to the word for slow: `loading is very slow, generation fine`."""
    slow = [match.start() for match in _SLOW.finditer(text)]
    nearest = min(phases(text), key=lambda phase: min(_apart(text, phase[1], at) for at in slow), default=None)
    return nearest[0] if nearest else "unknown"


def _apart(text: str, one: int, other: int) -> int:
    """How far two places of a line lie apart; what stands beyond a comma is another thing."""
    first, last = sorted((one, other))
    return last - first + (_LONGEST if re.search(r"[,;]|\. ", text[first:last]) else 0)


def slowdown_told(lines: Sequence[Line]) -> Fact[float]:
    """How many times slower, in their words."""
    for line in lines:
        if factor := slowdown(line.text):
            return values.told(factor, line.where)
    return NOT_LOOKED


def speed_told(lines: Sequence[Line], metric: Metric) -> Fact[float]:
    """The speed that is complained of: that of the way in use, else the slower of a pair, else the first of all."""
    complained_of = slow_metric(lines).value_or("decode")
    in_use = (told for told in comparisons_told(lines) if told.now == "fast" and not told.relative)
    if used := next((told for told in in_use if _is_of(told.metric, metric, complained_of)), None):
        return values.told(used.fast, used.source)
    for line in lines:
        for pair in changes(line.text):
            if _is_of(pair.metric, metric, complained_of):
                return values.told(pair.fast if pair.rose else pair.slow, line.where)
    for labelled in pairs(lines, complained_of):
        if labelled.slow.metric == metric:
            return values.told(labelled.slow.value, labelled.slow.line.where)
    for line in lines:
        for speed in speeds(line.text):
            if speed.metric == metric or (metric == "decode" and speed.metric == "unknown"):
                return values.told(speed.value, line.where)
    return NOT_LOOKED


def _is_of(named: Metric, metric: Metric, complained_of: Metric) -> bool:
    """Whether a speed is of a phase; one that names none is of the phase that is complained of."""
    return metric == (complained_of if named == "unknown" else named)
