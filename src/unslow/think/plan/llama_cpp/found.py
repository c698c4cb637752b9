"""What a search finds, and how much it looked at for that."""

from typing import NamedTuple

from unslow.think.memory.llama_cpp.need import Memory
from unslow.think.memory.llama_cpp.settings import Settings
from unslow.think.plan.llama_cpp.placing import Placing
from unslow.think.plan.llama_cpp.price import Price


class Found(NamedTuple):
    """Settings with their price, whose memory was laid out and fits."""

    settings: Settings
    placing: Placing
    split: tuple[int, ...]
    threads: int
    price: Price
    memory: Memory
    needs_no_fit: bool = False
    """Whether everything is on GPUs and leaves them so much that llama.cpp places it so by itself."""


class Counted:
    """How much a search looked at."""

    def __init__(self) -> None:
        self.combinations = self.priced = self.laid_out = 0
        self.unproved = 0
        """Ways of which not everything was tried that might have been quicker."""
