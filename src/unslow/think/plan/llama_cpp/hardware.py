"""The machine that a plan is for: memory, chips, and the way between host and GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from unslow.think.fit.rooms import Room
from unslow.think.physics.chip import Chip, Setting
from unslow.think.speed.chips import CORE_FLOPS_PER_S, host_chip
from unslow.think.speed.question import MAPPED_BYTES_PER_S, USUAL_LINK

if TYPE_CHECKING:
    from unslow.think.physics.numbers import Number

_RATES = ("bytes_per_s", "flops_per_s", "matrix_flops_per_s")


_PINS = ("cuda", "rocm", "vulkan")
"""Backends that give llama.cpp memory of the host from which GPUs copy directly, where a file is not mapped."""
_SPARE_RAM = 0.85
"""Of the host's memory, what a model that is not mapped may take: it can't be dropped like a file that is."""


def may_pin(backend: str, host: Room | None, weights_bytes: float) -> bool:
    """Whether the host has room for all weights in such memory."""
    return backend in _PINS and host is not None and 0 < weights_bytes <= _SPARE_RAM * host.usable_bytes


class Processors(NamedTuple):
    """The host's cores and its memory."""

    cores: int
    """Physical ones that may be used."""
    bytes_per_s: float
    """What all cores together read."""
    one_core_bytes_per_s: float = 0.0
    """What one core reads; 0 where nobody measured it: then any number of them reads as much as all."""
    core_flops_per_s: float = CORE_FLOPS_PER_S
    logical: int = 0
    """With their siblings, which share a core's units; 0 where nobody counted."""

    def chip(self, threads: int) -> Chip:
        """So many threads of it: siblings add nothing to arithmetic, and each core reads no more than it can."""
        cores = max(1, min(threads, self.cores))
        each = self.one_core_bytes_per_s or self.bytes_per_s
        return host_chip(min(self.bytes_per_s, cores * each), float(cores), self.core_flops_per_s)


class Hardware(NamedTuple):
    """GPUs, none of them possibly, and the host beside them."""

    rooms: tuple[Room, ...]
    chips: tuple[Chip, ...]
    """One for each room."""
    setting: Setting
    """Of the GPUs as what was learned is looked up; of the host where there are none."""
    processors: Processors
    host_setting: Setting
    host_room: Room | None = None
    """None where nothing tells how much memory the host has."""
    link_bytes_per_s: float = USUAL_LINK
    pinned: bool = False
    """Whether weights with the host lie in memory that a GPU copies from directly, not in a mapped file."""
    year: float = 2026.8
    """Of the build: the newest that were measured."""
    peers: bool = True
    """Whether the GPUs read each other's memory directly."""

    @property
    def lending_bytes_per_s(self) -> float:
        """At which weights with the host reach a GPU that computes a prompt."""
        return self.link_bytes_per_s if self.pinned else min(self.link_bytes_per_s, MAPPED_BYTES_PER_S)

    @property
    def free_bytes(self) -> tuple[int, ...]:
        """What each GPU has for buffers, after the runtime's own context."""
        return tuple(max(0, room.usable_bytes - room.context_bytes) for room in self.rooms)

    @property
    def speeds(self) -> tuple[float, ...]:
        """What each GPU reads in a second; empty where all are alike."""
        every = tuple(float(chip.bytes_per_s) for chip in self.chips)
        return every if len(set(every)) > 1 else ()

    @property
    def is_plain(self) -> bool:
        """Whether there is one GPU at most, and it reads faster than the host: then the search is a proof.

        Beside a slow GPU more with the host may be faster, and layers are divided among several by rule.
        """
        quick = all(float(chip.bytes_per_s) >= self.processors.bytes_per_s for chip in self.chips)
        return quick and len(self.chips) <= 1

    def crew(self, splits: Sequence[tuple[int, ...]]) -> tuple[Chip, Number]:
        """One chip for GPUs that take turns, and how many they are; arrays where there is more than one split."""
        if len(self.chips) == 1:
            return self.chips[0], 1.0
        counts = [float(sum(1 for layers in split if layers)) for split in splits]
        chips = [self._chip(split) for split in splits]
        if len(splits) == 1:
            return chips[0], counts[0]
        from unslow.think.speed.stacked import everyone, stacked  # noqa: PLC0415 (numpy takes long to load)

        index = everyone(len(splits))
        return stacked(chips, index), stacked(counts, index)

    def _chip(self, shares: Sequence[float]) -> Chip:
        """GPUs that take turns, each with its share of the layers: their times add up."""
        whole = sum(shares)
        parts = [(share / whole, chip) for share, chip in zip(shares, self.chips, strict=True) if share]
        rates = {name: 1 / sum(part / float(getattr(chip, name)) for part, chip in parts) for name in _RATES}
        return self.chips[0]._replace(**rates)
