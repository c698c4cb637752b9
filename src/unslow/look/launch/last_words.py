"""The line of a server's log that tells best why it ended."""

import re

LONGEST = 300
_LLAMA_ERROR = re.compile(r"(?m)^\S{1,20} E (.+)$")
_TELLING = ("error", "exception", "failed", "fatal")
_NOISE = ("resource_tracker", "warnings.warn")


def parse_last_words(text: str) -> str:
    """llama.cpp's first error line, which names the reason; else the last line that speaks of an error, or the last."""
    if first := _LLAMA_ERROR.search(text):
        return first[1].strip()[:LONGEST]
    lines = [line.strip()[:LONGEST] for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if _holds(line, _TELLING) and not _holds(line, _NOISE)]
    return (errors or lines or ["its log is empty"])[-1]


def _holds(line: str, words: tuple[str, ...]) -> bool:
    return any(word in line.casefold() for word in words)
