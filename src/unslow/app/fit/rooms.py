"""The memory of the devices that a user names, or of this machine's."""

import re

from unslow.app.fit.request import parsed_size
from unslow.catalog.devices import all_devices, find_device, words_of
from unslow.facts.errors import UserError
from unslow.facts.machine import Gpu, Machine
from unslow.facts.values import Known
from unslow.look.probes import read_machine
from unslow.look.system import System
from unslow.think.fit.rooms import Room, driver_reserve

_SIZE_ALONE = re.compile(r"\d+(\.\d+)?\s*[gm]i?b?", re.IGNORECASE)
_COUNT = re.compile(r"(\d{1,2})\s*[x×]\s*(.+)", re.IGNORECASE)
_NAMES_SHOWN = 6


def find_rooms(system: System, names: tuple[str, ...], ram_bytes: int | None) -> tuple[list[Room], Room | None]:
    """The devices' memory and the host's; the host's is unknown where the devices are not this machine's."""
    if names == ("auto",):
        machine, _ = read_machine(system)
        return here(machine, ram_bytes)
    rooms = [room for name in names for room in _named(system, name)]
    return rooms, Room("host", ram_bytes) if ram_bytes else None


def here(machine: Machine, ram_bytes: int | None = None) -> tuple[list[Room], Room | None]:
    """The memory of a machine: its GPUs', and what it can give of its RAM."""
    rooms = [room for gpu in machine.gpus.value_or(()) if (room := _room_of(gpu))]
    total, available = machine.memory.total_bytes, machine.memory.available_bytes
    if ram_bytes or not isinstance(total, Known):
        return rooms, Room("host", ram_bytes) if ram_bytes else None
    used = total.value - available.value_or(total.value)
    return rooms, Room("host", total.value, others_bytes=max(0, used))


def _room_of(gpu: Gpu) -> Room | None:
    if not isinstance(gpu.vram_total_bytes, Known):
        return None
    total = gpu.vram_total_bytes.value
    driver = gpu.vram_reserved_bytes.value_or(driver_reserve(total))
    free = gpu.vram_free_bytes.value_or(total - driver)
    name = gpu.name.value_or("GPU").removeprefix("NVIDIA ").removeprefix("GeForce ")
    return Room(name, total, max(0, total - driver - free), driver)


def _named(system: System, name: str) -> list[Room]:
    """A device of the catalogue, `2x RTX 4090`, a size such as `24GB`, `cpu`, or this machine's."""
    if name.casefold() in ("cpu", "none"):
        return []
    if name == "auto":
        return find_rooms(system, ("auto",), None)[0]
    several = _COUNT.fullmatch(name.strip())
    count, word = (int(several[1]), several[2]) if several else (1, name)
    return [_one(word.strip())] * count


def _one(name: str) -> Room:
    if _SIZE_ALONE.fullmatch(name):
        size = parsed_size(name)
        return Room(name, size, reserve_bytes=driver_reserve(size))
    device = find_device(name)
    if device is None or not device.memory_bytes:
        raise UserError(f"the catalogue has no device {name!r}", _near(name))
    return Room(device.name, device.memory_bytes, reserve_bytes=driver_reserve(device.memory_bytes))


def _near(name: str) -> str:
    wanted = words_of(name)
    scored = sorted(((len(words_of(d.name) & wanted), d.name) for d in all_devices()), reverse=True)
    names = [n for score, n in scored if score][:_NAMES_SHOWN]
    return f"did you mean {', '.join(names)}? A size such as 24GB works too" if names else "give its memory: 24GB"
