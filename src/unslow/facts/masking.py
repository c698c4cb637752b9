"""Takes out of a snapshot what could name a person: for every file that leaves the machine."""

import re
from typing import Any

import msgspec

from unslow.facts.snapshot import Snapshot

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
# A name that is a secret's, and a value that could be one: `timings_per_token: true` and `"eos_token": 2` are neither.
_NAMED_SECRET = re.compile(
    r"(?i)((?:api[-_]?keys?|(?<![a-z_])(?:hf[-_]|auth[-_]|access[-_])?token|password|secret)[\"']?\s*[=:]\s*[\"']?)"
    r"(?!true|false|null|[\d\[{<])[^\s\"',;&\]}]+"
)
_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(?i)((?:/home|/Users)/)[^/\s\"':]+"), r"\1user"),
    (re.compile(r"(?i)([a-z]:[\\/]+users[\\/]+)[^\\/\s\"':]+"), r"\1user"),
    (re.compile(r"\bGPU-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"), "GPU-masked"),
    (re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"), "masked-uuid"),
    (re.compile(r"\b(?:hf|sk|ghp|github_pat|glpat|xox[bap])[_-][A-Za-z0-9_-]{8,}"), "masked-token"),
    (re.compile(r"(?i)\bbearer\s+[A-Za-z0-9._~+/=-]+"), "Bearer masked"),
    (_NAMED_SECRET, r"\1masked"),
    (re.compile(r"[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+\.[A-Za-z0-9.-]+"), "masked@mail"),
    (re.compile(r"(?i)(://)[^/\s:@]+:[^/\s@]+@"), r"\1masked@"),
    (re.compile(r"(?i)((?:serial(?: number)?|board id|pdi)\s*:\s*)\S+"), r"\1masked"),
)


def masked_text(text: str) -> str:
    """The text without user names in paths, keys, tokens, serial numbers and UUIDs."""
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text


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
