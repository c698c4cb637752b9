"""Speeds as people write them."""


def rounded(rate: float) -> str:
    """A speed with three digits."""
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"  # noqa: PLR2004 (three digits)
