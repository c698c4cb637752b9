"""The live screen as a Textual program: a tick every interval, few keys, and a terminal that is left as it was."""

import asyncio
import shutil
import signal
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import ClassVar, Protocol

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.geometry import Size

from unslow.think.view.live import Tick
from unslow.tui.board import Board
from unslow.tui.glyphs import Glyphs
from unslow.tui.lines import help_lines, screen_lines

MOST_HISTORY = 600
"""Speeds that are kept for the chart: more than the widest screen shows."""


class Source(Protocol):
    """Where the ticks come from."""

    def tick(self) -> Tick:
        """What there is to show now; must not wait for anybody."""
        ...

    def choose(self, step: int) -> None:
        """Another server, so many places further."""
        ...


class LiveScreen(App[None]):
    """Shows the ticks of a source until somebody quits, or its time is over."""

    ENABLE_COMMAND_PALETTE = False
    CSS = "Screen { background: ansi_default; overflow: hidden; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,ctrl+c,ctrl+q", "quit", "quit", priority=True),
        Binding("p,space", "pause", "pause"),
        Binding("question_mark,h", "help", "help"),
        Binding("escape", "leave", "back"),
        Binding("up,left,k", "choose(-1)", "server before"),
        Binding("down,right,j", "choose(1)", "next server"),
    ]

    def __init__(
        self,
        source: Source,
        glyphs: Glyphs,
        *,
        interval_s: float = 1.0,
        seconds: float | None = None,
        color: bool = True,
        failed: Callable[[], BaseException | None] = lambda: None,
    ) -> None:
        super().__init__(ansi_color=True)
        self.animation_level = "none"
        self.error: BaseException | None = None
        self._source, self._glyphs, self._failed = source, glyphs, failed
        self._interval_s, self._seconds = interval_s, seconds
        self._board = Board(color=color)
        self._history: deque[float | None] = deque(maxlen=MOST_HISTORY)
        self._tick = Tick()
        self._paused = self._helping = False
        self._room = 80, 24

    def compose(self) -> ComposeResult:
        """One widget."""
        yield self._board

    def on_mount(self) -> None:
        """Begin; a kill or a closed terminal ends it as `q` does."""
        for name in ("SIGTERM", "SIGHUP"):
            with suppress(AttributeError, NotImplementedError, RuntimeError, ValueError):  # Windows, or a thread
                asyncio.get_running_loop().add_signal_handler(getattr(signal, name), self.exit)
        self.set_interval(self._interval_s, self.next_tick)
        if self._seconds is not None:
            self.set_timer(self._seconds, self.exit)

    def on_resize(self, event: Resize) -> None:
        """All lines are laid out anew."""
        self._room = event.size.width, event.size.height
        if not self._board.lines:
            self._take()
        self._board.redraw(self._lines(), self._room[0])

    def next_tick(self) -> None:
        """Show what there is now."""
        self.error = self._failed()
        if self.error is not None:
            self.exit()
        self._check_size()
        if not self._paused:
            self._take()
            self._board.show(self._lines(), self._room[0])

    def _check_size(self) -> None:
        """A change of size that nobody told of, as over a slow line or from a busy tmux."""
        if self.is_headless:
            return
        found = Size(*shutil.get_terminal_size(self._room))
        if (found.width, found.height) != self._room:
            self.post_message(Resize(found, found))

    def _take(self) -> None:
        before, self._tick = self._tick, self._source.tick()
        if before.server.url != self._tick.server.url:
            self._history.clear()
        self._history.append(self._tick.speed.tokens_per_s)

    def _lines(self) -> list[Text]:
        if self._helping:
            return help_lines(self._room, self._glyphs)
        return screen_lines(self._tick, self._history, self._room, self._glyphs, paused=self._paused)

    def action_pause(self) -> None:
        """Hold the screen still, or let it go on; the looking goes on meanwhile."""
        self._paused = not self._paused
        self._board.show(self._lines(), self._room[0])

    def action_help(self) -> None:
        """The page of help, or back."""
        self._helping = not self._helping
        self._board.redraw(self._lines(), self._room[0])

    def action_leave(self) -> None:
        """From the help to the screen."""
        if self._helping:
            self.action_help()

    def action_choose(self, step: int) -> None:
        """Another server."""
        self._source.choose(step)

    @property
    def text(self) -> str:
        """What can be read on the screen."""
        return self._board.text
