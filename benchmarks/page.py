"""What the page of `unslow serve` costs: starting the server, opening the page in Chromium, moving sliders.

python benchmarks/page.py [TARGET] [--chromium /usr/bin/chromium] [--rounds N]
The browser's own clock is read: from the start of the navigation to the paint that shows the whole page, and from the
input event of a slider to the paint that shows its answer. Rounds are interleaved, so that a busy moment hits all
alike. Prints the median and the worst of each; the status tells whether every median is within its goal.
"""

import argparse
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

TARGET = Path(__file__).parents[1] / "tests" / "machines" / "h200_llama_server_gpu_layers_set_too_low"
UNSLOW = str(Path(sys.executable).with_name("unslow"))
MOVES = 12
MOST_TRIES = 50
SAID, STARTED, FIRST, WHOLE, SLID = (
    "cold: from the command until it says where",
    "cold: from the command to the whole page",
    "opening: until something is painted",
    "opening: until the whole page is painted",
    "a slider: until its answer is painted",
)
GOALS_MS = {SAID: None, STARTED: None, FIRST: 1000.0, WHOLE: 1000.0, SLID: 50.0}
"""A server that was just started has no goal of its own: a browser takes longer to start."""
_PAINTED = "(then) => requestAnimationFrame(() => { const c = new MessageChannel(); c.port1.onmessage = then; c.port2.postMessage(0); })"  # noqa: E501
"""Calls back after the next frame is on the screen: a message that is sent in a frame comes after it."""
_NOTE_OPENING = f"""
addEventListener("DOMContentLoaded", () => ({_PAINTED})(() => {{ window.shownAt = performance.now(); }}));
"""
_OPENED = """
() => [performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0, window.shownAt ?? 0]
"""
_MOVE = f"""
([name, place]) => new Promise((done) => {{
  const input = document.querySelector(`form.sliders input[name="${{name}}"]`);
  const start = performance.now();
  const seen = new MutationObserver(() => {{
    seen.disconnect();
    ({_PAINTED})(() => done(performance.now() - start));
  }});
  seen.observe(document.getElementById("answer-0"), {{ childList: true }});
  input.value = place;
  input.dispatchEvent(new Event("input", {{ bubbles: true }}));
}})
"""
"""Moves one slider and tells how long it took, the waits for the two frames included."""


@contextmanager
def served(target: str) -> Iterator[tuple[dict[str, Any], float]]:
    """The address of a server that was just started, and when it was."""
    start = time.perf_counter()
    process = subprocess.Popen([UNSLOW, "serve", target, "--json"], stdout=subprocess.PIPE, text=True)
    try:
        yield json.loads(process.stdout.readline()) if process.stdout else {}, start
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(20)


def started_ms(target: str) -> tuple[float, float]:
    """From the command until it says where the page is, and until the page comes with what it is about."""
    with served(target) as (told, start):
        said = time.perf_counter() - start
        for _ in range(MOST_TRIES):  # first comes a page that says that it takes a moment
            with urllib.request.urlopen(told["url"]) as answer:
                if b"<article" in answer.read():
                    return said * 1e3, (time.perf_counter() - start) * 1e3
    raise SystemExit(f"the page of {target} has nothing to show")


def opened(browser: Browser, url: str) -> tuple[Page, float, float]:
    """A new page, and how long it took until something and until the whole of it was painted."""
    page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    page.add_init_script(_NOTE_OPENING)
    page.goto(url)
    page.wait_for_selector("article")
    for _ in range(MOST_TRIES):
        first, whole = page.evaluate(_OPENED)
        if first and whole:
            return page, first, whole
        page.wait_for_timeout(20)
    raise SystemExit("the browser tells no times")


def moved_ms(page: Page, chance: random.Random) -> list[float]:
    """Some sliders, each moved somewhere."""
    names = page.eval_on_selector_all("form.sliders input[type=range]", "all => all.map((one) => [one.name, +one.max])")
    times = []
    for _ in range(MOVES if names else 0):
        name, most = chance.choice(names)
        times.append(float(page.evaluate(_MOVE, [name, str(chance.randint(0, most))])))
    return times


def measured(target: str, chromium: str, rounds: int) -> dict[str, list[float]]:
    """All times, in milliseconds."""
    times: dict[str, list[float]] = {name: [] for name in GOALS_MS}
    chance = random.Random(1)
    rooted = ["--no-sandbox"] if os.geteuid() == 0 else []
    with served(target) as (told, _), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=rooted)
        opened(browser, told["url"])[0].context.close()  # the browser's own start counts for nobody
        for _ in range(rounds):
            said, came = started_ms(target)
            times[SAID].append(said)
            times[STARTED].append(came)
            page, first, whole = opened(browser, told["url"])
            times[FIRST].append(first)
            times[WHOLE].append(whole)
            times[SLID].extend(moved_ms(page, chance))
            page.context.close()
        browser.close()
    return times


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", nargs="?", default=str(TARGET))
    parser.add_argument("--chromium", default=shutil.which("chromium") or shutil.which("google-chrome"))
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    missed = False
    print(f"{'':48} {'median':>9} {'worst':>9} {'goal':>9}   of")
    for name, values in measured(args.target, args.chromium, args.rounds).items():
        median, worst = (statistics.median(values), max(values)) if values else (float("nan"), float("nan"))
        goal = GOALS_MS[name]
        met = goal is None or median <= goal
        missed |= not met
        said = f"{median:6.1f} ms {worst:6.0f} ms {'-' if goal is None else f'{goal:.0f} ms':>9} {len(values):4}"
        print(f"{name:48} {said}   {'' if goal is None else 'met' if met else 'MISSED'}".rstrip())
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
