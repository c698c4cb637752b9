"""The memory of the devices that a user names, of this machine's, or of both."""

from collections.abc import Sequence

from unslow.app.fit.device_lists import parse_device_list
from unslow.app.fit.named_rooms import named_room, unified_room
from unslow.catalog.device_names import devices_meant, parse_device_name
from unslow.facts.gpu_lists import computing
from unslow.facts.machine import Gpu, Machine, Memory
from unslow.facts.values import Known
from unslow.look.probes import read_machine
from unslow.look.system import System
from unslow.think.fit.rooms import Room, driver_reserve

_AUTO = "auto"
_NO_GPU = frozenset({"cpu", "none"})


def find_rooms(system: System, names: tuple[str, ...], ram_bytes: int | None) -> tuple[list[Room], Room | None]:
    """The devices' memory and the host's: None where it is not known, or where it is the devices' own.

    `auto` and `cpu` speak of this machine, whose memory is then the host's. What was assumed stands in the notes.
    """
    words = parse_device_list(names)
    special = {word.casefold() for word in words} & {_AUTO, *_NO_GPU}
    named = [named_room(word, ram_bytes) for word in words if word.casefold() not in special]
    own, host = here(read_machine(system)[0], ram_bytes) if special else ([], _given(ram_bytes))
    if _AUTO in special and not own:
        return _noted(named, host, host.note if host and host.note else "no GPU was found on this machine")
    rooms = [*own, *named] if _AUTO in special else named
    if not _are_the_hosts(rooms):
        return rooms, host
    asked_apart = bool(ram_bytes) and any(room.capacity_bytes != ram_bytes for room in rooms)
    return _noted(rooms, None, "--ram is not counted: this memory is the host's too") if asked_apart else (rooms, None)


def _given(ram_bytes: int | None) -> Room | None:
    return Room("host", ram_bytes) if ram_bytes else None


def _noted(rooms: list[Room], host: Room | None, note: str) -> tuple[list[Room], Room | None]:
    """The same with a note on the host, or on the first device where the host is not known."""
    if host is not None:
        return rooms, host._replace(note=note)
    first = [room._replace(note="; ".join(filter(None, (note, room.note)))) for room in rooms[:1]]
    return first + rooms[1:], None


def _are_the_hosts(rooms: list[Room]) -> bool:
    return bool(rooms) and all(room.unified for room in rooms)


def here(machine: Machine, ram_bytes: int | None = None) -> tuple[list[Room], Room | None]:
    """The memory of a machine: its GPUs', and what it can give of its RAM, which may be the same."""
    gpus = computing(machine.gpus.value_or(()))
    found = [(gpu, _room_of(gpu, machine.memory)) for gpu in gpus]
    rooms = [room for _, room in found if room]
    host = _given(ram_bytes) or _host(machine.memory)
    unread = [gpu.name.value_or(f"GPU {gpu.index}") for gpu, room in found if room is None]
    if unread:
        return _noted(rooms, host, f"the memory of {', '.join(unread)} could not be read")
    return rooms, host


def _host(memory: Memory) -> Room | None:
    """The RAM, within the limit that is set for this process."""
    if not isinstance(memory.total_bytes, Known):
        return None
    total = memory.total_bytes.value
    capacity = min(total, memory.limit_bytes.value_or(total))
    free = min(capacity, memory.available_bytes.value_or(total))
    return Room("host", capacity, others_bytes=capacity - free)


def _room_of(gpu: Gpu, memory: Memory) -> Room | None:
    """A GPU's own memory, or the machine's where it has none of its own."""
    name = gpu.name.value_or("GPU").removeprefix("NVIDIA ").removeprefix("GeForce ")
    if not isinstance(gpu.vram_total_bytes, Known):
        return _shared(name, memory)
    total = gpu.vram_total_bytes.value
    driver = gpu.vram_reserved_bytes.value_or(driver_reserve(total))
    free = gpu.vram_free_bytes.value_or(total - driver)
    return Room(name, total, max(0, total - driver - free), driver)


def _shared(name: str, memory: Memory) -> Room | None:
    """Drivers report no memory for a GPU that uses the host's; the catalogue knows which ones do."""
    device = next((d for d in devices_meant(parse_device_name(name).words) if d.unified), None)
    host = _host(memory)
    if device is None or host is None:
        return None
    return unified_room(name, device, host.capacity_bytes)._replace(others_bytes=host.others_bytes)


def room_notes(rooms: Sequence[Room], host: Room | None) -> tuple[str, ...]:
    """What was assumed about the memories, each thing once."""
    notes = (room.note for room in (*rooms, *((host,) if host else ())))
    return tuple(dict.fromkeys(note for note in notes if note))
