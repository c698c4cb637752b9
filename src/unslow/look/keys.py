"""API keys: used in one header, and nowhere else to be seen, even where a server sends them back."""

from typing import Any

SHOWN = "KEY"
_SHORTEST = 8
_PLACEHOLDERS = frozenset({"lm-studio", "not-needed", "no-key-required", "sk-no-key-required", "sk-1234567890"})
"""What people write where a client insists on a key and the server wants none: as public as the word `ollama`."""


def headers(api_key: str | None) -> dict[str, str]:
    """The header that carries a key; none without one."""
    return {"Authorization": f"Bearer {api_key}"} if api_key else {}


def is_secret(api_key: str | None) -> bool:
    """Whether a key is one; a short word or a placeholder would only spoil the text that it is taken out of."""
    return bool(api_key) and len(api_key or "") >= _SHORTEST and api_key not in _PLACEHOLDERS


def hushed(text: str, *keys: str | None) -> str:
    """The text without the keys."""
    for key in keys:
        if key and is_secret(key):
            text = text.replace(key, SHOWN)
    return text


def hushed_data(data: Any, *keys: str | None) -> Any:
    """Lists, objects and texts, without the keys."""
    match data:
        case str():
            return hushed(data, *keys)
        case list() | tuple():
            return [hushed_data(part, *keys) for part in data]
        case dict():
            return {hushed(str(name), *keys): hushed_data(part, *keys) for name, part in data.items()}
        case _:
            return data
