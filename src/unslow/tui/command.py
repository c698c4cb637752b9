"""Which way to show it: a screen where there is a terminal, lines in words or in JSON where there is none."""

import os
import sys
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from unslow.app.watching.eyes import Eyes, ticks
from unslow.app.watching.request import Request
from unslow.app.watching.watching import Watching
from unslow.look.system.live import LiveSystem
from unslow.show._clean import safe_json
from unslow.tui.glyphs import ASCII, BLOCKS, Glyphs, is_unicode

FOUND, CANNOT_TELL = 0, 3
_WIDE = 100


class Looks(NamedTuple):
    """How it is to be shown."""

    json: bool = False
    plain: bool = False
    color: bool = True
    ascii: bool = False

    @property
    def glyphs(self) -> Glyphs:
        """Blocks where they can be written, and where nobody asked for plain letters."""
        encodings = [getattr(stream, "encoding", None) for stream in (sys.stdout, sys.stderr)]
        return ASCII if self.ascii or _is_plain() or not all(map(is_unicode, encodings)) else BLOCKS


def _is_plain() -> bool:
    """Whether the language is set to one without letters beyond ASCII: Python itself writes UTF-8 even there."""
    told = (os.environ.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG"))
    return next((language for language in told if language), "") in ("C", "POSIX")


def is_terminal() -> bool:
    """Whether a screen can be drawn: keys come in, and what is drawn is seen."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    seen = all(stream is not None and stream.isatty() for stream in streams)
    return seen and os.environ.get("TERM", "dumb") not in ("dumb", "")


def watch(request: Request, looks: Looks, write: Callable[[str], None]) -> int:
    """Show what runs until somebody quits; the exit status."""
    system = LiveSystem([request.host] if request.host else [])
    with request.discretion.errors():
        watching = Watching(system, request)
        watching.start()
        if looks.json or looks.plain or request.once or not is_terminal():
            return _written(watching, request, looks, write, system)
        return _drawn(watching, request, looks, system)


def _written(
    watching: Watching, request: Request, looks: Looks, write: Callable[[str], None], system: LiveSystem
) -> int:
    from unslow.tui.plain import PlainLines, whole  # noqa: PLC0415 (JSON needs none of it)

    plain = PlainLines(looks.glyphs)
    try:
        for tick in ticks(watching, request, system):
            if looks.json:
                write(safe_json(msgspec.json.encode(tick).decode()))
            elif request.once:
                write(whole(tick, (), _WIDE, looks.glyphs))
            else:
                write("\n".join(plain.lines(tick)))
    except KeyboardInterrupt:  # the way to end it
        pass
    return FOUND if watching.is_found else CANNOT_TELL


def _drawn(watching: Watching, request: Request, looks: Looks, system: LiveSystem) -> int:
    from unslow.tui.screen import LiveScreen  # noqa: PLC0415 (only where a screen is drawn)

    for fixed in ("COLUMNS", "LINES"):  # where they are exported, a change of size would go unseen
        os.environ.pop(fixed, None)
    eyes = Eyes(watching, request.interval_s, system)
    screen = LiveScreen(
        watching, looks.glyphs, interval_s=request.interval_s, seconds=request.seconds, color=looks.color,
        failed=lambda: eyes.failure,
    )  # fmt: skip
    eyes.start()
    try:
        screen.run(mouse=False)
    finally:
        eyes.stop()
    if screen.error is not None:
        raise screen.error
    return FOUND if watching.is_found else CANNOT_TELL
