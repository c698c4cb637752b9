"""What settings ask of every memory, to the byte, and what each lacks for that."""

from typing import NamedTuple

from unslow.think.hardware import Hardware
from unslow.think.memory.llama_cpp.need import Memory
from unslow.think.memory.llama_cpp.settings import Settings
from unslow.think.plan.llama_cpp.pieces import Pieces
from unslow.think.setup import Setup

_MEASURED_UP_TO = 2048
"""What the first prompt takes beside all buffers is known up to this micro-batch, and in the margin (search.py)."""
_ROUNDED_BYTES = 1.125
"""Of each number of a prompt, as CUDA rounds it before it meets a quantised matrix (32 of them and two sums in 36)."""


class Layouts(NamedTuple):
    """Of one model on one machine."""

    pieces: Pieces
    hardware: Hardware
    margin_bytes: int
    fuses: bool | None = None
    """Whether its build keeps what fused kernels read; None where the build is not known."""

    def of(self, settings: Settings) -> tuple[Memory, tuple[int, ...]]:
        """The memory, and what each GPU and at the end the host lacks."""
        setup = Setup(self.pieces.blueprint, self.hardware, settings, self.margin_bytes)
        memory = self._memory(setup)
        *devices, host = memory.needs
        margin = self.margin_bytes + self._beyond_measured(settings)
        pairs = zip(devices, self.hardware.free_bytes, strict=True)
        lacking = [need.total - (free - margin) if need.total else 0 for need, free in pairs]
        room = setup.host_room(devices)
        lacking.append(host.total - room.usable_bytes if room else 0)
        return memory, tuple(lacking)

    def _beyond_measured(self, settings: Settings) -> int:
        """What the rounded prompt takes more than with the largest micro-batch that was measured."""
        more = max(0, settings.used_micro_batch - _MEASURED_UP_TO)
        return int(more * self.pieces.widest * _ROUNDED_BYTES)

    def _memory(self, setup: Setup) -> Memory:
        """As the build lays it out; where that is not known, the larger of both: only experts make a difference."""
        known = self.fuses
        ways = (known,) if known is not None else (True, False) if self.pieces.is_sparse else (True,)
        first, *others = (setup.memory(setup.settings._replace(fuses=fuses)) for fuses in ways)
        for other in others:
            pairs = zip(first.needs, other.needs, strict=True)
            first = first._replace(needs=[mine if mine.total >= its.total else its for mine, its in pairs])
        return first
