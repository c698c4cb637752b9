"""What layouts have said of the placings of one way, and which of them are still worth a look."""

from math import inf

from unslow.think.plan.llama_cpp.placing import Placing

Split = tuple[int, ...]
"""How many layers each GPU has."""


class Tried:
    """Of one way; what follows from each answer is kept, so that nothing is laid out twice."""

    def __init__(self) -> None:
        self.times = 0
        self._most: dict[Placing, float] = {}
        """By the smallest placing of a sort: what of it may lie on GPUs."""
        self._splits: set[tuple[Placing, Split]] = set()
        self._fewest: dict[int, tuple[int, int]] = {}
        """By whole layers with the host: the pieces beside them with which it fits; with more it is no quicker."""
        self._least = -1
        """What GPUs must have more than: with so little there, the host has no room for the rest."""
        self._is_host_open = True

    def fits(self, placing: Placing) -> None:
        """It was found."""
        self.times += 1
        self._fewest[placing.whole] = (placing.apart, placing.pieces)

    def lacks_gpu(self, placing: Placing, gpu_bytes: int, split: Split = (), better: Split = ()) -> None:
        """GPUs have no room for that, nor for more of its sort, unless there is a split that was not tried yet."""
        self.times += 1
        self._splits.add((placing, split))
        if (placing, better) in self._splits or better == split:
            self._most[_sort(placing)] = gpu_bytes - 1

    def lacks_host(self, gpu_bytes: int) -> None:
        """The host has no room for what that leaves it, nor for more."""
        self.times += 1
        self._least = max(self._least, gpu_bytes)

    def close_host(self) -> None:
        """The host alone was tried."""
        self.times += 1
        self._is_host_open = False

    def most_bytes(self, least: Placing) -> float:
        """What placings of a sort may have on GPUs."""
        return self._most.get(least, inf)

    def is_open(self, placing: Placing, gpu_bytes: int) -> bool:
        """Whether it may fit and be quicker than what was found."""
        known = self._fewest.get(placing.whole)
        return gpu_bytes > self._least and (known is None or (placing.apart, placing.pieces) < known)

    @property
    def is_host_open(self) -> bool:
        """Whether the host alone may do."""
        return self._is_host_open and self._least < 0


def _sort(placing: Placing) -> Placing:
    """The smallest placing with as many whole layers, and as many pieces of the layer after the last."""
    return Placing(placing.whole, min(placing.apart, 1), placing.pieces)
