"""Two speeds and what differs between them: the experiments that a report tells of, in figures or in words."""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain, islice

import msgspec

from unslow.facts import values
from unslow.facts.account import Comparison, Metric, Topic
from unslow.facts.values import NOT_LOOKED, Fact
from unslow.think.text.lines import Line, prose_lines, topics_of
from unslow.think.text.rates import Change, changes, metric_of, phases, slowdown, speeds
from unslow.think.text.sides import (
    Pair,
    count_in,
    label_has,
    label_topics,
    labelled_pairs,
    labels_at,
    settings_in_use,
    side_in_use,
    sides_are_told,
    slow_and_fast_side,
)
from unslow.think.text.software import other_version, versions_in

MOST_COMPARISONS = 50
MOST_WAYS = 100  # Sentences that are heard on which way is slow, and on which is in use: a person writes fewer
STAND_IN = 1.5  # How many times faster a side is that is only said to be; a word such as "much" is used of no less
LEAST_RATIO = 1.3  # Times scatter more than rates: closer ones are the same
BOTH_LINES = " ; "  # Between the two lines of a pair
_LONGEST = 160
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


@lru_cache(maxsize=4)  # a report is asked for its comparisons and, by phase, for its speeds
def comparisons_told(lines: tuple[Line, ...]) -> tuple[Comparison, ...]:
    """Every pair of speeds; one that its own line does not explain is explained by the complaint.

    That is what the first complaint of slowness names; else the first thing that is named alone and can be switched.
    """
    complaints = (topics_of(line.text) for line in lines if _complains(line) or slowdown(line.text))
    others = (topics_of(line.text) for line in lines if not _HEADING.match(line.text))
    switched = (topics for topics in others if len(topics) == 1 and set(topics) <= PROVABLE - {Topic.CLIENT})
    complaint = next(filter(None, chain(complaints, switched)), ())
    about = slow_metric(lines).value_or("unknown")
    within = (comparison for line in lines for comparison in _of_line(line, complaint, about))
    across = (_of_pair(pair, complaint) for pair in labelled_pairs(lines, about))
    found = list(islice(chain(within, across), MOST_COMPARISONS))
    if not found:
        return ()
    ways = list(islice((way for line in lines if any(way := slow_and_fast_side(line.text))), MOST_WAYS))
    settings = [sentence for _, sentence in islice(settings_in_use(lines), MOST_WAYS)]
    for number, told in enumerate(found):
        if told.differs:
            # Where its own words do not tell which side is which, those of another line that speaks of the same
            reworded = (msgspec.structs.replace(told, slow_is=way.slow, fast_is=way.fast) for way in ways)
            sided = next((other for other in chain((told,), reworded) if sides_are_told(other)), told)
            found[number] = msgspec.structs.replace(sided, now=side_in_use(settings, sided))
    return tuple(found)


def _complains(line: Line) -> bool:
    """Whether a line says that something is slow; what describes the machine does not."""
    return bool(_SLOW.search(line.text)) and not _HEADING.match(line.text)


def _of_line(line: Line, complaint: tuple[Topic, ...], about: Metric) -> Iterator[Comparison]:
    told = list(changes(line.text))
    for pair in told:
        # In a list with labels only what the two labels name; else what the line names
        differs = (label_topics(*pair.labels) if any(pair.labels) else topics_of(line.text)) or complaint
        if pair.rose and not differs:
            continue  # a gain that nothing explains is no loss
        known = pair if pair.metric != "unknown" else pair._replace(metric=about)
        yield _comparison(line, known, differs, relative=False)
    factor = slowdown(line.text)
    for times in () if told else told_times(line.text):
        metric = metric_of("", line.text)  # what takes so long is the load where the line says so, else the whole
        phased = times._replace(metric=metric) if metric in {"load", "first_token"} else times
        yield _comparison(line, phased, label_topics(*times.sides) or complaint, relative=False)
    if factor and not told:
        yield _comparison(line, Change(1.0, factor, metric_of("", line.text)), topics_of(line.text), relative=True)
    elif not told and (more := told_gain(line.text)):
        version = (Topic.VERSION,) if versions_in(line.text) else ()
        differs = tuple(dict.fromkeys((*topics_of(line.text), *version)))
        yield _comparison(line, Change(1.0, more, metric_of("", line.text)), differs, relative=True)
    elif not told and (differs := worded_trial(line.text)):
        change = Change(1.0, STAND_IN, metric_of("", line.text))
        yield msgspec.structs.replace(_comparison(line, change, differs, relative=True), worded=True)


