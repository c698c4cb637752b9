"""What memory is left: /proc/meminfo, whose third line says so."""

from collections.abc import Collection
from contextlib import ExitStack

from unslow.look.sampler.reading import SELDOM_S, Reading
from unslow.look.system import Live, LookError

MEMINFO = "/proc/meminfo"
_HEAD_BYTES = 512
_LABEL = b"MemAvailable:"


def open_readings(live: Live, _pids: Collection[int], closing: ExitStack) -> list[Reading]:
    """The memory that programs can still have, without swapping."""
    file = live.follow(MEMINFO, _HEAD_BYTES)
    closing.callback(file.close)
    parse_available_bytes(file())
    return [
        Reading("memory", ("memory_available_bytes",), lambda _now: (parse_available_bytes(file()),), every_s=SELDOM_S)
    ]


def parse_available_bytes(text: bytes) -> int:
    """The line `MemAvailable:  1234 kB`; LookError where there is none."""
    at = text.find(_LABEL)
    try:
        return int(text[at + len(_LABEL) : text.index(b"kB", at)]) * 1024
    except ValueError as error:
        raise LookError(f"{MEMINFO} does not tell what is available") from error
