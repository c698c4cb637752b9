"""Where a pasted command ends: people go on in words behind it, and what they asked the model is theirs."""

import re
from collections.abc import Sequence

_PROMPT_FLAGS = ("-p", "--prompt", "-sys", "--system-prompt")
_COUNTS_PROMPTS = re.compile(r"llama-bench|\bbench\b")
"""Its `-p` is a number of tokens."""
_WORDS = frozenset({
    "a", "an", "and", "at", "because", "but", "for", "from", "get", "gets", "getting", "gives", "i", "in", "is", "it",
    "my", "of", "or", "so", "the", "then", "this", "to", "using", "when", "where", "which", "while", "with",
})  # fmt: skip
_MARKS = (".", ",", ";", ":", "!", "?")
_VALUES = frozenset({"on", "off", "auto", "true", "false", "none"})
_PLAIN = re.compile(r"[a-z]+[.,!?]?")


def runnable(command: Sequence[str]) -> list[str]:
    """The command up to the first word that can't belong to it, without the text that the model was asked."""
    words = _without_prompts(command[: _end(command)])
    return [*words[:-1], words[-1].rstrip("".join(_MARKS))] if len(words) > 1 and len(words) < len(command) else words


def _end(command: Sequence[str]) -> int:
    flagged = False
    for at, word in enumerate(command):
        after_flag = at > 0 and command[at - 1].startswith("-")
        if flagged and not word.startswith("-"):
            if _is_prose(word, after_flag=after_flag):
                return at
            if len(word) > 1 and word.endswith(_MARKS):
                return at + 1
        flagged = flagged or word.startswith("-")
    return len(command)


def _is_prose(word: str, *, after_flag: bool) -> bool:
    """Whether a bare word is one of a sentence: a bracket, a small word, or a plain one that follows a value."""
    if word.startswith(("(", "//")) or word.lower().rstrip(".,") in _WORDS:
        return True
    return not after_flag and (bool(_PLAIN.fullmatch(word)) or word in _VALUES)


def _without_prompts(command: Sequence[str]) -> list[str]:
    if not command or _COUNTS_PROMPTS.search(command[0]):
        return list(command)
    kept: list[str] = []
    skip = False
    for word in command:
        flag, equals, _ = word.partition("=")
        if not skip and flag not in _PROMPT_FLAGS:
            kept.append(word)
        skip = not skip and flag in _PROMPT_FLAGS and not equals
    return kept
