"""An answer of /v1/completions or /v1/chat/completions as it arrives."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from unslow.look.system import LookError
from unslow.look.system.door import Line

_MOST_TOKENS = 2**40
_SHOWN = 200
_TEXTS = ("content", "reasoning_content", "reasoning", "text")


class Streamed(NamedTuple):
    """When text came, and what the server counted; `chunks` stands in where it counts nothing."""

    first_s: float
    last_s: float
    chunks: int
    prompt_tokens: int | None = None
    cached_tokens: int = 0
    generated_tokens: int | None = None


def parse_stream(lines: Iterable[Line]) -> Streamed:
    """Read a stream of server-sent events; LookError where it carries an error or no text at all."""
    first = last = 0.0
    chunks, usage = 0, {}
    for line in lines:
        event = parse_event(line.text)
        if event is None:
            continue
        if isinstance(event.get("usage"), dict):
            usage = event["usage"]
        if _has_text(event):
            chunks += 1
            first, last = (line.seconds if chunks == 1 else first), line.seconds
    if not chunks:
        raise LookError("the server answered without a word")
    details = usage.get("prompt_tokens_details")
    return Streamed(
        first_s=first,
        last_s=last,
        chunks=chunks,
        prompt_tokens=_count(usage.get("prompt_tokens")),
        cached_tokens=_count(details.get("cached_tokens") if isinstance(details, dict) else None) or 0,
        generated_tokens=_count(usage.get("completion_tokens")),
    )


def parse_event(text: str) -> dict[str, Any] | None:
    """The event of a `data:` line; None for any other line and for the end."""
    if not text.startswith("data:") or text[5:].strip() in ("", "[DONE]"):
        return None
    return parse_object(text[5:])


def parse_object(text: str) -> dict[str, Any]:
    """One JSON object that is no error."""
    try:
        event = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise LookError(f"the server streamed something that is not JSON: {text[:60]!r}") from error
    if not isinstance(event, dict):
        raise LookError(f"the server streamed something that is no event: {text[:60]!r}")
    if event.get("error"):
        raise LookError(f"the server answered with an error: {str(event['error'])[:_SHOWN]}")
    return event


def _has_text(event: dict[str, Any]) -> bool:
    choices = event.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, dict):
        return False
    delta = choice.get("delta")
    return any(_words(part) for part in (choice, delta) if isinstance(part, dict))


def _words(part: dict[str, Any]) -> bool:
    return any(isinstance(part.get(name), str) and part[name] for name in _TEXTS)


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < _MOST_TOKENS else None
