"""All rows of a day in memory that does not grow: the last hour as sampled, what is older ever thinner."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence

from unslow.look.sampler.block import Block

BLOCK_ROWS = 256
HOUR_ROWS = 36_000
"""An hour at 10 Hz, half an hour at 20 Hz."""
LEVEL_BYTES = 8 * 1024**2
"""No level takes more; a server with hundreds of cores keeps less than an hour."""
THINNER = 8
LEVELS = 3
"""At 10 Hz: one hour, then eight hours at 1.25 Hz, then 64 hours at one sample in 6.4 s."""
_FEWEST_BLOCKS = 8


class Series:
    """Rows, oldest first; `on_old` is given each block of full rows before it is thinned."""

    def __init__(self, width: int, masks: frozenset[int], on_old: Callable[[Block], None]) -> None:
        self.width, self._masks, self._on_old = width, masks, on_old
        block_bytes = BLOCK_ROWS * (4 * width + 9)
        self._most = max(_FEWEST_BLOCKS, min(HOUR_ROWS // BLOCK_ROWS, LEVEL_BYTES // block_bytes))
        self._levels: list[deque[Block]] = [deque([Block(width)]) for _ in range(LEVELS)]

    def add(self, seconds: float, row: Sequence[float]) -> None:
        """One row more; now and then the oldest rows become fewer."""
        self._levels[0][-1].add(seconds, row)
        if len(self._levels[0][-1]) >= BLOCK_ROWS:
            self._open_next(0)

    def recent(self) -> Iterator[Block]:
        """The blocks at full resolution, newest first."""
        return reversed(self._levels[0])

    def blocks(self) -> Iterator[Block]:
        """All blocks, oldest first."""
        for level in reversed(self._levels):
            yield from level

    def _open_next(self, number: int) -> None:
        level = self._levels[number]
        level.append(Block(self.width))
        if len(level) <= self._most:
            return
        old = level.popleft()
        if number == 0:
            self._on_old(old)
        if number + 1 < LEVELS:
            self._keep(old.thinned(THINNER, self._masks), number + 1)

    def _keep(self, thin: Block, number: int) -> None:
        last = self._levels[number][-1]
        for at, seconds in enumerate(thin.seconds):
            last.add(seconds, [column[at] for column in thin.columns], thin.phases[at])
        if len(last) >= BLOCK_ROWS:
            self._open_next(number)
