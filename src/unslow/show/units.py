"""Units as people read them: GiB for memory, GB/s for bandwidth, ms for a token."""

GIB, MIB, GB = 1024**3, 1024**2, 10**9
_LONG_S = 600  # Ten minutes: from there on nobody counts seconds
_NOTHING_S = 1e-9


def size(count: float) -> str:
    """Bytes in binary units."""
    return f"{count / GIB:,.1f} GiB" if count >= GIB else f"{count / MIB:,.0f} MiB"


def rate(tokens_per_s: float) -> str:
    """Tokens per second with three digits."""
    digits = 0 if tokens_per_s >= 100 else 1 if tokens_per_s >= 10 else 2  # noqa: PLR2004 (three digits)
    return f"{tokens_per_s:,.{digits}f}"


def span(seconds: float) -> str:
    """Hours, minutes, seconds, milliseconds or microseconds; less than a nanosecond is nothing."""
    if seconds < 0:
        return f"-{span(-seconds)}"
    if seconds < _NOTHING_S:
        return "0 s"
    for least_s, unit_s, unit in ((60 * _LONG_S, 3600, "h"), (_LONG_S, 60, "min")):
        if seconds >= least_s:
            return f"{rate(seconds / unit_s)} {unit}"
    for limit, factor, unit in ((1.0, 1, "s"), (1e-3, 1e3, "ms")):
        if seconds >= limit:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def is_time(metric: str) -> bool:
    """Whether less of it is better."""
    return metric.endswith("_s") and not metric.endswith("_per_s")


def amount(metric: str, value: float) -> str:
    """A figure in the unit that its name carries."""
    return span(value) if is_time(metric) else f"{rate(value)} tok/s"


def fact_value(fact: str, value: str | float) -> str:
    """A value in the unit that its name carries."""
    if isinstance(value, bool | str):
        return str(value)
    if fact.endswith("_bytes_per_s"):
        return f"{value / GB:.1f} GB/s"
    if fact.endswith("_bytes"):
        return size(value)
    if fact.endswith("tokens_per_s"):
        return f"{rate(value)} tok/s"
    if fact.endswith(("_s", "_s_per_token")) and not fact.endswith("_per_s"):
        return span(value)
    return f"{value:,.4g}" if isinstance(value, float) else f"{value:,}"


def count(number: float) -> str:
    """A count of parameters with three digits: 135M, 8.03B."""
    for limit, unit in ((1e12, "T"), (1e9, "B"), (1e6, "M")):
        if number >= limit:
            share = number / limit
            return f"{share:.{0 if share >= 100 else 1 if share >= 10 else 2}f}{unit}"  # noqa: PLR2004 (three digits)
    return f"{number:,.0f}"