def _of_pair(pair: Pair, complaint: tuple[Topic, ...]) -> Comparison:
    slow, fast, differs = pair
    change = Change(slow.value, fast.value, slow.metric, sides=(slow.label, fast.label))
    told = _comparison(slow.line, change, differs or complaint, relative=False)
    other = "" if slow.line == fast.line else f"{BOTH_LINES}{fast.line.original[:_LONGEST]}"
    return msgspec.structs.replace(told, text=f"{told.text}{other}")


def _comparison(line: Line, pair: Change, differs: tuple[Topic, ...], *, relative: bool) -> Comparison:
    if relative:
        ways: tuple[str, str] = slow_and_fast_side(line.text)
    elif any(pair.sides):
        ways = pair.sides
    else:  # the words beside each speed with its unit, else those of the list
        beside = labels_at(line, pair.slow, pair.fast)
        ways = beside if all(beside) else pair.labels
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


def versions_compared(lines: Sequence[Line]) -> tuple[Fact[str], Fact[str]]:
    """The version of the faster and of the slower of two speeds that are labelled with versions."""
    within = ((*change.labels, line) for line in lines for change in changes(line.text) if any(change.labels))
    across = ((pair.slow.label, pair.fast.label, pair.slow.line) for pair in labelled_pairs(lines, "unknown"))
    for slow, fast, line in chain(within, across):
        if other_version(slow, fast):
            return values.told_fact(versions_in(fast)[0], line.where), values.told_fact(
                versions_in(slow)[0], line.where
            )
    return NOT_LOOKED, NOT_LOOKED


def slow_metric(lines: Sequence[Line]) -> Fact[Metric]:
    """Which phase the first complaint is about."""
    for line in lines:
        if _complains(line):
            # The phase that is named nearest to the word for slow: `loading is very slow, generation fine`
            text = line.text
            slow = [match.start() for match in _SLOW.finditer(text)]
            nearest = min(
                phases(text), key=lambda phase: min(_distance(text, phase[1], at) for at in slow), default=None
            )
            if nearest:
                return values.told_fact(nearest[0], line.where)
    return NOT_LOOKED


def _distance(text: str, one: int, other: int) -> int:
    """How far two places of a line lie apart; what stands beyond a comma is another thing."""
    first, last = sorted((one, other))
    return last - first + (_LONGEST if re.search(r"[,;]|\. ", text[first:last]) else 0)


def speed_told(lines: tuple[Line, ...], metric: Metric) -> Fact[float]:
    """The speed that is complained of: that of the way in use, else the slower of a pair, else the first of all."""
    complained_of = slow_metric(lines).value_or("decode")
    # A speed that names no phase is of the one that is complained of
    names = (metric, "unknown") if metric == complained_of else (metric,)
    in_use = (told for told in comparisons_told(lines) if told.now == "fast" and not told.relative)
    if used := next((told for told in in_use if told.metric in names), None):
        return values.told_fact(used.fast, used.source)
    for line in lines:
        for pair in changes(line.text):
            if pair.metric in names:
                return values.told_fact(pair.fast if pair.rose else pair.slow, line.where)
    for labelled in labelled_pairs(lines, complained_of):
        if labelled.slow.metric == metric:
            return values.told_fact(labelled.slow.value, labelled.slow.line.where)
    for line in lines:
        for speed in speeds(line.text):
            if speed.metric == metric or (metric == "decode" and speed.metric == "unknown"):
                return values.told_fact(speed.value, line.where)
    return NOT_LOOKED


_FIGURE = re.compile(r"(?<![\w.])\d{1,6}(?:\.\d{1,3})?(?![\w.]*\d)")
_ROUNDED = 0.02  # Speeds that are this close in proportion are the same figure, rounded


def labels_in(told: Comparison) -> tuple[str, str]:
    """What the text says of the slow and of the fast side; empty where it says nothing of it.

    The surest first: both speeds with their words, a sentence about both, bare figures, and one side alone.
    """
    lines = tuple(prose_lines(told.text.split(BOTH_LINES), told.source))
    beside = [labels_at(line, told.slow, told.fast) for line in lines]
    slow, fast = (next((way[side] for way in beside if way[side]), "") for side in (0, 1))
    if slow and fast:
        return slow, fast
    of_both = ((other.slow_is, other.fast_is) for other in comparisons_told(lines))
    figures = (_before_figures(line.text, told) for line in lines)
    sentences = (slow_and_fast_side(line.text) for line in lines)
    return next((way for way in chain(of_both, figures, ((slow, fast),), sentences) if any(way)), ("", ""))


