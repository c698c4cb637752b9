"""A real Chromium for the tests of the page, which notes whatever goes wrong there and whatever leaves the machine."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
REBOUND = "rebound.example"
"""A name that this browser resolves to loopback, as one that somebody rebinds would be."""
LOOPBACK = ("127.0.0.1", "localhost")
DESK = {"width": 1280, "height": 900}
SERIOUS = ("serious", "critical")
_VIOLATIONS = "addEventListener('securitypolicyviolation', (e) => console.error(`policy: ${e.violatedDirective}`));"


def is_needed() -> bool:
    """Whether a test without a browser fails instead of being skipped."""
    return os.environ.get("UNSLOW_NEEDS_BROWSER") == "1"


@contextmanager
def chromium() -> Iterator[Any]:
    """The browser. Where there is none the test is skipped, or fails where one is needed."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _without("playwright is not installed")
    with sync_playwright() as playwright:
        path = program(playwright.chromium.executable_path)
        rooted = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []  # it starts in no other way
        rules = f"--host-resolver-rules=MAP {REBOUND} 127.0.0.1"
        browser = playwright.chromium.launch(executable_path=path, args=[rules, *rooted])
        yield browser
        browser.close()


def program(own: str) -> str:
    """The one that is named, that of the system, or playwright's own."""
    named = os.environ.get("UNSLOW_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if not named and not Path(own).exists():
        _without("there is no Chromium; UNSLOW_CHROMIUM names one")
    return named or own


def _without(why: str) -> NoReturn:
    if is_needed():
        pytest.fail(why, pytrace=False)
    pytest.skip(why)


class Watched:
    """A tab, and what a user would not like to see of it."""

    def __init__(self, browser: Any, **options: Any) -> None:
        self.context = browser.new_context(**{"viewport": DESK, **options})
        self.tab = self.context.new_page()
        self.wrong: list[str] = []
        self.asked: list[str] = []
        if options.get("java_script_enabled", True):
            self.tab.add_init_script(_VIOLATIONS)
        self.tab.on("console", self._console)
        self.tab.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.tab.on("request", lambda request: self.asked.append(request.url))

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.wrong.append(message.text)

    @property
    def left(self) -> list[str]:
        """Whatever went elsewhere than to this machine."""
        parts = [urlsplit(url) for url in self.asked]
        return [one.geturl() for one in parts if one.scheme not in ("data", "file") and one.hostname not in LOOPBACK]


@contextmanager
def watched(browser: Any, url: str, **options: Any) -> Iterator[Any]:
    """A tab with the page open; in the end nothing must have gone wrong, and nothing have left the machine."""
    seen = Watched(browser, **options)
    try:
        seen.tab.goto(url)
        yield seen.tab
        assert seen.wrong == []
        assert seen.left == []
        if url.startswith("file:"):
            assert {one.partition("#")[0] for one in seen.asked} == {url}  # it asks nobody, not even the disk
    finally:
        seen.context.close()


def violations(tab: Any) -> list[tuple[str, str]]:
    """What the accessibility checker finds that is serious, everything unfolded."""
    from axe_playwright_python.sync_playwright import Axe

    unfold(tab)
    found = Axe().run(tab).response["violations"]
    return [(one["id"], one["nodes"][0]["html"][:200]) for one in found if one["impact"] in SERIOUS]


def unfold(tab: Any) -> None:
    """Open whatever is folded."""
    tab.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")


def sideways(tab: Any) -> int:
    """By how many pixels the page is wider than the window."""
    return int(tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))
