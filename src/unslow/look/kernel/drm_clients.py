"""What each process holds of a GPU: the lines `drm-*` of /proc/PID/fdinfo."""

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from unslow.facts.machine import GpuProcess
from unslow.facts.units import GIB, KIB, MIB
from unslow.facts.values import not_found, reported
from unslow.look.system import LookError, System

SOURCE = "/proc/*/fdinfo"
QUESTION = "drm clients"
_MOST_PIDS = 65536
_MOST_FDS = 4096
_MOST_CLIENTS = 4096
_LONGEST = 8192
_PAIR = re.compile(r"^(drm-[a-z0-9-]{2,40}):\s*([^\n]{1,100})$", re.MULTILINE)
_SIZE = re.compile(r"(\d{1,15})(?: ([KMG]iB))?$")
_UNITS = {None: 1, "KiB": KIB, "MiB": MIB, "GiB": GIB}
# Resident is what lies there now; older kernels have only the second form. Intel calls a discrete card's memory
# vram0 (xe) or local0 (i915), AMD calls it vram.
_VRAM = ("drm-resident-vram", "drm-memory-vram", "drm-resident-vram0", "drm-resident-local0", "drm-total-local0")
_GTT = ("drm-resident-gtt", "drm-memory-gtt")
_SYSTEM = ("drm-resident-system0", "drm-resident-system")


class Client(NamedTuple):
    """One open file of a GPU, and what it holds."""

    pid: int
    name: str
    bus_id: str
    number: str
    vram_bytes: int
    gtt_bytes: int
    system_bytes: int


def read_clients(system: System) -> list[Client]:
    """Every client that this user may see; LookError where there is no /proc."""
    answer = system.ask(QUESTION, ask_clients)
    return [client for entry in answer if (client := _client(entry))] if isinstance(answer, list) else []


def ask_clients(proc: str = "/proc") -> list[dict[str, Any]]:
    """The fdinfo of every open file below /dev/dri, with its process: thousands of links read, a few files kept."""
    try:
        pids = sorted(int(name) for name in os.listdir(proc) if name.isdecimal())[:_MOST_PIDS]
    except OSError as error:
        raise LookError(f"{proc}: {error.strerror or error}") from error
    found: list[dict[str, Any]] = []
    for pid in pids:
        with suppress(OSError):  # it ended, or it belongs to somebody else
            found += _ask_process(Path(proc, str(pid)))
    return found[:_MOST_CLIENTS]


def _ask_process(folder: Path) -> list[dict[str, Any]]:
    name, found = "", []
    for number in os.listdir(folder / "fd")[:_MOST_FDS]:
        with suppress(OSError):
            if str((folder / "fd" / number).readlink()).startswith("/dev/dri/"):
                name = name or (folder / "comm").read_text(errors="replace").strip()
                with open(folder / "fdinfo" / number, "rb") as file:
                    text = file.read(_LONGEST).decode("utf-8", "replace")
                found.append({"pid": int(folder.name), "name": name, "fdinfo": text})
    return found


def _client(entry: Any) -> Client | None:
    """What a recording or the kernel says, or None where it is no client of a PCI device."""
    match entry:
        case {"pid": int(pid), "name": str(name), "fdinfo": str(text)} if pid > 0:
            values = parse_fdinfo(text)
            bus_id = values.get("drm-pdev", "")
            sizes = (_bytes(values, keys) for keys in (_VRAM, _GTT, _SYSTEM))
            return Client(pid, name, bus_id, values.get("drm-client-id", ""), *sizes) if bus_id else None
        case _:
            return None


def parse_fdinfo(text: str) -> dict[str, str]:
    """The pairs that begin with `drm-`."""
    return {match[1]: match[2].strip() for match in _PAIR.finditer(text[:_LONGEST])}


def _bytes(values: dict[str, str], keys: tuple[str, ...]) -> int:
    """The first of these that is there."""
    match = next((m for key in keys if key in values and (m := _SIZE.match(values[key]))), None)
    return int(match[1]) * _UNITS[match[2]] if match else 0


def processes_of(clients: Iterable[Client], bus_id: str) -> list[GpuProcess]:
    """The processes on one GPU, the largest first; a client that several files share counts once."""
    once = {(client.pid, client.number): client for client in clients if client.bus_id == bus_id}
    held: dict[int, list[Client]] = {}
    for client in once.values():
        held.setdefault(client.pid, []).append(client)
    found = [_process(pid, of) for pid, of in held.items()]
    return sorted(found, key=lambda process: (-process.vram_bytes.value_or(0), process.pid))


def _process(pid: int, clients: list[Client]) -> GpuProcess:
    source = f"/proc/{pid}/fdinfo"
    return GpuProcess(
        pid=pid,
        name=reported(clients[0].name, f"/proc/{pid}/comm") if clients[0].name else not_found("it has no name"),
        vram_bytes=reported(sum(client.vram_bytes for client in clients), source),
        gtt_bytes=reported(sum(client.gtt_bytes for client in clients), source),
        shared_bytes=reported(sum(client.system_bytes for client in clients), source),
    )
