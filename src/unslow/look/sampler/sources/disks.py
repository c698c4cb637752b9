"""What is read from disks: /proc/diskstats, whole disks only, for a partition's reads are also its disk's."""

from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack

from unslow.look.sampler.reading import SELDOM_S, Rate, Reading
from unslow.look.system import Live, LookError

DISKSTATS, BLOCKS = "/proc/diskstats", "/sys/block"
SECTOR_BYTES = 512  # of this file, whatever the disk has: iostats.rst
_LIMIT_BYTES = 65536
_NOT_DISKS = ("loop", "ram", "zram", "dm-", "md", "sr", "fd")
"""No disks, or made of others whose reads are counted already."""
_NAME, _SECTORS_READ = 2, 5


class Disks:
    """All disks together."""

    def __init__(self, file: Callable[[], bytes], names: frozenset[bytes]) -> None:
        self._file, self._names, self._rate = file, names, Rate()

    def read(self, now: float) -> Sequence[float]:
        """Bytes read a second."""
        return (self._rate(parse_sectors_read(self._file(), self._names) * SECTOR_BYTES, now),)


def open_readings(live: Live, _pids: Collection[int], closing: ExitStack) -> list[Reading]:
    """One reading of all disks that are there now; LookError where there is none."""
    names = frozenset(name.encode() for name in live.list_dir(BLOCKS) if not name.startswith(_NOT_DISKS))
    if not names:
        raise LookError(f"{BLOCKS} lists no disk")
    file = live.follow(DISKSTATS, _LIMIT_BYTES)
    closing.callback(file.close)
    parse_sectors_read(file(), names)
    return [Reading("disks", ("disk_read_bytes_per_s",), Disks(file, names).read, every_s=SELDOM_S)]


def parse_sectors_read(text: bytes, names: frozenset[bytes]) -> int:
    """Sectors read from these disks since the start; LookError where none of them is listed."""
    rows = [row for line in text.split(b"\n") if len(row := line.split(None, _SECTORS_READ + 1)) > _SECTORS_READ]
    try:
        read = [int(row[_SECTORS_READ]) for row in rows if row[_NAME] in names]
    except ValueError as error:
        raise LookError(f"{DISKSTATS} is not as expected") from error
    if not read:
        raise LookError(f"{DISKSTATS} lists no disk")
    return sum(read)
