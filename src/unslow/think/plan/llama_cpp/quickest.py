"""Which of many placings is the quickest, of those that may be chosen."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from unslow.think.memory.llama_cpp.settings import Settings
from unslow.think.plan.llama_cpp.fitting import Placed
from unslow.think.plan.llama_cpp.found import Counted
from unslow.think.plan.llama_cpp.guards import Guard
from unslow.think.plan.llama_cpp.placing import Placing
from unslow.think.plan.llama_cpp.price import Price, Pricing

Allowed = Callable[[Placing], bool] | None
"""Which placings may be chosen; None for all of them."""


class Priced(NamedTuple):
    """A placing with what the work takes."""

    price: Price
    placing: Placing
    split: tuple[int, ...]


class Quickest:
    """What was priced once is not priced again."""

    def __init__(self, pricing: Pricing, threads: int, counted: Counted) -> None:
        self._pricing, self._threads, self._counted = pricing, threads, counted
        self._known: dict[tuple[Settings, int, tuple[Guard, ...], Allowed], tuple[Priced | None, Sequence[Placed]]] = {}
        """Beside each are its placings: this keeps them, and with them their number."""

    def of(
        self, settings: Settings, placings: Sequence[Placed], guards: tuple[Guard, ...], allowed: Allowed
    ) -> Priced | None:
        """The quickest that is allowed and leaves other work as quick as it is; None where there is none."""
        key = settings, id(placings), guards, allowed
        if key not in self._known:
            some = [each for each in placings if allowed is None or allowed(each[0])]
            self._known[key] = self._first(settings, self._guarded(settings, some, guards)), placings
        return self._known[key][0]

    def _guarded(self, settings: Settings, placings: Sequence[Placed], guards: tuple[Guard, ...]) -> Sequence[Placed]:
        kept = [True] * len(placings)
        for guard in guards:
            prices = guard.pricing.prices(settings, placings, self._threads)
            kept = [ok and guard.allows(price) for ok, price in zip(kept, prices, strict=True)]
        return [placing for placing, ok in zip(placings, kept, strict=True) if ok]

    def _first(self, settings: Settings, placings: Sequence[Placed]) -> Priced | None:
        self._counted.priced += len(placings)
        prices = self._pricing.prices(settings, placings, self._threads)
        tried = [Priced(price, *placing) for price, placing in zip(prices, placings, strict=True)]
        return min(tried, key=lambda each: each.price.request_s, default=None)
