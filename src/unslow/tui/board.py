"""The one widget of the screen: lines of text, of which only those that changed are drawn again."""

from collections.abc import Sequence

from rich.text import Text
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget


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
            strips[at] = self._strip(lines[at], width)
        self._strips = strips
        regions = [Region(0, at, width, 1) for at in changed]
        if len(before) > len(lines):
            self.refresh()
        elif regions:
            self.refresh(*regions)

    def redraw(self, lines: Sequence[Text], width: int) -> None:
        """Draw all of it, as after a change of size."""
        self.lines, self._strips = [], []
        self.show(lines, width)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """A line as Textual wants it."""
        return self._strips[y] if y < len(self._strips) else Strip.blank(self.size.width)

    def _strip(self, line: Text, width: int) -> Strip:
        text = line if self._color else Text(line.plain, no_wrap=True, end="")
        return Strip(text.render(self.app.console)).adjust_cell_length(width)

    @property
    def text(self) -> str:
        """What can be read on it."""
        return "\n".join(line.plain.rstrip() for line in self.lines)
