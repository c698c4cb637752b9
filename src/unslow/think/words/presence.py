"""Whether a label has a thing, or how much of it: `-fa off` has no flash attention, `16 threads` has 16."""

import re

from unslow.catalog.report_words import presence_phrases
from unslow.facts.account import Side, Topic

_NOT_BEFORE = re.compile(
    r"(?:\b(?:without|no|not|never|disabl\w+|remov\w+|unset\w*|non|instead of|rather than|stop\w* using"
    r"|(?:turn|switch)\w* off)\b|(?<![\w-])--?no)[^,;:.]{0,16}$"
)
_NOT_AFTER = re.compile(
    r"^[\w-]{0,12}\W{0,3}(?:(?:is|was|are|were|turned|switched|set to)\s){0,3}(?:off|disabled|false|none|removed)\b"
)
_ZERO_AFTER = re.compile(r"^\s?[=:]?\s?0(?![\w.,])")
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


def has(label: str, topic: Topic) -> bool | None:
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


def count_in(label: str, topic: Topic) -> int:
    """How many of a thing a label names; 0 where it names no number."""
    found = (pattern.search(label) for pattern in _COUNTS.get(topic, ()))
    return next((int(match[1]) for match in found if match), 0)


def bare_count(label: str) -> int:
    """The number that is all a label says: the `8` of `4 threads are faster than 8`."""
    match = _NUMBER.match(label)
    return int(match[1]) if match else 0


def amount(label: str) -> int:
    """1 where a label speaks of more of something, -1 where of less, 0 where of neither or of both."""
    return bool(_MORE.search(label)) - bool(_LESS.search(label))


def side_with(slow: str, fast: str, *topics: Topic) -> Side | None:
    """Which of two labels has one of these things and the other has not; None where they do not tell."""
    return next((side for topic in topics if (side := _side_with(slow, fast, topic))), None)


def _side_with(slow: str, fast: str, topic: Topic) -> Side | None:
    ours, theirs = has(slow, topic), has(fast, topic)
    if ours is None:  # a label that does not speak of it is of the other way
        ours = None if theirs is None else not theirs
    return None if ours is None or ours == theirs else "slow" if ours else "fast"


def side_with_more(slow: str, fast: str, topic: Topic) -> Side | None:
    """Which of two labels has more of a thing that is counted; None where they do not tell."""
    ours, theirs = counts(slow, fast, topic)
    if ours and theirs:
        return None if ours == theirs else "slow" if ours > theirs else "fast"
    named = [has(label, topic) is not None for label in (slow, fast)]
    more = (amount(slow) if named[0] else 0) - (amount(fast) if named[1] else 0)
    return "slow" if more > 0 else "fast" if more < 0 else None


def counts(slow: str, fast: str, topic: Topic) -> tuple[int, int]:
    """How many of a thing each label has; a bare number counts where the other label says of what."""
    ours, theirs = count_in(slow, topic), count_in(fast, topic)
    return ours or (bare_count(slow) if theirs else 0), theirs or (bare_count(fast) if ours else 0)
