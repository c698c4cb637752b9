"""What one part of a model loses: its weights, or its cache."""

import msgspec


class Loss(msgspec.Struct, frozen=True):
    """Against 16 bits."""

    increase: float | None
    """Of the perplexity, as a share; None where nobody published one."""
    kl: float | None
    at_least: bool = False
    """Whether only a part of it, or something that loses less, was measured."""
    words: str = ""
    sources: tuple[str, ...] = ()


FREE = Loss(0.0, 0.0)


def unknown(words: str, *sources: str) -> Loss:
    """What nobody published, and why."""
    return Loss(None, None, words=words, sources=sources)
