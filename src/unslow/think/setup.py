"""A model on hardware with settings, as llama.cpp lays it out: what it asks of every memory, and what stays free.

`fit` answers for one setup, `predict` prices one, a plan searches among many, and the sliders of the page change one.
"""

from collections.abc import Sequence
from typing import NamedTuple, Self

from unslow.facts.model import Blueprint
from unslow.facts.values import GIB, MIB
from unslow.think.hardware import Hardware, Room
from unslow.think.memo import remember_once
from unslow.think.memory.llama_cpp.cache import layer_caches
from unslow.think.memory.llama_cpp.hyperparameters import Hyper, Settings, hyper_of
from unslow.think.memory.llama_cpp.need import Memory, Need, memory_of, needs_without_compute

DEFAULT_MARGIN_BYTES = GIB  # what llama.cpp's own fit leaves free on each device
LOADED = 0.97  # of a file, what is loaded at least: layers that guess further tokens may be left out
_PAIR = 2  # of more GPUs a share is no number that halves exactly
_SMALL_WORKSPACE, _LARGE_WORKSPACE = 84 * MIB, 202 * MIB
"""What CUDA allocates at the first prompt: for plain attention in one kernel, and for everything else (on an H200)."""
SAME_MEMORY = "host, same memory"  # the name of the host's memory where a GPU shares it


class Setup(NamedTuple):
    """A model, the hardware that it is to run on, and its settings."""

    blueprint: Blueprint
    hardware: Hardware
    settings: Settings
    margin_bytes: int = DEFAULT_MARGIN_BYTES

    @property
    def shares(self) -> tuple[float, ...]:
        """What GPUs divide a model by; one gets all and two alike get halves, however large: asked for once, then."""
        free = tuple(map(float, self.hardware.free_bytes))
        return (1.0,) * len(free) if len(free) <= _PAIR and min(free, default=0) > 0 and len(set(free)) == 1 else free

    @property
    def workspace_bytes(self) -> int:
        """What the first prompt takes beside all buffers."""
        hyper = hyper_of(self.blueprint)
        plain = not hyper.experts and not hyper.is_latent and not any(hyper.recurrent)
        return _SMALL_WORKSPACE if plain and self.settings.flash_attention is not False else _LARGE_WORKSPACE

    @property
    def weights_and_cache_bytes(self) -> float:
        """What it asks of all memories together at least, wherever it lies."""
        weights = self.blueprint.weights_bytes
        return LOADED * weights + sum(cache.bytes for cache in layer_caches(Hyper(self.blueprint), self.settings))

    @property
    def may_fit(self) -> bool:
        """Whether all memories together are as large as weights and cache, which no placement makes smaller."""
        hardware = self.hardware
        if hardware.host_room is None and not any(room.unified for room in hardware.rooms):
            return True
        shared = sum(room.capacity_bytes - room.others_bytes for room in hardware.rooms if room.unified)
        return bool(self.weights_and_cache_bytes <= max(hardware.usable_bytes, shared))

    def on_gpus_alone(self) -> Self:
        """The same beside a host that has room for anything."""
        return self._replace(hardware=self.hardware._replace(host_room=None))

    def memory(self, settings: Settings | None = None) -> Memory:
        """What it asks of each device and, at the end, of the host."""
        asked, shares = settings or self.settings, self.shares
        return remember_once(self.blueprint, (asked, shares), lambda: memory_of(self.blueprint, asked, shares))

    def left(self, settings: Settings | None = None) -> float:
        """What stays free beyond the margin, where it is tightest; negative where something is lacking."""
        return self._left_by(self.memory(settings).needs)

    def left_or_lacking(self, settings: Settings) -> float:
        """The same, but where weights and cache alone lack room, only what they lack: no graph is laid out for that."""
        left = self.left_without_compute(settings)
        return left if left < 0 else self.left(settings)

    def left_without_compute(self, settings: Settings) -> float:
        """What weights and cache alone leave, which is more than there will be."""
        return self._left_by(needs_without_compute(self.blueprint, settings, self.shares))

    def _left_by(self, needs: Sequence[Need]) -> float:
        *devices, host = needs
        pairs = zip(devices, self.hardware.rooms, strict=True)
        margin = max(self.margin_bytes, self.workspace_bytes)  # or what the first prompt takes, where that is more
        spare = [room.free_bytes - need.total - margin for need, room in pairs if need.total]
        room = self.host_room(devices)
        if room is not None:
            spare.append(room.usable_bytes - host.total)
        return min(spare, default=0)

    def host_room(self, devices: Sequence[Need]) -> Room | None:
        """The host's memory: where a GPU shares it, what the GPU's buffers leave."""
        rooms, host = self.hardware.rooms, self.hardware.host_room
        shared = [(room, need) for room, need in zip(rooms, devices, strict=True) if room.unified]
        if host is not None or not shared:
            return host
        room, need = shared[0]
        return Room(SAME_MEMORY, room.capacity_bytes, others_bytes=room.others_bytes + need.total)

    def settle_attention(self) -> Self:
        """The same setup with flash attention decided, which is then asked for many lengths and placements."""
        if self.settings.flash_attention is None and (memory := self.memory()).kernels.flash_attention:
            settings = self.settings._replace(flash_attention=True)
            remember_once(self.blueprint, (settings, self.shares), lambda: memory)  # what was open is the same
            return self._replace(settings=settings)
        return self  # where it was left open and can't be used, the cache is still laid out for it
