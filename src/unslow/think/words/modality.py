"""Whether a sentence claims that something is so: a question, a rumour or a guess does not."""

import re

_STOPS = re.compile(r"[.!?](?=\s|$)")
_ASKED = re.compile(
    r"^\W*(?:(?:so|and|or|but|also|hmm|well|then|now)\b,?\s*){0,3}"
    r"(?:is|are|was|were|does|do|did|can|could|should|would|will|has|have|might|may|any ?(?:one|body)|what if|or)\b"
)
_HEARSAY = re.compile(
    r"\b(?:i(?:'ve| have)? (?:also |just |only )?(?:heard|read|saw someone)|heard (?:that|it|they)|people (?:say"
    r"|claim|told)"
    r"|some(?:one|body)? (?:says?|said|told me|claims?)|they say|rumou?rs?|supposedly|allegedly|according to"
    r"|says? (?:the |its )?(?:docs?|readme|manual|wiki))\b"
)
_GUESSED = re.compile(
    r"\b(?:wonder(?:ing|s)?|not sure (?:if|whether)|no idea (?:if|whether)|what if|maybe|perhaps|possibly"
    r"|might (?:be|have)"
    r"|could (?:it )?be|would be|suspect\w*|i (?:guess|assume|wish|want|would like)|in case|afraid (?:that )?(?:it"
    r"|of))\b"
)
_OTHERS = re.compile(
    r"\b(?:read ?me|docs?|documentation|blog|article|reddit|friends?|colleagues?|co-?workers?|guy|(?:he|she"
    r"|they) (?:has|have|gets?)"
    r"|other (?:people|users)|youtube|vendor|website)\b"
)


def is_of_others(text: str) -> bool:
    """Whether a line tells of somebody else's machine, or of what a page promises."""
    return bool(_OTHERS.search(text))


def is_claimed(text: str, at: int) -> bool:
    """Whether what stands at a place of a text is claimed by its sentence; questions for a reason do claim it."""
    start = max((stop.end() for stop in _STOPS.finditer(text, 0, at)), default=0)
    stop = _STOPS.search(text, at)
    sentence = text[start : stop.end() if stop else len(text)]
    asks = sentence.rstrip().endswith("?") and bool(_ASKED.match(sentence))
    return not asks and not _HEARSAY.search(sentence) and not _GUESSED.search(sentence[: at - start])
