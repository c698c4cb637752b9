"""Which way to show it: a screen where there is a terminal, lines in words or in JSON where there is none."""

import os
import sys
from contextlib import suppress

import msgspec

from unslow.commands._output import color, write
from unslow.commands.diagnose.discretion import Discretion
from unslow.commands.watch import WatchRequest
from unslow.live import panels
from unslow.live.rows import ASCII, BLOCKS, Glyphs
from unslow.live.tick import Tick
from unslow.live.watcher import Watcher, WatchThread, checked_request, ticks, watched_host
from unslow.look.system.live import LiveSystem
from unslow.show.console import safe_json, safe_text

FOUND, CANNOT_TELL = 0, 3
_MOST_COLUMNS = 500
_WIDTH = 100  # Of one moment as text


class PlainLines:
    """Says what is new: names, expectations and suspicions once, numbers at every tick."""

    def __init__(self, glyphs: Glyphs = ASCII) -> None:
        self._glyphs = glyphs
        self._said: dict[str, str] = {}

    def lines(self, tick: Tick) -> list[str]:
        if not tick.servers:
            return self._new("server", panels.NO_SERVER)
        state = tick.server.because or {"loading": "the model is still loading"}.get(tick.server.state, "no response")
        if tick.server.state in ("answers", "gone"):  # of one that is gone a note tells
            state = "it responds again" if "state" in self._said and tick.server.state == "answers" else ""
        named = f"{tick.server.model}, {tick.server.runtime}, {tick.server.url}. {panels.ONLY_LOOKS}"
        lines = self._new("server", f"watching {named}") + self._new("state", state)
        lines += self._new("expected", panels.expected_words(tick.speed))
        if missing := tick.speed.missing:
            lines += self._new("missing", f"no speed: {missing.why}. To get it: {missing.how_to_get}.")
        if found := tick.suspicion:
            because = f". {found.because}" if found.because else ""
            lines += self._new("suspicion", f"cause: {panels.suspicion_words(found)}{because}")
        for number, note in enumerate(tick.notes):
            lines += self._new(f"note {number}", note)
        return [*lines, safe_text(self._numbers(tick))[:_MOST_COLUMNS]]

    def _new(self, about: str, words: str) -> list[str]:
        if self._said.get(about, "") == words:
            return []
        self._said[about] = words
        return [safe_text(words).replace("\n", " ")[:_MOST_COLUMNS]] if words else []

    def _numbers(self, tick: Tick) -> str:
        if tick.server.state == "gone":
            return f"{tick.at[11:19]} gone"
        pieces = [panels.PHASE_WORDS.get(tick.phases.now, tick.phases.now), panels.speed_words(tick)]
        if tick.requests.running is not None:
            pieces.append(f"{tick.requests.running:.0f} running")
        if tick.requests.waiting:
            pieces.append(f"{tick.requests.waiting:.0f} waiting")
        if tick.wall and tick.wall.parts and tick.phases.now in ("decode", "prefill"):
            pieces.append(f"time: {tick.wall.parts[0].part} {tick.wall.parts[0].share:.0%}")
        pieces += [panels.device_words(device, self._glyphs) for device in tick.devices]
        pieces.append(panels.cpu_words(tick.host))
        return f"{tick.at[11:19]} " + ", ".join(piece for piece in pieces if piece)


def watch(asked: WatchRequest) -> int:
    """Show what runs until somebody quits; the exit status."""
    request, glyphs = checked_request(asked), glyphs_for(ascii_only=asked.ascii)
    host = watched_host(request)
    system = LiveSystem([host] if host else [])
    with Discretion.about(request.api_key, request.target).errors():
        watching = Watcher(system, request)
        watching.start()
        if request.json or request.plain or request.once or not is_terminal():
            _write_ticks(watching, request, glyphs, system)
        else:
            _draw(watching, request, glyphs, system)
        return FOUND if watching.is_found else CANNOT_TELL


def is_terminal() -> bool:
    """Whether a screen can be drawn: keys come in, and what is drawn is seen."""
    seen = all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))
    return seen and os.environ.get("TERM", "dumb") not in ("dumb", "")


def glyphs_for(*, ascii_only: bool) -> Glyphs:
    """Blocks where they can be written, and where nobody asked for plain letters."""
    # A language without letters beyond ASCII: Python itself writes UTF-8 even there
    told = (os.environ.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG"))
    is_plain = next((language for language in told if language), "") in ("C", "POSIX")
    try:
        for stream in (sys.stdout, sys.stderr):
            BLOCKS.levels.encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return ASCII if ascii_only or is_plain else BLOCKS


def _write_ticks(watching: Watcher, request: WatchRequest, glyphs: Glyphs, system: LiveSystem) -> None:
    plain = PlainLines(glyphs)
    with suppress(KeyboardInterrupt):  # the way to end it
        for tick in ticks(watching, request, system):
            if request.json:
                write(safe_json(msgspec.json.encode(tick).decode()))
            elif request.once:
                write(moment_text(tick, glyphs))
            else:
                write("\n".join(plain.lines(tick)))


def _draw(watching: Watcher, request: WatchRequest, glyphs: Glyphs, system: LiveSystem) -> None:
    from unslow.live.screen import LiveScreen  # noqa: PLC0415 (only where a screen is drawn)

    for fixed in ("COLUMNS", "LINES"):  # where they are exported, a change of size would go unseen
        os.environ.pop(fixed, None)
    eyes = WatchThread(watching, request.interval, system)
    screen = LiveScreen(
        watching, glyphs, interval_s=request.interval, seconds=request.seconds,
        color=color() and not request.no_color, failed=lambda: eyes.failure,
    )  # fmt: skip
    eyes.start()
    try:
        screen.run(mouse=False)
    finally:
        eyes.stop()
    if screen.error is not None:
        raise screen.error


def moment_text(tick: Tick, glyphs: Glyphs) -> str:
    """Everything that is known of one moment, each panel with its label."""
    lines, before = [], ""
    for row in panels.panel_rows(tick, (), _WIDTH, glyphs):
        label = row.panel if row.panel != before else ""
        before = row.panel
        lines.append(f"{label:<11}{row.text.plain}".rstrip())
    title = f"{tick.server.model} {tick.server.runtime} {tick.server.url}".strip()
    return safe_text("\n".join([*([title] if title else []), *lines, panels.ONLY_LOOKS]))
