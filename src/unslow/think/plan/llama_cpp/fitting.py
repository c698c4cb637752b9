"""The placings that can be the quickest: of each number of whole layers with the host, the fewest pieces that follow.

More pieces with the host are never faster beside as many whole layers, so nothing else has to be priced.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property

from unslow.think.plan.llama_cpp.abilities import Abilities
from unslow.think.plan.llama_cpp.pieces import Pieces
from unslow.think.plan.llama_cpp.placing import SEVERAL, Kind, Ledger, Placing, held, split
from unslow.think.plan.llama_cpp.tried import Tried

Rooms = Mapping[Kind, tuple[float, ...]]
"""What each GPU has for weights and cache, by the sort of placing: every sort has buffers of its own."""
Placed = tuple[Placing, tuple[int, ...]]
"""A placing, and how many layers each GPU has."""

_NOTHING = Tried()


class Fitting:
    """Of one model, as far as its runtime can be told."""

    def __init__(self, pieces: Pieces, gpus: int, abilities: Abilities, speeds: tuple[float, ...] = ()) -> None:
        self._layers, self._gpus = len(pieces.layers), gpus
        self._speeds = speeds
        """Of GPUs that are unlike: the quickest take what they can."""
        self._sizes = [len(layer.pieces) for layer in pieces.layers]
        self._abilities = abilities
        self._found: dict[tuple[object, ...], list[Placed]] = {}
        self._asked: dict[int, Ledger | Tried] = {}
        """Which keeps them, and with them their numbers."""

    @cached_property
    def kinds(self) -> tuple[Kind, ...]:
        """All sorts that there are."""
        whole = range(min(SEVERAL, self._layers) + 1)
        return tuple(dict.fromkeys(least.kind for some in whole for least in self._sorts(some)))

    def rooms(self, room: Callable[[Kind], tuple[float, ...]]) -> Rooms:
        """By every sort of placing."""
        return {kind: room(kind) for kind in self.kinds}

    def placings(self, ledger: Ledger, rooms: Rooms, tried: Tried | None = None) -> list[Placed]:
        """All that can be the quickest where GPUs have so much room, without what was tried."""
        tried = tried or _NOTHING
        key = id(ledger), id(tried), tried.times, tuple(rooms.values())
        if key not in self._found:
            self._asked |= {id(ledger): ledger, id(tried): tried}
            self._found[key] = list(self._placings(ledger, rooms, tried))
        return self._found[key]

    def _placings(self, ledger: Ledger, rooms: Rooms, tried: Tried) -> Iterator[Placed]:
        for whole in range(self._layers + 1 if self._gpus else 0):
            found = self._fewest(ledger, rooms, whole, tried)
            if found and tried.is_open(found[0], ledger.gpu_bytes(found[0])):
                yield found
        if tried.is_host_open:
            yield Placing(self._layers), (0,) * self._gpus

    def _fewest(self, ledger: Ledger, rooms: Rooms, whole: int, tried: Tried) -> Placed | None:
        """The fewest pieces with the host, beside so many whole layers, that the GPUs one by one hold the rest."""
        best: Placing | None = None
        for least in self._sorts(whole):
            found = held(ledger, least, rooms[least.kind], tried.most_bytes(least))
            if found and (best is None or ledger.gpu_bytes(found) > ledger.gpu_bytes(best)):
                best = found
            if best and best.first_complete == whole:  # no pieces at all
                break
        return best and (best, split(ledger, best, rooms[best.kind], self._speeds))

    def _sorts(self, whole: int) -> Iterator[Placing]:
        """The smallest placing of each sort."""
        yield Placing(whole)
        if not self._abilities.apart or whole >= self._layers:
            return
        pieces = max(1, *self._sizes) if self._abilities.partly else 1
        yield from (Placing(whole, 0, some) for some in range(1, pieces))
        yield from (Placing(whole, 1, some) for some in range(pieces if whole + 1 < self._layers else 1))
