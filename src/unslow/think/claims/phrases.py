"""Patterns from phrases: what people write for one thing, a list that is easily made longer."""

import re


def any_of(*phrases: str) -> re.Pattern[str]:
    """Any of the phrases, as whole words; each may be an expression itself."""
    return re.compile(rf"\b(?:{'|'.join(phrases)})\b")
