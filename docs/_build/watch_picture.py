"""Draws the live screen for the documentation: the real program, on the embedded engine while it answers.

python -m docs._build.watch_picture docs/images/watch.svg
"""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from threading import Thread

from unslow.commands.watch import WatchRequest
from unslow.live.rows import BLOCKS
from unslow.live.screen import LiveScreen
from unslow.live.tick import Tick
from unslow.live.watcher import Watcher, ticks
from unslow.look.engine import start_engine
from unslow.look.engine.made_up_models import default_cache
from unslow.look.system import LookError
from unslow.look.system.live import LiveSystem

SHAPE, TOKENS, SECONDS = "llama_135m", 2000, 30.0
SIZE = 100, 30


class Replayed:
    """A source of ticks that were taken before; the last one stays."""

    def __init__(self, ticks: Sequence[Tick]) -> None:
        self.ticks = list(ticks)
        self.at = -1
        self.steps: list[int] = []

    def tick(self) -> Tick:
        self.at = min(self.at + 1, len(self.ticks) - 1)
        return self.ticks[self.at]

    def choose(self, step: int) -> None:
        self.steps.append(step)


def svg(ticks: Sequence[Tick], width: int = 100, height: int = 30) -> str:
    """The screen after these ticks, in colours."""

    async def drawn() -> str:
        screen = LiveScreen(Replayed(ticks), BLOCKS, interval_s=3600.0)
        async with screen.run_test(size=(width, height)) as pilot:
            for _ in ticks:
                screen.next_tick()
            await pilot.pause()
            return screen.export_screenshot(title="unslow watch")

    return asyncio.run(drawn())


def draw(path: Path, size: tuple[int, int] = SIZE) -> None:
    """Watch a request for some seconds, and write the screen as SVG."""
    system = LiveSystem()
    with start_engine(system, str(default_cache().model(SHAPE))) as engine:
        request = WatchRequest(target=engine.url, seconds=SECONDS)
        watching = Watcher(system, request)
        watching.start()
        Thread(target=_ask, args=(system, engine.url), daemon=True).start()
        seen = list(ticks(watching, request, system))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(svg(seen, *size), encoding="utf-8")


def _ask(system: LiveSystem, url: str) -> None:
    """A request of somebody else, which is watched."""
    body = {"prompt": "Once upon a time " * 4, "n_predict": TOKENS, "ignore_eos": True}
    try:
        system.request("POST", f"{url}/completion", body, None, 4 * SECONDS)
    except LookError:  # the engine ends before the answer does
        return


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
