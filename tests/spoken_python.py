"""Words that only a program reads: a repr, None, a number with an exponent."""

import re

PYTHON = re.compile(r"\b[A-Z]\w*\(\w+=|\bNone\b|(?<![\w-])(?:inf|nan)(?![\w-])|\d(?:\.\d+)?e-\d\d|(?<![\d.,])0 µs")


def python_in(text: str) -> list[str]:
    """Every place in a text that speaks Python, with what is around it."""
    return [text[max(0, found.start() - 60) : found.end() + 60] for found in PYTHON.finditer(text)]
