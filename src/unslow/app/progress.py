"""What the program says while it works; the command line and tests each have their own way to show it."""

from typing import Protocol


class Progress(Protocol):
    """Where progress goes."""

    def say(self, text: str) -> None:
        """A line that stays."""
        ...

    def step(self, text: str, share: float) -> None:
        """What is being done now, and how much of it is done."""
        ...


class Silent:
    """Says nothing."""

    def say(self, text: str) -> None:
        """Nothing."""

    def step(self, text: str, share: float) -> None:
        """Nothing."""
