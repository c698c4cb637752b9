"""What a sweep over users, threads, batches, turns or starts comes to."""

from typing import NamedTuple


class SweepVerdict(NamedTuple):
    """One word of the sweep's own, the sentence that explains it, the best value, and where it turns."""

    verdict: str
    because: str
    best: int | None = None
    knee: int | None = None
