"""Keeps keys out of everything that leaves the program: facts, messages, errors.

Runtimes take keys out of what they read; this is the last door, for what none of them thought of.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, TypeVar
from urllib.parse import unquote

import msgspec

from unslow.commands._output import Progress
from unslow.commands.diagnose.target import as_url
from unslow.facts.errors import UserError
from unslow.facts.machine import Facts
from unslow.facts.masking import data_without_keys, is_secret, keyless, without_keys

F = TypeVar("F", bound=Facts)


class Discretion(NamedTuple):
    """The keys that must not be seen."""

    keys: tuple[str, ...]

    @classmethod
    def about(cls, api_key: str | None, target: str | None) -> "Discretion":
        """Of the key that the user gave, and of what stands before the @ of a target that is a URL."""
        return cls(tuple(key for key in (api_key or "", *userinfo(as_url(target or "") or "")) if is_secret(key)))

    def facts(self, facts: F) -> F:
        """The facts without these keys and without whatever looks like one; the very same where none is in them."""
        raw = msgspec.to_builtins(facts)
        clean = data_without_keys(raw, *self.keys) if self.keys else raw
        return keyless(msgspec.convert(clean, type(facts)) if clean != raw else facts)

    def progress(self, progress: Progress) -> Progress:
        """A progress that shows no key."""
        return _KeylessProgress(progress, self.keys) if self.keys else progress

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Errors for the user, without the keys."""
        try:
            yield
        except UserError as error:
            if not self.keys:
                raise
            raise UserError(without_keys(error.message, *self.keys), without_keys(error.hint, *self.keys)) from None


class _KeylessProgress:
    def __init__(self, progress: Progress, keys: tuple[str, ...]) -> None:
        self._progress, self._keys = progress, keys

    def say(self, text: str) -> None:
        self._progress.say(without_keys(text, *self._keys))

    def step(self, text: str, share: float) -> None:
        self._progress.step(without_keys(text, *self._keys), share)


def userinfo(url: str) -> list[str]:
    """The name and the password of a URL, as written and as meant."""
    before, at, _ = url.partition("://")[2].partition("/")[0].rpartition("@")  # also where the rest is no URL
    words = [word for word in before.split(":", 1) if word] if at else []
    return [*words, *(meant for word in words if (meant := unquote(word)) != word)]
