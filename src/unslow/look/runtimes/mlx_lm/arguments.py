"""The command line of `mlx_lm.server`: what it was told."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from unslow.facts.runtime import Runtime
from unslow.facts.values import Fact, Known, estimated, failed, not_found, reported
from unslow.look.command_line import COMMAND, Setting

SWITCHES = ("--trust-remote-code", "--use-default-chat-template", "--pipeline")
_SIZE = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)\s*([KMGT]?)B?", re.IGNORECASE)
_SCALES = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_MOST_BYTES = 2**60
_MOST_DIGITS = 9


def arguments_of(command: Sequence[str]) -> Sequence[str]:
    """The words after the name of the server; empty where the command line is another program's.

    It is called `mlx_lm.server`, `mlx_lm server`, or `-m` with either after an interpreter.
    """
    for at, word in enumerate(command[:8]):
        name = word.rpartition("/")[2]
        if name in ("mlx_lm.server", "mlx_lm/server.py") or word.endswith("mlx_lm/server.py"):
            return command[at + 1 :] or ("",)
        if name in ("mlx_lm", "mlx-lm") and list(command[at + 1 : at + 2]) == ["server"]:
            return command[at + 2 :] or ("",)
    return ()


def parse_arguments(words: Sequence[str]) -> dict[str, Setting]:
    """The flags with their values; `--flag value` and `--flag=value` alike."""
    found: dict[str, Setting] = {}
    for at, word in enumerate(words):
        flag, equals, attached = word.partition("=")
        if not flag.startswith("--"):
            continue
        following = words[at + 1] if at + 1 < len(words) else ""
        value = "true" if flag in SWITCHES else attached if equals else following
        found[flag] = Setting(value, f"{COMMAND}: {flag} {value}".rstrip())
    return found


def told(given: Mapping[str, Setting]) -> Runtime:
    """What the server was told; the defaults are those of mlx_lm/server.py."""
    facts: dict[str, Any] = {
        "max_sequences": _count(given, "--decode-concurrency", 32),
        "batch": _count(given, "--prefill-step-size", 2048),
        "cache_ram_bytes": _size(given, "--prompt-cache-bytes"),
        "prompt_cache": _caches(given),
    }
    if "--draft-model" not in given:
        return Runtime(speculative=not_found("--draft-model was not given"), **facts)
    draft = given["--draft-model"]
    tokens = _count(given, "--num-draft-tokens", 3)
    return Runtime(speculative=reported(draft.value, draft.source), draft_tokens=tokens, **facts)


def _count(given: Mapping[str, Setting], flag: str, default: int) -> Fact[int]:
    if flag not in given:
        return estimated(default, f"default of MLX-LM: no {flag}")
    value, source = given[flag]
    sane = value.isdecimal() and value.isascii() and len(value) <= _MOST_DIGITS
    return reported(int(value), source) if sane else failed(f"{source}: not a number")


def _caches(given: Mapping[str, Setting]) -> Fact[bool]:
    """Whether prompts of other conversations are kept; nought keeps none."""
    size = _count(given, "--prompt-cache-size", 10)
    return Known(size.value > 0, size.origin, size.source) if isinstance(size, Known) else size


def _size(given: Mapping[str, Setting], flag: str) -> Fact[int]:
    if flag not in given:
        return not_found(f"{flag} was not given: the cache has no limit in bytes")
    found = _SIZE.fullmatch(given[flag].value.strip())
    size = round(float(found[1]) * _SCALES[found[2].upper()]) if found else _MOST_BYTES
    return reported(size, given[flag].source) if size < _MOST_BYTES else failed(f"{given[flag].source}: not a size")
