"""The events of /v1/completions and /v1/chat/completions, whether they stream or come as one answer."""

from typing import Any, NamedTuple

import msgspec

from unslow.look.system import LookError
from unslow.look.system.door import ExchangeError

_MOST_TOKENS = 2**40
_SHOWN = 200
_TEXTS, _THOUGHTS = ("content", "text"), ("reasoning_content", "reasoning")


class Usage(NamedTuple):
    """What the server counted; None where it does not say."""

    prompt_tokens: int | None = None
    generated_tokens: int | None = None
    cached_tokens: int = 0
    thinking_tokens: int | None = None


class Said(NamedTuple):
    """The words of one event, or the thought."""

    text: str
    is_thought: bool = False


def parse_event(text: str) -> dict[str, Any] | None:
    """The event of a `data:` line; None for any other line and for the end."""
    if not text.startswith("data:") or is_end(text):
        return None
    return parse_object(text[5:])


def is_end(text: str) -> bool:
    """Whether a line says that nothing more comes."""
    return len(text) < len("data:  [DONE]  ") and text[5:].strip() in ("", "[DONE]")


def parse_object(text: str) -> dict[str, Any]:
    """One JSON object that is no error."""
    try:
        event = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise LookError(f"the server streamed something that is not JSON: {text[:60]!r}") from error
    return checked(event)


def checked(event: Any) -> dict[str, Any]:
    """An answer that is an object and no error; LookError for any other."""
    if not isinstance(event, dict):
        raise LookError(f"the server answered with something that is no event: {str(event)[:60]!r}")
    if event.get("error"):
        raise ExchangeError("error", f"the server answered with an error: {str(event['error'])[:_SHOWN]}")
    return event


def said(event: dict[str, Any]) -> Said | None:
    """The words of an event; None where it has none, such as the one that only names the role."""
    choices = event.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, dict):
        return None
    part = choice.get("delta") or choice.get("message") or choice
    if not isinstance(part, dict):
        return None
    for name in _TEXTS:
        if isinstance(text := part.get(name), str) and text:
            return Said(text)
    for name in _THOUGHTS:
        if isinstance(text := part.get(name), str) and text:
            return Said(text, is_thought=True)
    return None


def parse_usage(event: dict[str, Any]) -> Usage | None:
    """The counts of an event; None where it has none."""
    usage = event.get("usage")
    if not isinstance(usage, dict):
        return None
    return Usage(
        prompt_tokens=_count(usage.get("prompt_tokens")),
        generated_tokens=_count(usage.get("completion_tokens")),
        cached_tokens=_detail(usage, "prompt_tokens_details", "cached_tokens") or 0,
        thinking_tokens=_detail(usage, "completion_tokens_details", "reasoning_tokens"),
    )


def _detail(usage: dict[str, Any], group: str, name: str) -> int | None:
    details = usage.get(group)
    return _count(details.get(name)) if isinstance(details, dict) else None


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < _MOST_TOKENS else None
