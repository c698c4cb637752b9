"""Draws the live screen for the documentation: the real program, on the embedded engine while it answers.

python -m docs.watch_picture docs/images/watch.svg
"""

import sys
from pathlib import Path
from threading import Thread

from unslow.live.screen import svg
from unslow.live.watcher import Watching, WatchSpec, ticks
from unslow.look.engine import start_engine
from unslow.look.engine.made_up_models import default_cache
from unslow.look.system import LookError
from unslow.look.system.live import LiveSystem

SHAPE, TOKENS, SECONDS = "llama_135m", 2000, 30.0
SIZE = 100, 30


def draw(path: Path, size: tuple[int, int] = SIZE) -> None:
    """Watch a request for some seconds, and write the screen as SVG."""
    system = LiveSystem()
    with start_engine(system, str(default_cache().model(SHAPE))) as engine:
        request = WatchSpec(engine.url, seconds=SECONDS)
        watching = Watching(system, request)
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
