"""What a cause costs, in words: the same in a terminal and on the page."""

from unslow.show._units import span
from unslow.think.report import Cost, Finding, SubjectReport

_OF = {"token": "token", "prompt_token": "prompt token", "request": "request"}
_PHASE = {"token": "decode", "prompt_token": "prefill"}
_LITTLE = 0.01
"""Of the whole: a share that is not worth a figure."""


def price_of(number: int, root: Finding, subject: SubjectReport) -> str:
    """What it costs beside those before it, and how much faster it is without it."""
    gain = f"{root.speedup:.1f}× faster without it" if root.speedup and root.speedup > 1 + _LITTLE else ""
    if root.cost is None:
        return gain
    whole = _whole(root.cost, subject)
    if root.cost.seconds <= _LITTLE * whole:
        return "; alone ".join(words for words in (_beside(number), gain) if words)
    of = f" of {span(whole)}" if whole else ""
    where = f" that comes {root.cost.depth_tokens:,} tokens deep in the context" if root.cost.depth_tokens else ""
    lost = f"{span(root.cost.seconds)}{of} for every {_OF[root.cost.per]}{where}"
    return f"{lost}: {gain}" if gain else lost


def _beside(number: int) -> str:
    """What is left to gain where others are cured before."""
    if number == 1:
        return ""
    return f"nothing more once {'the first is' if number == 2 else 'those before are'} cured"  # noqa: PLR2004 (the second)


def _whole(cost: Cost, subject: SubjectReport) -> float:
    """The measured time that a cost is a part of; 0 where it was not measured."""
    if cost.depth_tokens is not None:
        return 0.0
    phase = _PHASE.get(cost.per)
    return sum(b.seconds for b in subject.budget if b.per == cost.per and phase in (None, b.phase))
