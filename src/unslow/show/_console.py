"""A terminal of a given width that writes into a text; what it shows is never taken for markup."""

import io

from rich.console import Console

NARROWEST = 40


class TextConsole(Console):
    """Prints into `text`, with colours where they are wanted."""

    def __init__(self, *, width: int, color: bool) -> None:
        super().__init__(
            file=io.StringIO(), width=max(NARROWEST, width), force_terminal=color, no_color=not color, highlight=False,
            emoji=False, markup=False,
        )  # fmt: skip

    @property
    def text(self) -> str:
        """What was printed, without blanks at the ends of lines."""
        printed = self.file.getvalue() if isinstance(self.file, io.StringIO) else ""
        return "\n".join(line.rstrip() for line in printed.splitlines())
