"""Which local ports are being listened on, and by which process: /proc/net/tcp and tcp6."""

import re
from typing import NamedTuple

from unslow.look.system import LookError, System
from unslow.look.system.door import read_text

_LISTENS = "0A"
_ANY_OR_LOOPBACK = re.compile(
    r"0{8}|0100007F|0{32}|0{24}01000000|0{16}FFFF00000100007F"  # any, 127.0.0.1, ::, ::1, ::ffff:127.0.0.1
)


class Listener(NamedTuple):
    """A port that can be reached over loopback; `inode` is that of its socket."""

    port: int
    inode: str


def read_listeners(system: System) -> tuple[Listener, ...]:
    """Ports open to this machine itself; none where nobody may look."""
    found: dict[int, Listener] = {}
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            text = read_text(system, path)
        except LookError:
            continue
        found |= {listener.port: listener for listener in parse_listeners(text) if listener.port not in found}
    return tuple(found[port] for port in sorted(found))


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
