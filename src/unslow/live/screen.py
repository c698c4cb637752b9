"""The live screen as a Textual program."""

import asyncio
import shutil
import signal
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import ClassVar, Protocol

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.widget import Widget

from unslow.live.panels import help_lines, screen_lines
from unslow.live.rows import Glyphs
from unslow.live.tick import Tick

MOST_HISTORY = 600  # Speeds that are kept for the chart: more than the widest screen shows


class Source(Protocol):
    """Where the ticks come from."""

    def tick(self) -> Tick:
        """What there is to show now; must not wait for anybody."""

    def choose(self, step: int) -> None:
        """Another server, so many places further."""


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
        self._room = event.size.width, event.size.height
        if not self._board.lines:
            self._take()
        self._board.redraw(self._lines(), self._room[0])

    def next_tick(self) -> None:
        self.error = self._failed()
        if self.error is not None:
            self.exit()
        # A change of size that nobody told of, as over a slow line or from a busy tmux
        found = self._room if self.is_headless else tuple(shutil.get_terminal_size(self._room))
        if found != self._room:
            self.post_message(Resize(Size(*found), Size(*found)))
        if not self._paused:
            self._take()
            self._board.show(self._lines(), self._room[0])

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
        self._helping = not self._helping
        self._board.redraw(self._lines(), self._room[0])

    def action_leave(self) -> None:
        if self._helping:
            self.action_help()

    def action_choose(self, step: int) -> None:
        self._source.choose(step)

    @property
    def text(self) -> str:
        return "\n".join(line.plain.rstrip() for line in self._board.lines)


class Board(Widget):
    """Shows lines; a tick that changes three of them costs three."""

    DEFAULT_CSS = "Board { width: 100%; height: 100%; background: ansi_default; }"

    def __init__(self, *, color: bool) -> None:
        super().__init__()
        self.lines: list[Text] = []
        self._strips: list[Strip] = []
        self._color = color

    def show(self, lines: Sequence[Text], width: int) -> None:
        """Draw what differs from before; the widget itself has no width yet when the first lines come."""
        before, self.lines = self.lines, list(lines)
        changed = [at for at, line in enumerate(lines) if at >= len(before) or before[at] != line]
        strips = self._strips[: len(lines)] + [Strip.blank(width)] * (len(lines) - len(self._strips))
        for at in changed:
            text = lines[at] if self._color else Text(lines[at].plain, no_wrap=True, end="")
            strips[at] = Strip(text.render(self.app.console)).adjust_cell_length(width)
        self._strips = strips
        regions = [Region(0, at, width, 1) for at in changed]
        if len(before) > len(lines):
            self.refresh()
        elif regions:
            self.refresh(*regions)

    def redraw(self, lines: Sequence[Text], width: int) -> None:
        self.lines, self._strips = [], []
        self.show(lines, width)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        return self._strips[y] if y < len(self._strips) else Strip.blank(self.size.width)
