"""Quantities as an axis shows them: a factor, the unit said once, and plain words for the name."""

from dataclasses import dataclass

from unslow.show._html.scales import sane, ticks
from unslow.show._labels import label
from unslow.show._units import GB, GIB, MIB

_PREFIXES = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_K = 1024


@dataclass(frozen=True, slots=True)
class Quantity:
    """How a value is written: divided by `by`, with `unit` behind."""

    by: float
    unit: str

    def bare(self, value: float) -> str:
        """The number alone, for an axis."""
        return plain(sane(value) / self.by)

    def full(self, value: float) -> str:
        """The number with its unit."""
        return f"{self.bare(value)} {self.unit}".strip()


_ENDINGS: tuple[tuple[tuple[str, ...], tuple[tuple[float, float, str], ...]], ...] = (
    (("_hz",), ((0, 1e6, "MHz"),)),
    (("_bytes_per_s",), ((GB / 10, GB, "GB/s"), (0, 1e6, "MB/s"))),
    (("_bytes",), ((GIB, GIB, "GiB"), (0, MIB, "MiB"))),
    (("tokens_per_s",), ((0, 1, "tok/s"),)),
    (("_per_s",), ((0, 1, "per second"),)),
    (("_s",), ((1, 1, "s"), (0, 1e-3, "ms"))),
    (("_w",), ((0, 1, "W"),)),
    (("_c",), ((0, 1, "°C"),)),
    (("busy", "pressure", "share", "usage", "fraction", "busiest_core"), ((0, 0.01, "%"),)),
)
"""By the end of a name: from which largest value on, divided by what, and the unit."""


def quantity(name: str, most: float = 0.0) -> Quantity:
    """By the unit that the name carries; `most` is the largest value, which chooses the prefix."""
    for endings, units in _ENDINGS:
        if name.endswith(endings):
            return next((Quantity(by, unit) for least, by, unit in units if most >= least), Quantity(*units[-1][1:]))
    return Quantity(1, "")


def round_ticks(low: float, high: float, most: int, unit: Quantity) -> tuple[float, ...]:
    """Numbers that are round in the unit that is shown."""
    return tuple(tick * unit.by for tick in ticks(low / unit.by, high / unit.by, most))


def plain(value: float) -> str:
    """Three digits or so, with separators, without needless zeros."""
    if abs(value) >= 1e7:  # noqa: PLR2004 (a number that is hard to count by eye)
        return prefixed(value)
    if abs(value) >= 100:  # noqa: PLR2004 (three digits)
        return f"{value:,.0f}"
    return f"{value:.3g}"


def prefixed(value: float) -> str:
    """With k, M, G, T for thousands."""
    for factor, prefix in _PREFIXES:
        if abs(value) >= factor:
            return f"{value / factor:.3g} {prefix}"
    return f"{value:.3g} "


def tokens(value: float) -> str:
    """A depth of context: 512, 4k, 128k."""
    thousands = value / _K
    return f"{thousands:g}k" if thousands >= 1 and thousands == int(thousands) else f"{value:,.0f}"


def named(name: str) -> str:
    """A quantity in plain words."""
    return label(name)
