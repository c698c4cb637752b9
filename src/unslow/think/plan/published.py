"""Which published figure speaks for a model that nobody measured: that of the nearest size, of several the worst."""

from collections.abc import Callable, Iterable
from functools import cache
from math import inf, log

from unslow.catalog.quality import Figure, figures, tables

Number = Callable[[Figure], float | None]

_SAME_SIZE = log(1.25)  # a 7B and an 8B lose differently by their training, not by their size
_TABLES_AGREE = 2  # so many must have both quants before an order between them counts as known


def speaking_for(
    parameters: int, architecture: str, among: Iterable[Figure], number: Number
) -> tuple[Figure, float] | None:
    """The figure to take, and its number; of models of about the same size the worst, because newer ones lose more."""
    found = [(f, n) for f in about(architecture, among) if (n := number(f)) is not None]
    for spoils in (_is_older, _is_by_the_word):
        found = [(f, n) for f, n in found if not spoils(f)] or found
    if not found or parameters <= 0:
        return None
    nearest = min((f for f, _ in found), key=lambda f: _distance(f, parameters))
    alike = [(f, n) for f, n in found if f is nearest or _distance(f, nearest.table.parameters) <= _SAME_SIZE]
    return max(alike, key=lambda pair: pair[1])


def about(architecture: str, among: Iterable[Figure]) -> list[Figure]:
    """Figures of models that are built like it where there are such, else those that speak for every model."""
    among = list(among)
    return [f for f in among if architecture in f.table.only_for] or [f for f in among if not f.table.only_for]


def _is_older(figure: Figure) -> bool:
    return figure.table.older


def _is_by_the_word(figure: Figure) -> bool:
    return figure.table.per == "word"


def _distance(figure: Figure, parameters: int) -> float:
    """Between sizes, as a logarithm; nothing is near to a model whose size is not known."""
    both = figure.table.parameters and parameters
    return abs(log(parameters / figure.table.parameters)) if both else inf


def increase(figure: Figure) -> float | None:
    """Of the perplexity, as a share."""
    return figure.increase


def divergence(figure: Figure) -> float | None:
    """The mean KL divergence."""
    return figure.kl


@cache
def of_weights(quant: str) -> tuple[Figure, ...]:
    """What was measured of one quant."""
    return tuple(f for f in figures() if f.row.quant == quant)


@cache
def of_cache(keys: str, values: str) -> tuple[Figure, ...]:
    """What was measured of caches of these types; an empty one stands for 16 bits."""
    return tuple(f for f in figures() if not f.row.quant and (f.row.keys, f.row.values) == (keys, values))


@cache
def never_worse_than(quant: str) -> frozenset[str]:
    """Quants that came out better in every table that has both, or better than one that did.

    Tables have different quants of different models; this keeps a quant that only an old model was measured with from
    looking better than one that it has always lost against.
    """
    better, asked = _better(), [quant]
    found: set[str] = set()
    while asked:
        new = better.get(asked.pop(), frozenset()) - found
        found |= new
        asked += new
    return frozenset(found - {quant})


@cache
def _better() -> dict[str, frozenset[str]]:
    by_table = [worst for t in tables() if not tables()[t].only_for and (worst := _worst_of(t))]
    quants = {quant for worst in by_table for quant in worst}
    return {a: frozenset(b for b in quants if a != b and _is_better(b, a, by_table)) for a in quants}


def _is_better(one: str, other: str, by_table: list[dict[str, float]]) -> bool:
    both = [worst for worst in by_table if one in worst and other in worst]
    return len(both) >= _TABLES_AGREE and all(worst[one] < worst[other] for worst in both)


def _worst_of(name: str) -> dict[str, float]:
    """The increase of each quant in one table; without an importance matrix where there are both."""
    worst: dict[str, float] = {}
    for row in tables()[name].rows:
        share = Figure(tables()[name], row).increase
        if row.quant and share is not None:
            worst[row.quant] = max(share, worst.get(row.quant, 0.0))
    return worst
