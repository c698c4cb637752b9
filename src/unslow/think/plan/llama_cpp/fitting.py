"""The placings that can be the quickest: of each number of whole layers with the host, the fewest pieces that follow.

More with the host is never faster, so nothing else has to be priced.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property

from unslow.think.plan.llama_cpp.abilities import Abilities
from unslow.think.plan.llama_cpp.pieces import Pieces
from unslow.think.plan.llama_cpp.placing import SEVERAL, Kind, Ledger, Placing, held

Rooms = Mapping[Kind, tuple[float, ...]]
"""What each GPU has for weights and cache, by the sort of placing: every sort has buffers of its own."""
Placed = tuple[Placing, tuple[int, ...]]
"""A placing, and how many layers each GPU has."""


class Fitting:
    """Of one model, as far as its runtime can be told."""

    def __init__(self, pieces: Pieces, gpus: int, abilities: Abilities, speeds: tuple[float, ...] = ()) -> None:
        self._layers, self._gpus = len(pieces.layers), gpus
        self._speeds = speeds
        """Of GPUs that are unlike: the quickest take what they can."""
        self._sizes = [len(layer.pieces) for layer in pieces.layers]
        self._abilities = abilities
        self._found: dict[tuple[int, tuple[tuple[float, ...], ...]], list[Placed]] = {}
        self._ledgers: dict[int, Ledger] = {}
        """Which keeps them, and with them their numbers."""

    @cached_property
    def kinds(self) -> tuple[Kind, ...]:
        """All sorts that there are."""
        whole = range(min(SEVERAL, self._layers) + 1)
        return tuple(dict.fromkeys(least.kind for some in whole for least in self._sorts(some)))

    def rooms(self, room: Callable[[Kind], tuple[float, ...]]) -> Rooms:
        """By every sort of placing."""
        return {kind: room(kind) for kind in self.kinds}

    def placings(self, ledger: Ledger, rooms: Rooms) -> list[Placed]:
        """All that can be the quickest where GPUs have so much room."""
        key = id(ledger), tuple(rooms.values())
        if key not in self._found:
            self._ledgers[id(ledger)] = ledger
            self._found[key] = list(self._placings(ledger, rooms))
        return self._found[key]

    def _placings(self, ledger: Ledger, rooms: Rooms) -> Iterator[Placed]:
        for whole in range(self._layers + 1 if self._gpus else 0):
            found = self._fewest(ledger, rooms, whole)
            if found:
                yield found
                if not found[0].first_complete:  # all of it is there
                    return
        yield Placing(self._layers), (0,) * self._gpus

    def _fewest(self, ledger: Ledger, rooms: Rooms, whole: int) -> Placed | None:
        """The fewest pieces with the host, beside so many whole layers, that the GPUs one by one hold the rest."""
        best: Placed | None = None
        most = 0
        for least in self._sorts(whole):
            found = held(ledger, least, rooms[least.kind], self._speeds)
            if found and (best is None or ledger.gpu_bytes(found[0]) > most):
                best, most = found, ledger.gpu_bytes(found[0])
            if best and best[0].first_complete == whole:  # no pieces at all
                break
        return best

    def _sorts(self, whole: int) -> Iterator[Placing]:
        """The smallest placing of each sort."""
        yield Placing(whole)
        if not self._abilities.apart or whole >= self._layers:
            return
        pieces = max(1, *self._sizes) if self._abilities.partly else 1
        for apart in range(2 if whole + 1 < self._layers else 1):
            yield from (Placing(whole, apart, some) for some in range(0 if apart else 1, pieces))
