"""Which local ports are being listened on: /proc/net/tcp and tcp6, else what `netstat` prints on a Mac or Windows.

And which process listens: whatever its name, it is the server that answers there.
"""

import re
import sys
from typing import NamedTuple

from unslow.look.processes import Process, outermost, read_process, read_processes, started_by
from unslow.look.system import LookError, System
from unslow.look.system.door import read_text

_LISTENS = "0A"
_ANY_OR_LOOPBACK = re.compile(
    r"0{8}|0100007F|0{32}|0{24}01000000|0{16}FFFF00000100007F"  # any, 127.0.0.1, ::, ::1, ::ffff:127.0.0.1
)
_LOCAL_NAMES = ("127.0.0.1", "0.0.0.0", "*", "::", "::1", "[::]", "[::1]")  # noqa: S104 (read, not bound)
_NETSTAT = {"darwin": ("netstat", "-an", "-p", "tcp"), "win32": ("netstat", "-an")}
_ROW = re.compile(r"^\s*tcp\S*\s+(?:\d+\s+\d+\s+)?(\S{1,60})[.:](\d{1,5})\s+(\S{1,60})", re.IGNORECASE)
_NOBODY = ("*.*", "*:*", "0.0.0.0:0", "[::]:0")
"""The far end of a socket that only listens: the word for its state is in the language of the system."""
_TIMEOUT_S = 10.0
_MOST_FILES = 4096
"""Open files of a process that are looked through: the socket that a server listens on is among its first."""
_MAPS_BYTES = 4 * 1024**2
_COMPUTES = re.compile(
    r"/[^/\n]*(?:ggml|llama|gguf|safetensors|torch|mlx|vllm|sglang|exllama|cuda|amdhip|rocblas|vulkan)"
    r"[^/\n]*$",
    re.MULTILINE | re.IGNORECASE,
)
"""Names of mapped files by which a process computes a model: its program, its libraries or its weights."""


class Listener(NamedTuple):
    """A port that can be reached over loopback; `inode` is that of its socket, and empty where nobody tells."""

    port: int
    inode: str


def read_listeners(system: System) -> tuple[Listener, ...]:
    """Ports open to this machine itself; none where nobody may look."""
    found: dict[int, Listener] = {}
    read = False
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            text = read_text(system, path)
        except LookError:
            continue
        read = True
        found |= {listener.port: listener for listener in parse_listeners(text) if listener.port not in found}
    listed = found if read else {listener.port: listener for listener in _read_netstat(system)}
    return tuple(listed[port] for port in sorted(listed))


def _read_netstat(system: System) -> list[Listener]:
    """On systems that have no /proc; elsewhere none, for there it is hidden on purpose."""
    try:
        command = _NETSTAT.get(str(system.ask("sys.platform", lambda: sys.platform)))
        return parse_netstat(system.run(command, _TIMEOUT_S).stdout) if command else []
    except LookError:
        return []


def parse_netstat(text: str) -> list[Listener]:
    """The listening sockets that netstat prints, as macOS or as Windows writes them."""
    rows = (found for line in text.splitlines() if (found := _ROW.match(line)))
    return [Listener(int(row[2]), "") for row in rows if row[1] in _LOCAL_NAMES and row[3] in _NOBODY]


def parse_listeners(text: str) -> list[Listener]:
    """The listening sockets of a table; the kernel writes addresses as hexadecimal words."""
    result = []
    for line in text.splitlines()[1:]:
        columns = line.split()
        if len(columns) < 10 or columns[3] != _LISTENS:  # noqa: PLR2004 (the inode is the tenth column)
            continue
        address, _, port = columns[1].partition(":")
        if _ANY_OR_LOOPBACK.fullmatch(address) and re.fullmatch(r"[0-9A-F]{4}", port):
            result.append(Listener(int(port, 16), columns[9]))
    return result


def read_listening_process(system: System, port: int) -> Process | None:
    """The process that listens on a local port and computes a model, itself or in processes that it started.

    None where it can't be seen (another user's, a container's), and where it only passes requests on, as the proxies of
    Docker, of a web server or of ssh do.
    """
    try:
        # one answer is recorded, not the open files of every process of the machine
        pid = system.ask(f"process listening on port {port}", lambda: find_listening_pid(system.live(), port))
    except LookError:
        return None
    return read_process(system, pid) if isinstance(pid, int) and pid > 1 else None


def find_listening_pid(system: System, port: int) -> int | None:
    """The same by its number; LookError where processes can't be listed."""
    inode = next((listener.inode for listener in read_listeners(system) if listener.port == port), "")
    if not inode.strip("0"):
        return None
    processes = read_processes(system)
    holders = [process for process in processes if _holds_socket(process, inode)]
    for process in outermost(holders, processes):  # workers inherit the socket of the one that started them
        if any(_computes(member) for member in (process, *started_by(process, processes))):
            return process.pid
    return None


def _holds_socket(process: Process, inode: str) -> bool:
    try:
        descriptors = process.system.list_dir(f"/proc/{process.pid}/fd")[:_MOST_FILES]
    except LookError:  # of another user, or gone
        return False
    return any(process.link(f"fd/{name}").value_or("") == f"socket:[{inode}]" for name in descriptors)


def _computes(process: Process) -> bool:
    try:
        return bool(_COMPUTES.search(read_text(process.system, f"/proc/{process.pid}/maps", _MAPS_BYTES)))
    except LookError:
        return False