def _before_figures(text: str, told: Comparison) -> tuple[str, str]:
    """`32 threads: 2.1, 16 threads: 5.3`: the words before each bare figure, where both speak of what differs."""
    figures = [m for m in _FIGURE.finditer(text) if _is_near(m, told.slow) or _is_near(m, told.fast)]
    if len(figures) != 2:  # noqa: PLR2004 (a pair)
        return "", ""
    labels = (text[: figures[0].start()], text[figures[0].end() : figures[1].start()])
    if not all(any(label_has(label, t) is not None or count_in(label, t) for t in told.differs) for label in labels):
        return "", ""
    return labels if _is_near(figures[0], told.slow) else (labels[1], labels[0])


def _is_near(figure: re.Match[str], speed: float) -> bool:
    return abs(float(figure[0]) - speed) <= _ROUNDED * speed


_VERBS = {"doubles": 2.0, "doubled": 2.0, "triples": 3.0, "tripled": 3.0, "quadruples": 4.0, "quadrupled": 4.0}
_COUNTED = {"twice": 2.0, "two": 2.0, "three": 3.0, "four": 4.0, "five": 5.0, "six": 6.0, "ten": 10.0}
_VERB = re.compile(rf"\b({'|'.join(_VERBS)})\b[^.;]{{0,16}}\b(?:speed|throughput|performance|rate|tok\w*|t/s|tps|it)\b")
_HALF = re.compile(r"\b(?:cuts?|reduc\w+|drops?)\b[^.;]{0,24}\b(?:in|by|to) half\b")
_TIMES = re.compile(rf"\b({'|'.join(_COUNTED)}|\d{{1,3}}(?:\.\d)?)(?: ?x| times)?(?: as)? (?:faster|fast as|quicker)\b")
_PERCENT = re.compile(r"\b(\d{1,3}) ?% (?:faster|quicker|more (?:speed|throughput|tok\w*))")


def told_gain(text: str) -> float | None:
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


_DURATION = re.compile(
    r"(?<![\w./-])(\d{1,5}(?:\.\d{1,3})?)(?: ?- ?\d{1,5})? ?(ms|s|sec|seconds?|min|minutes?|m(?=[ ,;)]|$))"
    r"(?![\w/]| ?(?:per|/) ?tok)"
)
_SECONDS = {"ms": 1e-3, "s": 1.0, "m": 60.0}
_AGAINST = re.compile(r"[,;]|\bvs\b|\binstead of\b|\bto\b|\bthan\b|>|\bbut\b|\bagainst\b|\bwhile\b|\band\b|\bwas\b")
_NO_RUN = re.compile(r"\b(?:pauses?|sleep|interval|timeout|ttl|keep|idle|every|context of|audio|video|uptime)\b")


def told_times(text: str) -> Iterator[Change]:
    """`curl takes 3 s, the app 40 s`: two times that the line sets against one another, as rates of the whole."""
    units = ((match[2] if match[2] == "ms" else match[2][0], match) for match in _DURATION.finditer(text))
    found = [(float(match[1]) * _SECONDS[unit], match) for unit, match in units]
    if len(found) != 2 or _NO_RUN.search(text):  # noqa: PLR2004 (a pair)
        return
    (first_s, first), (second_s, second) = found
    if not _AGAINST.search(text[first.end() : second.start()]) or min(first_s, second_s) <= 0:
        return
    middle = text[first.end() : second.start()]
    pair = ((first_s, text[: first.start()]), (second_s, f"{middle} {text[second.end() :]}"))
    (fast_s, fast), (slow_s, slow) = sorted(pair)
    if slow_s >= LEAST_RATIO * fast_s:
        yield Change(1 / slow_s, 1 / fast_s, "total", sides=(slow, fast))


