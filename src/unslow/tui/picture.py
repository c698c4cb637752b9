"""A picture of the screen as SVG, for documentation: the real program, drawn without a terminal."""

import asyncio
from collections.abc import Sequence

from unslow.think.view.live import Tick
from unslow.tui.glyphs import BLOCKS
from unslow.tui.screen import LiveScreen

_TITLE = "unslow watch"


class Replayed:
    """A source of ticks that were taken before; the last one stays."""

    def __init__(self, ticks: Sequence[Tick]) -> None:
        self.ticks = list(ticks)
        self.at = -1
        self.steps: list[int] = []

    def tick(self) -> Tick:
        """The next one."""
        self.at = min(self.at + 1, len(self.ticks) - 1)
        return self.ticks[self.at]

    def choose(self, step: int) -> None:
        """Noted, and nothing else."""
        self.steps.append(step)


def svg(ticks: Sequence[Tick], width: int = 100, height: int = 30) -> str:
    """The screen after these ticks, in colours."""
    return asyncio.run(_svg(ticks, width, height))


async def _svg(ticks: Sequence[Tick], width: int, height: int) -> str:
    screen = LiveScreen(Replayed(ticks), BLOCKS, interval_s=3600.0)
    async with screen.run_test(size=(width, height)) as pilot:
        for _ in ticks:
            screen.next_tick()
        await pilot.pause()
        return screen.export_screenshot(title=_TITLE)
