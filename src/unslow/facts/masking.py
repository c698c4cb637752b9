"""Takes out of a snapshot what could name a person: for every file that leaves the machine."""

import re
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from unslow.facts.machine import Facts
from unslow.facts.masking_rules import keyless_text, masked_text, masked_word
from unslow.facts.snapshot import Snapshot

__all__ = ["keyless", "keyless_command", "masked", "masked_command", "masked_environment", "masked_text"]

_SECRET_FLAG = re.compile(
    r"(?i)--?(?:hft|hordekey|(?:[a-z]+-){0,3}(?:api-?key|token|secret|[a-z]*passw(?:or)?d|passphrase)|(?:ssl-|api-)key-?file)"
)
_PROMPT_FLAGS = ("-p", "--prompt", "--system-prompt", "-sys")
_SEVERAL = "--api-key"  # vLLM takes all words up to the next flag as keys
_SECRET_NAMES = re.compile(r"(?i)(key|token|secret|passw|passphrase|auth|cookie|credential)")


def masked_command(command: list[str]) -> list[str]:
    """The command line without the values of flags that carry secrets or prompts."""
    return _shown_command(command, masked_word, _PROMPT_FLAGS)


def keyless_command(command: list[str]) -> list[str]:
    """The command line without keys and passwords, for the eyes of whoever owns the machine."""
    return _shown_command(command, keyless_text)


def _shown_command(command: list[str], shown: Callable[[str], str], more: tuple[str, ...] = ()) -> list[str]:
    result, flag_before, flag_of_all = [], "", ""
    for word in command:
        flag, equals, _ = word.partition("=")
        plain = flag.replace("_", "-")  # llama.cpp takes either spelling
        secret = bool(_SECRET_FLAG.fullmatch(plain)) or plain in more
        flag_of_all = "" if word.startswith("-") else flag_of_all
        hide = bool(flag_before or flag_of_all)
        result.append("masked" if hide else f"{flag}=masked" if equals and secret else shown(word))
        flag_before = plain if secret and not equals else ""
        flag_of_all = plain if flag_before == _SEVERAL else flag_of_all
    return result


def masked_environment(environment: dict[str, str]) -> dict[str, str]:
    """The environment with the values of secret-looking names hidden."""
    return _shown_environment(environment, masked_word)


def _shown_environment(environment: dict[str, str], shown: Callable[[str], str]) -> dict[str, str]:
    return {k: "masked" if _SECRET_NAMES.search(k) else shown(v) for k, v in environment.items()}


def masked(snapshot: Snapshot) -> Snapshot:
    """The snapshot, fit to be sent to a stranger."""
    return msgspec.convert(_cleaned(msgspec.to_builtins(snapshot), masked_text, _PROMPT_FLAGS), Snapshot)


F = TypeVar("F", bound=Facts)


def keyless(facts: F) -> F:
    """The facts without keys and passwords, for the eyes of whoever owns the machine; the same where there are none."""
    raw = msgspec.to_builtins(facts)
    clean = _cleaned(raw, keyless_text)
    return msgspec.convert(clean, type(facts)) if clean != raw else facts


def _cleaned(value: Any, shown: Callable[[str], str], more: tuple[str, ...] = (), name: str = "") -> Any:
    word_shown = masked_word if shown is masked_text else shown
    match value:
        case str():
            return shown(value)
        case list() | tuple():
            strings = all(isinstance(v, str) for v in value)
            if name == "command" and strings:
                return _shown_command(list(value), word_shown, more)
            return type(value)(_cleaned(v, shown, more, name) for v in value)
        case dict() if name == "environment" and "is" not in value:
            return _shown_environment(value, word_shown)
        case dict():
            return {k: _cleaned(v, shown, more, name if k == "value" else k) for k, v in value.items()}
        case _:
            return value
