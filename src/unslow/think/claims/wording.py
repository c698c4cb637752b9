"""Numbers as they stand in a line of arithmetic."""

from unslow.facts.units import GB, GIB, KIB, MB, MIB

_TERABYTES_FROM = 1e13  # of chips with memory of their own


def rate(tokens_per_s: float) -> str:
    """Three digits, or as many as the number has before its point."""
    if tokens_per_s == float("inf"):
        return "any number of tok/s"
    return f"{digits(tokens_per_s)} tok/s"


def digits(value: float) -> str:
    """Three digits."""
    for limit, places in ((100, 0), (10, 1), (1, 2)):
        if value >= limit:
            text = f"{value:,.{places}f}"
            return text.rstrip("0").rstrip(".") if "." in text else text
    return f"{value:.2g}"


def gb(count: float) -> str:
    """Bytes in units of thousands, as files and reads are counted."""
    return f"{digits(count / GB)} GB" if count >= GB / 10 else f"{digits(count / MB)} MB"


def gib(count: float) -> str:
    """Bytes in binary units, as memories are."""
    return f"{digits(count / GIB)} GiB" if count >= GIB / 10 else f"{digits(count / MIB)} MiB"


def both(count: float) -> str:
    """Bytes in both."""
    return f"{gb(count)} ({gib(count)})"


def bandwidth(bytes_per_s: float) -> str:
    """GB/s, or TB/s from ten on."""
    if bytes_per_s >= _TERABYTES_FROM:
        return f"{digits(bytes_per_s / 1e12)} TB/s"
    return f"{digits(bytes_per_s / GB)} GB/s"


def share(part: float) -> str:
    """A percentage."""
    return f"{part * 100:.0f} %"


def tokens(count: int) -> str:
    """A length of context."""
    return f"{count // KIB}K" if count >= KIB and count % KIB == 0 else f"{count:,}"
