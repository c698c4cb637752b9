"""What a curve shows, in one sentence, where no benchmark has judged it."""

from collections.abc import Sequence

from unslow.think.view.report import CurvePoint

_NOTABLE = 0.005
"""Less than half of one per cent is nothing lost."""


def depth_words(points: Sequence[CurvePoint], basis: str) -> str:
    """From the start of the context to its end."""
    known = [point for point in points if point.predicted]
    if len(known) <= 1:
        return ""
    first, last = known[0], known[-1]
    lost = 1 - (last.predicted or 0.0) / (first.predicted or 1.0)
    return (
        f"Expected {basis}: {_rate(first)} tokens per second {first.at:,.0f} tokens into the context, "
        f"{_rate(last)} after {last.at:,.0f}, which is {_less(lost)}."
    )


def _less(share: float) -> str:
    return f"{share:.0%} less" if share >= _NOTABLE else "about the same"


def users_words(points: Sequence[CurvePoint], slots: int | None, basis: str) -> str:
    """Alone, and with as many as are answered at once."""
    known = [point for point in points if point.predicted]
    if len(known) <= 1:
        return f"It answers {_requests(slots)} at a time." if slots else ""
    best = max(known, key=lambda point: (point.predicted or 0.0, -point.at))
    waits = f" It answers {_requests(slots)} at a time; the others wait." if slots else ""
    more = f", {_rate(best)} for {best.at:,.0f} users together" if best.at > 1 else ", and no more for several together"
    return f"Expected {basis}: {_rate(known[0])} tokens per second alone{more}.{waits}"


def _requests(slots: int) -> str:
    return "one request" if slots == 1 else f"{slots} requests"


def _rate(point: CurvePoint) -> str:
    value = point.predicted or 0.0
    return f"{value:.2g}" if value < 10 else f"{value:,.0f}"  # noqa: PLR2004 (two figures tell a slow one)
