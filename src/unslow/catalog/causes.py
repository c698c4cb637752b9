"""How often each cause is behind slow inference, as counted in public reports."""

from functools import cache

import msgspec

from unslow.catalog import entries


class _Counted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    source: str
    reports: int
    seen: dict[str, float]


@cache
def _counted() -> _Counted:
    return dict(entries("causes", _Counted))["frequency"]


def frequency(cause: str) -> float:
    """The share of reports that a cause is behind, with one more report for each: what nobody reported happens too."""
    counted = _counted()
    return (counted.seen.get(cause, 0.0) + 1) / (counted.reports + len(counted.seen))
