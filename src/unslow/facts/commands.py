"""Changes of a runtime's settings as the lines that a user copies."""

import msgspec

from unslow.facts.knob import Change


class Commands(msgspec.Struct, frozen=True):
    """What to type for all changes at once, and what has no words in the version at hand."""

    short: tuple[str, ...] = ()
    """The bare words of each change, for a reader who knows where they go: a flag, an option of a chat or a request."""
    lines: tuple[str, ...] = ()
    """The whole of it, in order, each with the label of its place (facts.placed); a file is one, with newlines."""
    left_out: tuple[tuple[Change, str], ...] = ()
    """Changes that this runtime can't have, each with the reason."""
    argv: tuple[str, ...] = ()
    """The whole command line, keys too: for whoever starts it, never to be shown; empty where there is none."""
    environment: dict[str, str | None] = msgspec.field(default_factory=dict)
    """Variables that it needs; those that must not be there are None."""
