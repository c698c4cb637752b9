"""The words that belong to each of two speeds of a sentence: `60 -> 30 t/s with a grammar`, `11 t/s vs 15 plain`."""

import re

from unslow.think.words.topics import topics_of

_STOP = re.compile(r"[.;]\s")
_HELD_AGAINST = re.compile(r"\b(?:versus|vs\.?|compared (?:to|with)|against)\b")
"""Words between two speeds behind which all that follows is said of the second."""
_BETWEEN = re.compile(
    r"\(?\b(?:was|were|previously|before(?: it was)?|used to (?:be|get|have|run at)|instead of|rather than"
    r"|(?:down|up) from|becomes?|versus|vs\.?|compared (?:to|with)|against)"
)
_SWITCHED = re.compile(r"^\W*(?:(?:when|with|after|once) )?(?:with(?:out)?(?: it)?|on|off|enabled|disabled)\b")


def beside(text: str, match: re.Match[str]) -> tuple[str, str]:
    """What is said of the first and of the second speed; the groups `a` and `b` are where they stand."""
    starts = [stop.end() for stop in _STOP.finditer(text, 0, match.start())]
    stop = _STOP.search(text, match.end())
    before = text[starts[-1] if starts else 0 : match.start()]
    after = text[match.end() : stop.start() if stop else None]
    between = text[match.end("a") : match.start("b")]
    word = _BETWEEN.search(between)
    if word is None:
        return _beside_arrow(before, after)
    first, second = f"{before} {between[: word.start()]}", between[word.end() :]
    if _HELD_AGAINST.search(word[0]):
        return first.strip(), f"{second} {after}".strip()
    closed = "(" in word[0] and ")" in after  # `7 tok/s (was 31) with a grammar`
    return f"{first} {after if closed else ''}".strip(), second.strip()


def _beside_arrow(before: str, after: str) -> tuple[str, str]:
    """What stands around `60 -> 30` is said of the second speed, unless each end has words for its own."""
    both = set(topics_of(before)) & set(topics_of(after))
    if both or (topics_of(before) and _SWITCHED.match(after)):
        return before.strip(), after.strip()
    return "", f"{before} {after}".strip()