_MUCH = r"(?:(?:much|far|way|a lot|significantly|noticeably|considerably|clearly|even|drastically|massively|\d+ ?%) )?"
_TRIALS = (
    # one way against another
    re.compile(rf"\b{_MUCH}(?:slower|faster|quicker|worse|better)\b[^.;]{{0,30}}?\b(?:than|with|without|when|if|once)\b"),
    re.compile(r"\bslow compared (?:to|with)\b"),
    re.compile(r"\b(?:than|with|without|using|on)\b[^.;,]{0,40}\b(?:is|are|was|were|runs?|goes|gets)\b"
               rf"[^.;]{{0,12}}\b{_MUCH}(?:slower|faster|quicker)\b"),
    # what a thing does to the speed
    re.compile(r"\b(?:lowers?|reduces?|hurts?|halves|slows?(?: down)?|degrades?|kills|cripples|costs|tanks|drops)\b"
               r"[^.;]{0,16}\b(?:speed|performance|throughput|generation|inference|decod\w+|tok\w*|t/s|tps|it)\b"),
    # what is well again without it
    re.compile(r"\b(?:without|disabl\w+|remov\w+|turning off|switching off|off|unset\w*|no)\b[^.;]{0,40}"
               r"\b(?:fixes|fixed|solves|solved|restores?d?|helps|helped|is fast|is fine|normal speed|full speed)\b"),
    re.compile(r"\b(?:fast|fine|normal|full speed)\b[^.;]{0,12}\b(?:without|once|as soon as|only with|with)\b"),
    re.compile(r"\b(?:fixed|solved|cured|restored|gone)\b[^.;]{0,24}\b(?:by|with|after|when|once)\b"),
)  # fmt: skip
_OF_SAMPLING = re.compile(
    r"\b(?:slow(?:er|s|ed|ly|ness|down)?|collaps\w*|lower|drop\w*|poor|bad|degrad\w*|loss|below|less than"
    r"|low|unusabl\w*|crawl\w*"
    r"|tanks?|expensive|dominat\w*|bottleneck|takes|halv\w*|hang\w*|stall\w*|fast)\b"
)
_TIED = re.compile(
    r"\b(?:with|when|whenever|using|uses?|if|once|enabl\w+|turn\w*|add\w*|set\w*|request\w*|makes?|caus\w+|slows?"
    r"|due to"
    r"|because|dominat\w*|expensive|takes?|costs?|is|are|for)\b"
)
"""What ties a thing to what it does: two words in one line are no trial yet."""
_SAMPLING = {Topic.GRAMMAR, Topic.SAMPLER, Topic.LOGPROBS}
"""What nobody blames who has not seen requests without it run faster: they are the rule."""
_NO_TRIAL = re.compile(
    r"\b(?:maybe|might|perhaps|probably|suspect\w*|think|guess\w*|assum\w*|possibly|wonder\w*|not sure|seems? like)\b"
    r"|\?\s*$|\b(?:could|should|would|may) be\b"
    r"|\bthan (?:it |i |they |we |one )?"
    r"(?:expect\w*|should|before|usual|normal|advertised|claimed|hoped|possible|others?)\b"
)
_SENTENCE = re.compile(r"(?<=[.!?;])\s+")
_CIRCUMSTANCES = {Topic.DEPTH, Topic.CONTEXT, Topic.EXPERTS}
PROVABLE = {
    Topic.CLIENT, Topic.GRAPHS, Topic.GRAMMAR, Topic.SAMPLER, Topic.LOGPROBS, Topic.THREADS, Topic.NUMA,
    Topic.CPU_QUOTA, Topic.BATCH, Topic.CACHE, Topic.GPU_COUNT, Topic.SPLIT_MODE, Topic.TENSOR_PARALLEL, Topic.DRAFT,
    Topic.CLOCKS, Topic.LINK, Topic.THINKING, Topic.DISK, Topic.LOAD_MODE, Topic.CONCURRENCY,
}  # fmt: skip
"""What may be proven by a direction alone: other quants, say, differ in speed by nature."""


def worded_trial(text: str) -> tuple[Topic, ...]:
    """What a sentence of a line tells a trial of, in words only.

    Trials that are told without figures: `4 threads are much faster than 8`, `the draft model lowers the speed`.
    Which of two ways is the faster is as much an experiment as two speeds are; only how much stays open.
    """
    for sentence in _SENTENCE.split(text):
        topics = tuple(topic for topic in topics_of(sentence) if topic not in _CIRCUMSTANCES)
        if not topics or not set(topics) <= PROVABLE or _NO_TRIAL.search(sentence) or versions_in(sentence):
            continue  # it guesses, hopes, or compares with no other way
        patterns = (*_TRIALS, _OF_SAMPLING) if set(topics) <= _SAMPLING and _TIED.search(sentence) else _TRIALS
        if any(pattern.search(sentence) for pattern in patterns):
            return topics
    return ()
