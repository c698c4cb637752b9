"""The two ways that a report compares: their labels, what each has, which is slow and which is in use.

Speeds with labels, in one line or in several: `-sm layer 23 tok/s, -sm row 7 tok/s`, `3090 alone: 81 t/s`. Whoever
writes down two speeds of one kind tells of an experiment; what the labels name is what differs.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from unslow.catalog.bug_reports import presence_phrases
from unslow.facts.account import Comparison, Metric, Side, Topic
from unslow.think.text.lines import Line, is_claimed, topics_of
from unslow.think.text.rates import direct_changes, metric_of, speeds
from unslow.think.text.software import other_version

LEAST_RATIO = 1.15  # Speeds that differ by less are the same speed, measured twice
_MOST = 40
_ROUNDED = 0.02  # Speeds that are this close in proportion are the same figure, rounded
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


class LabelledSpeed(NamedTuple):
    """A speed, what stands beside it, and its line."""

    value: float
    metric: Metric
    label: str
    line: Line


class Pair(NamedTuple):
    """The slowest and the fastest of one kind, and what either label names, or in different values."""

    slow: LabelledSpeed
    fast: LabelledSpeed
    differs: tuple[Topic, ...]


def labelled_pairs(lines: Sequence[Line], about: Metric) -> Iterator[Pair]:
    """The extremes of the labelled speeds of each kind; lines that compare by themselves are left out."""
    found = [one for line in lines if not any(direct_changes(line.text)) for one in _labelled_speeds(line, about)][
        :_MOST
    ]
    for _, group in groupby(sorted(found, key=lambda one: one.metric), key=lambda one: one.metric):
        alike = list(group)
        slow, fast = min(alike, key=lambda one: one.value), max(alike, key=lambda one: one.value)
        clear, differs = fast.value >= LEAST_RATIO * slow.value, label_topics(slow.label, fast.label)
        told = differs or (_SWITCH.search(slow.label) and _SWITCH.search(fast.label))
        if slow.label != fast.label and (clear or (fast.value > slow.value and told)):
            yield Pair(slow, fast, differs)


def labels_at(line: Line, slow: float, fast: float) -> tuple[str, str]:
    """What stands beside each of two speeds of a line; empty beside one that it does not give with its unit."""
    found = list(_labelled_speeds(line, "unknown"))
    near = ([one.label for one in found if abs(one.value - speed) <= _ROUNDED * speed] for speed in (slow, fast))
    slow_is, fast_is = (next(iter(labels), "") for labels in near)
    return slow_is, fast_is


def _labelled_speeds(line: Line, about: Metric) -> Iterator[LabelledSpeed]:
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
        yield LabelledSpeed(speed.value, metric if metric != "unknown" else about, label, line)


def label_topics(one: str, other: str) -> tuple[Topic, ...]:
    """What two labels name, and the version where each names another."""
    # `8x H100`, `4x A100`, `2 GPUs`
    counts = [{int(m[1]) for m in _CARDS.finditer(label)} for label in (one, other)]
    version = (Topic.VERSION,) if other_version(one, other) or _other(_SHORT, one, other) else ()
    cards = (Topic.GPU_COUNT,) if all(len(count) == 1 for count in counts) and counts[0] != counts[1] else ()
    split = (Topic.SPLIT_MODE,) if _other(_SPLIT, one, other) else ()
    return tuple(dict.fromkeys((*topics_of(one), *topics_of(other), *version, *cards, *split)))


def _other(pattern: re.Pattern[str], one: str, other: str) -> bool:
    """Whether each of two labels has one word of a kind, and not the same."""
    ours, theirs = set(pattern.findall(one)), set(pattern.findall(other))
    return len(ours) == len(theirs) == 1 and ours != theirs


_CLAUSE = re.compile(r"[,;:]\s|\.\s|\bbut\b|\bwhile\b|\bwhereas\b|\. ?$")
_THAN = re.compile(
    r"\b(?P<not>(?:no|not|never|hardly|barely|isn't|aren't) (?:\w+ )?)?"
    r"(?P<how>slower|faster|quicker|better|worse|longer|lower|higher|slow|fast)\b[^.;,]{0,16}?"
    r"\b(?:than|compared (?:to|with)|versus|vs\.?)\b"
)
_GAINS = frozenset({"faster", "quicker", "better", "higher", "fast"})
_NO_OTHER_WAY = re.compile(
    r"^\s*(?:it |i |they |we |one |what |the )?(?:expect\w*|should|before|usual\w*|normal|advertised|claimed|hoped"
    r"|used to|possible|others?|\w+ (?:should )?allows?|last)\b"
)
"""Behind "than", what names no second way of doing it."""
_CURED = re.compile(
    r"\b(?:fix\w*|solv\w+|restor\w+|cur(?:es|ed)|gone|disappear\w*|(?<!no )(?<!not )help(?:s|ed)"
    r"|full speed|normal speed)\b"
)
_FAST = re.compile(r"\b(?:fast(?:er)?|quick(?:er)?|fine|doubl\w+|tripl\w+|quadrupl\w+|improv\w+|better|boost\w*)\b")
_NOT_FAST = re.compile(
    r"\b(?:no|not|never|hardly|barely|isn't|aren't|doesn't|don't|instead of) (?:\w+ ){0,2}?"
    r"(?:fast(?:er)?|quick(?:er)?|fine|improv\w+|better|help\w*|speed\w*)\b"
)
_SLOW = re.compile(
    r"\b(?:slow\w*|lower(?:s|ed)?|worse|longer|halv\w+|drop\w*|collaps\w*|reduc\w+|degrad\w*|hurts?|kills|cripples|tanks"
    r"|costs|below|less than|loss|unusabl\w*|crawl\w*|poor|bad|hang\w*|stall\w*|expensive|dominat\w*|decreas\w+)\b"
    r"|\bcuts? [^.;]{0,20}\bhalf\b"
)


class Sides(NamedTuple):
    """The words for the slow way, and for the fast one; empty where nothing is said of it."""

    slow: str = ""
    fast: str = ""


def slow_and_fast_side(text: str) -> Sides:
    """Which way is slow and which is fast, as a line of prose says it without figures."""
    sentences = _SENTENCE.split(text)
    for sentence in sentences:
        match = _THAN.search(sentence)
        if match and not _NO_OTHER_WAY.match(sentence[match.end() :]):
            # `32 threads are slower than 2`; "no faster" is as good as slower
            one, other = sentence[: match.start()].strip(), sentence[match.end() :].strip()
            return Sides(other, one) if match["how"] in _GAINS and not match["not"] else Sides(one, other)
    # The first clause that finds something slow, and the first that finds something fast
    clauses = [clause.strip() for sentence in sentences for clause in _CLAUSE.split(sentence) if clause.strip()]
    judged = [(clause, _judge_clause(clause)) for clause in clauses]
    slow, fast = (next((clause for clause, side in judged if side == wanted), "") for wanted in ("slow", "fast"))
    return Sides(slow, fast)


def _judge_clause(clause: str) -> Side | None:
    if _NOT_FAST.search(clause):
        return "slow"
    if _CURED.search(clause):
        return "fast"
    slow, fast = _SLOW.search(clause), _FAST.search(clause)
    return None if bool(slow) == bool(fast) else "slow" if slow else "fast"


_SENTENCE = re.compile(r"(?<=[.!?;])\s+")
_IN_USE = re.compile(
    r"\b(?:i|we)(?:'m| am| are|'re)? (?:(?:now|currently|already|still|always|actually|just) )*"
    r"(?:us(?:e|ing)|run(?:ning)?|stay(?:ing)?|launch(?:ing)?|start(?:ing)?)\b"
    r"|\bcurrent(?:ly)?\b|\bat the moment\b|\bright now\b|\bnow (?:us\w+|on|with|at|run\w*)\b"
    r"|\bmy (?:current )?(?:settings?|config\w*|command)\b|\b(?:started|launched|runs|running) with\b"
    r"|\bcommand(?: ?line)?\s?:"
)
_COMMAND = re.compile(r"\b(?:llama-(?:server|cli)|vllm serve|koboldcpp|ollama (?:run|serve)|sglang)\b.*\s--?[a-z]")
_TODAY = re.compile(r"\b(?:now|currently|today|at the moment|i use|i am using|i'm using|in use)\b")


def side_in_use(settings: Sequence[str], told: Comparison) -> Side | None:
    """The side that the author uses, by its label or by sentences on how it runs; None where unclear."""
    slow, fast = (bool(_TODAY.search(label)) for label in (told.slow_is, told.fast_is))
    if slow != fast:
        return "slow" if slow else "fast"
    found = {side for sentence in settings if (side := _side_of(sentence, told))}
    return found.pop() if len(found) == 1 else None


def settings_in_use(lines: Sequence[Line]) -> Iterator[tuple[Line, str]]:
    """Sentences that tell how it runs, and no speed of it, each with its line."""
    for line in lines:
        for sentence in _SENTENCE.split(line.text):
            says = _IN_USE.search(sentence) or _COMMAND.search(sentence)
            if says and is_claimed(sentence, says.start()) and not any(speeds(sentence)):
                yield line, sentence


def _side_of(sentence: str, told: Comparison) -> Side | None:
    """The side that a sentence agrees with, in a thing in which the two differ."""
    for topic in told.differs:
        if number := count_in(sentence, topic):
            slow, fast = label_counts(told.slow_is, told.fast_is, topic)
            return None if (number == slow) == (number == fast) else "slow" if number == slow else "fast"
        if (there := label_has(sentence, topic)) is not None and (side := side_with(told.slow_is, told.fast_is, topic)):
            return side if there else "fast" if side == "slow" else "slow"
    return None


def sides_are_told(told: Comparison) -> bool:
    """Whether the labels tell which side has one of the things that differ."""
    slow, fast = told.slow_is, told.fast_is
    return any(side_with(slow, fast, topic) or any(label_counts(slow, fast, topic)) for topic in told.differs)


_COUNTED = {
    Topic.THREADS: (
        r"(?<![\w-])-t ?(\d{1,4})\b", r"threads?\s?[=:]?\s?(\d{1,4})\b", r"\b(\d{1,4}) (?:cpu )?(?:threads?|cores?)\b",
    ),
    Topic.BATCH: (r"batch(?:[-_ ]size)?\W{1,2}(\d{1,6})\b", r"(?<![\w-])-u?b ?(\d{1,6})\b", r"\bub ?(\d{2,6})\b"),
    Topic.CONTEXT: (r"(?:n_ctx|num_ctx|ctx-size|context(?: (?:size|length|of))?|(?<![\w-])-c)\W{1,2}(\d{3,7})\b",),
    Topic.GPU_COUNT: (r"\b(\d{1,2}) ?x ", r"\b(\d{1,2}) (?:\w{2,8} ){0,2}(?:gpus?|cards?|devices)\b"),
}  # fmt: skip
_COUNTS = {topic: tuple(re.compile(pattern) for pattern in patterns) for topic, patterns in _COUNTED.items()}
_NUMBER = re.compile(r"^\W*(?:[a-z]+ ){0,3}(\d{1,7})\W*$")
_MORE = re.compile(r"\b(?:more|all|higher|larger|bigger|rais\w+|increas\w+|too many|too large|too high)\b")
_LESS = re.compile(r"\b(?:fewer|less|lower|smaller|reduc\w+|decreas\w+|too few|too small|too low)\b")


def side_with(slow: str, fast: str, *topics: Topic) -> Side | None:
    """Which of two labels has one of these things and the other has not; None where they do not tell."""
    for topic in topics:
        ours, theirs = label_has(slow, topic), label_has(fast, topic)
        if ours is None:  # a label that does not speak of it is of the other way
            ours = None if theirs is None else not theirs
        if ours is not None and ours != theirs:
            return "slow" if ours else "fast"
    return None


def side_with_more(slow: str, fast: str, topic: Topic) -> Side | None:
    """Which of two labels has more of a thing that is counted; None where they do not tell."""
    ours, theirs = label_counts(slow, fast, topic)
    if not ours or not theirs:  # 1 where a label speaks of more of it, -1 where of less, 0 where of neither or of both
        spoken = ("" if label_has(label, topic) is None else label for label in (slow, fast))
        ours, theirs = (bool(_MORE.search(label)) - bool(_LESS.search(label)) for label in spoken)
    return None if ours == theirs else "slow" if ours > theirs else "fast"


def label_counts(slow: str, fast: str, topic: Topic) -> tuple[int, int]:
    """How many of a thing each label has; a bare number counts where the other label says of what.

    The `8` of `4 threads are faster than 8` is all that its label says.
    """
    ours, theirs = count_in(slow, topic), count_in(fast, topic)
    bare, others_bare = (int(match[1]) if (match := _NUMBER.match(label)) else 0 for label in (slow, fast))
    return ours or (bare if theirs else 0), theirs or (others_bare if ours else 0)


def count_in(label: str, topic: Topic) -> int:
    """How many of a thing a label names; 0 where it names no number."""
    found = (pattern.search(label) for pattern in _COUNTS.get(topic, ()))
    return next((int(match[1]) for match in found if match), 0)


_NOT_BEFORE = re.compile(
    r"(?:\b(?:without|no|not|never|disabl\w+|remov\w+|unset\w*|non|instead of|rather than|stop\w* using"
    r"|(?:turn|switch)\w* off)\b|(?<![\w-])--?no)[^,;:.]{0,16}$"
)
_NOT_AFTER = re.compile(
    r"^[\w-]{0,12}\W{0,3}(?:(?:is|was|are|were|turned|switched|set to)\s){0,3}(?:off|disabled|false|none|removed)\b"
)
_ZERO_AFTER = re.compile(r"^\s?[=:]?\s?0(?![\w.,])")


def label_has(label: str, topic: Topic) -> bool | None:
    """Whether a label says that a thing is there; None where it does not speak of it."""
    words = presence_phrases()[topic]
    if words.lacking and (match := words.lacking.search(label)):
        return _is_denied(label, match, topic)
    if match := words.there.search(label):
        return not _is_denied(label, match, topic)
    return None


def _is_denied(label: str, match: re.Match[str], topic: Topic) -> bool:
    before, after = label[: match.start()], label[match.end() :]
    zero = topic is not Topic.SAMPLER and _ZERO_AFTER.match(after)  # `top_k 0` is a sampler at work
    inside = re.search(r"^(?:-{0,2}no[-_ ]?|without\b)|\b(?:off|disabled|false)$", match[0])
    return bool(_NOT_BEFORE.search(before) or _NOT_AFTER.match(after) or zero or inside)
