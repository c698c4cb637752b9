"""Takes the pictures of the documentation from the real program: the page, the live screen, the terminal.

python -m docs._build.screenshots [--only NAME ...] [--chromium /usr/bin/chromium]

The page shows a recorded H200 with its benchmarks, and this machine's embedded engine while it is measured. Pixels
differ from machine to machine, so this is no part of the check; tests look that every picture is there and small.
"""

import argparse
import base64
import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from docs._build.watch_picture import draw
from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright
from rich.console import Console
from rich.text import Text

from unslow.commands._command_lines import with_fix_commands
from unslow.commands._formats import render
from unslow.commands.diagnose.target import read_stored
from unslow.look.engine import start_engine
from unslow.look.engine.made_up_models import default_cache
from unslow.look.system.live import LiveSystem
from unslow.think.judge.judge import diagnose

DOCS = Path(__file__).parents[1]
IMAGES = DOCS / "images"
TESTS = DOCS.parent / "tests"
MACHINE = TESTS / "machines" / "h200_seen_spilled"
WHOLE = TESTS / "machines" / "h200_seen_whole"
BENCHES = [TESTS / "benches" / f"h200_seen_whole_{name}.json" for name in ("depth", "users")]
"""Of that machine in that state."""
VERIFIED = TESTS / "verified" / "h200_seen.json"
IN_A_TERMINAL = TESTS / "machines" / "h200_llama_server_gpu_layers_set_too_low"
PICTURES = ("page", "curves", "live", "terminal", "watch")
SHAPE = "llama_135m"
WIDE, NARROW = (1280, 860), (390, 844)
QUALITY = 72
"""Of WebP: letters stay sharp, and a picture below 150 KB."""
_FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
"""What a picture of a terminal would fetch from the net; the fonts named after it are there."""


@contextmanager
def served(*words: str) -> Iterator[str]:
    """The address of a real `unslow serve`."""
    command = [sys.executable, "-m", "unslow", "serve", *words, "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield json.loads(process.stdout.readline())["url"] if process.stdout else ""
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(30)


def pictures_of_the_page(browser: Browser) -> None:
    """A recorded machine, wide and narrow, light and dark, and its panels one by one."""
    with served(str(MACHINE), "--verify", str(VERIFIED)) as url:
        for scheme in ("light", "dark"):
            with opened(browser, url, scheme, WIDE) as page:
                take(page, f"page_{scheme}")
                if scheme == "light":
                    for panel in ("memory", "timeline"):
                        take(page, f"panel_{panel}", f"#{panel}-0")
        with opened(browser, url, "light", NARROW) as page:
            take(page, "page_narrow")
        with opened(browser, url.replace("/?", "/?view=buy&"), "light", WIDE) as page:
            fill_in_the_buyers_form(page)
            take(page, "page_buy")


def pictures_of_the_curves(browser: Browser) -> None:
    """The same machine with nothing wrong, measured by depth and by users."""
    benches = [word for path in BENCHES for word in ("--bench", str(path))]
    with served(str(WHOLE), *benches) as url, opened(browser, url, "light", WIDE) as page:
        for panel in ("depth", "users"):
            take(page, f"panel_{panel}", f"#{panel}-0")


def fill_in_the_buyers_form(page: Page) -> None:
    """Ask the first form, and wait for its answer."""
    form = page.locator("form").first
    form.locator("input[name=model]").fill("qwen3-32b")
    form.locator("button[type=submit], button").first.click()
    page.wait_for_selector("table", timeout=30_000)


def picture_of_a_live_run(browser: Browser) -> None:
    """The embedded engine of this machine, in the middle of a measurement."""
    with (
        start_engine(LiveSystem(), str(default_cache().model(SHAPE))) as engine,
        served(engine.url, "--log", engine.log_path, "--quick") as url,
        opened(browser, url, "light", WIDE) as page,
    ):
        page.get_by_role("button", name=re.compile("Measure")).first.click()
        page.wait_for_timeout(7000)
        take(page, "page_live")


@contextmanager
def opened(browser: Browser, url: str, scheme: Any, size: tuple[int, int]) -> Iterator[Page]:
    """A page of that size, once it has come to rest."""
    view = ViewportSize(width=size[0], height=size[1])
    page = browser.new_page(viewport=view, color_scheme=scheme, device_scale_factor=1.5 if size == NARROW else 1)
    page.goto(url)
    page.wait_for_selector("section, form")
    page.wait_for_timeout(500)
    yield page
    page.close()


def take(page: Page, name: str, selector: str = "") -> None:
    """What is seen, or one part of it, as WebP."""
    clip: dict[str, Any] = {}
    if selector:
        page.locator(selector).scroll_into_view_if_needed()
        box = page.evaluate(
            "s => { const b = document.querySelector(s).getBoundingClientRect();"
            " return {x: b.x + scrollX, y: b.y + scrollY, width: b.width, height: b.height, scale: 1} }", selector,
        )  # fmt: skip
        clip = {"clip": box, "captureBeyondViewport": True}
    session = page.context.new_cdp_session(page)
    shot = session.send("Page.captureScreenshot", {"format": "webp", "quality": QUALITY, **clip})
    written(f"{name}.webp", base64.b64decode(shot["data"]))


def picture_of_the_terminal() -> None:
    """The report of a recorded machine as a terminal shows it."""
    snapshot = read_stored(str(IN_A_TERMINAL))
    text = render(with_fix_commands(diagnose(snapshot), snapshot), "terminal", width=100, color=True)
    console = Console(record=True, width=100, file=Path("/dev/null").open("w"), force_terminal=True)  # noqa: SIM115
    console.print(Text.from_ansi(text.rstrip()))
    written("terminal.svg", _FONT.sub("", console.export_svg(title="unslow")).encode())


def picture_of_the_live_screen() -> None:
    """`unslow watch` on the embedded engine while it answers."""
    path = IMAGES / "watch.svg"
    draw(path)
    written("watch.svg", _FONT.sub("", path.read_text("utf-8")).encode())


def written(name: str, content: bytes) -> None:
    """Keep a picture, and say how large it is."""
    IMAGES.mkdir(exist_ok=True)
    (IMAGES / name).write_bytes(content)
    print(f"{name:24}{len(content) / 1000:8.0f} KB")


def main() -> None:
    """Take those that are asked for, or all."""
    flags = argparse.ArgumentParser(description=__doc__)
    flags.add_argument("--only", nargs="+", choices=PICTURES)
    flags.add_argument("--chromium", default=shutil.which("chromium") or shutil.which("google-chrome"))
    asked = flags.parse_args()
    wanted = set(asked.only or PICTURES)
    if "terminal" in wanted:
        picture_of_the_terminal()
    if "watch" in wanted:
        picture_of_the_live_screen()
    browsing: dict[str, Callable[[Browser], None]] = {
        "page": pictures_of_the_page,
        "curves": pictures_of_the_curves,
        "live": picture_of_a_live_run,
    }
    if wanted & browsing.keys():
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=asked.chromium, args=["--no-sandbox"])
            for name in wanted & browsing.keys():
                browsing[name](browser)
            browser.close()


if __name__ == "__main__":
    main()
