"""Takes out of a snapshot what could name a person: for every file that leaves the machine."""

import re
from typing import Any

import msgspec

from unslow.facts.masking_rules import masked_text
from unslow.facts.snapshot import Snapshot

__all__ = ["masked", "masked_command", "masked_environment", "masked_text"]

_SECRET_FLAGS = (
    "--api-key",
    "--hf-token",
    "-hft",
    "--ssl-key-file",
    "--api-key-file",
    "-p",
    "--prompt",
    "--system-prompt",
    "-sys",
)
_SECRET_NAMES = re.compile(r"(?i)(key|token|secret|passw|auth|cookie|credential)")


def masked_command(command: list[str]) -> list[str]:
    """The command line without the values of flags that carry secrets or prompts."""
    result, hide = [], False
    for word in command:
        flag, equals, _ = word.partition("=")
        secret = flag.replace("_", "-") in _SECRET_FLAGS  # llama.cpp takes either spelling
        result.append("masked" if hide else f"{flag}=masked" if equals and secret else masked_text(word))
        hide = not hide and secret and not equals
    return result


def masked_environment(environment: dict[str, str]) -> dict[str, str]:
    """The environment with the values of secret-looking names hidden."""
    return {k: "masked" if _SECRET_NAMES.search(k) else masked_text(v) for k, v in environment.items()}


def masked(snapshot: Snapshot) -> Snapshot:
    """The snapshot, fit to be sent to a stranger."""
    return msgspec.convert(_masked(msgspec.to_builtins(snapshot)), Snapshot)


def _masked(value: Any, name: str = "") -> Any:
    match value:
        case str():
            return masked_text(value)
        case list() | tuple():
            strings = all(isinstance(v, str) for v in value)
            return masked_command(list(value)) if name == "command" and strings else [_masked(v, name) for v in value]
        case dict() if name == "environment" and "is" not in value:
            return masked_environment(value)
        case dict():
            return {k: _masked(v, name if k == "value" else k) for k, v in value.items()}
        case _:
            return value
