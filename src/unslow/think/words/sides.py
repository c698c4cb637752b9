"""Which of two ways is the slow one, in the words of a report: `two GPUs slower than one`, `fast without a grammar`."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from unslow.facts.account import Side

_SENTENCE = re.compile(r"(?<=[.!?;])\s+")
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


def told(text: str) -> Sides:
    """Which way is slow and which is fast, as a line of prose says it without figures."""
    sentences = _SENTENCE.split(text)
    held = (_held_against(sentence) for sentence in sentences)
    clauses = [clause.strip() for sentence in sentences for clause in _CLAUSE.split(sentence) if clause.strip()]
    return next((sides for sides in held if sides), None) or _by_clause(clauses)


def _held_against(sentence: str) -> Sides | None:
    """`32 threads are slower than 2`; "no faster" is as good as slower."""
    match = _THAN.search(sentence)
    if match is None or _NO_OTHER_WAY.match(sentence[match.end() :]):
        return None
    gains = match["how"] in _GAINS and not match["not"]
    ways = (sentence[: match.start()].strip(), sentence[match.end() :].strip())
    return Sides(*reversed(ways)) if gains else Sides(*ways)


def _by_clause(clauses: Sequence[str]) -> Sides:
    """The first clause that finds something slow, and the first that finds something fast."""
    judged = [(clause, _judged(clause)) for clause in clauses]
    slow, fast = (next((clause for clause, side in judged if side == wanted), "") for wanted in ("slow", "fast"))
    return Sides(slow, fast)


def _judged(clause: str) -> Side | None:
    if _NOT_FAST.search(clause):
        return "slow"
    if _CURED.search(clause):
        return "fast"
    slow, fast = _SLOW.search(clause), _FAST.search(clause)
    return None if bool(slow) == bool(fast) else "slow" if slow else "fast"
