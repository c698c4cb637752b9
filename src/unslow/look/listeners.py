"""Which local ports are being listened on: /proc/net/tcp and tcp6, else what `netstat` prints on a Mac or Windows."""

import re
import sys
from typing import NamedTuple

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
