"""Ctrl-C and a polite kill: the first ends the measuring and not the answer, the second ends all."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from unslow.look.system.closing import ClosingSystem

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stoppable(door: ClosingSystem) -> Iterator[None]:
    """Signals close the door while this lasts; those that somebody ignores stay ignored."""
    if threading.current_thread() is not threading.main_thread():  # where no handler can be set
        yield
        return

    def stop(_number: int, _frame: FrameType | None) -> None:
        door.stop()

    before = {number: signal.getsignal(number) for number in SIGNALS}
    heard = [number for number, handler in before.items() if handler not in (signal.SIG_IGN, None)]
    for number in heard:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in heard:
            signal.signal(number, before[number])
