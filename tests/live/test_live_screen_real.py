"""The live screen in a real terminal (tmux) while the embedded engine decodes."""

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import pytest

from unslow.look.engine import start_engine
from unslow.look.engine.made_up_models import ModelCache
from unslow.look.system.live import LiveSystem

pytestmark = [pytest.mark.real, pytest.mark.skipif(shutil.which("tmux") is None, reason="no tmux")]
SYSTEM = LiveSystem()
MOST_S = 60.0


class Terminal:
    """A shell in a tmux of its own."""

    def __init__(self, folder: Path) -> None:
        self._socket = str(folder / "tmux")
        self._tmux("-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", "env PS1='$ ' sh")
        self._tmux("set", "-g", "status", "off")

    def _tmux(self, *words: str) -> str:
        done = subprocess.run(["tmux", "-S", self._socket, *words], capture_output=True, text=True, check=False)
        return done.stdout

    def type(self, *keys: str) -> None:
        self._tmux("send-keys", *keys)

    def resize(self, width: int, height: int) -> None:
        self._tmux("resize-window", "-x", str(width), "-y", str(height))

    def text(self) -> str:
        return self._tmux("capture-pane", "-p")

    def until(self, seen: Callable[[str], bool]) -> str:
        """The screen, once it shows this."""
        end = time.monotonic() + MOST_S
        while not seen(text := self.text()):
            assert time.monotonic() < end, text
            time.sleep(0.1)
        return text

    def close(self) -> None:
        self._tmux("kill-server")


@pytest.fixture
def terminal(tmp_path) -> Iterator[Terminal]:
    opened = Terminal(tmp_path)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def url(tmp_path_factory) -> Iterator[str]:
    model = ModelCache(tmp_path_factory.mktemp("models")).model("llama_135m")
    with start_engine(SYSTEM, str(model)) as engine:
        yield engine.url


def answered(url: str, tokens: int) -> Thread:
    """A request from another client."""
    body = {"prompt": "Once upon a time", "n_predict": tokens, "ignore_eos": True}
    asked = Thread(target=SYSTEM.request, args=("POST", f"{url}/completion", body, None, 300.0))
    asked.start()
    return asked


def test_watch_session_in_a_real_terminal(terminal, url):
    terminal.type(f"clear; echo before; {sys.executable} -m unslow watch {url} --interval 0.5; echo status $?", "Enter")
    terminal.until(lambda text: "idle" in text and "expected" in text)
    request = answered(url, 40)
    text = terminal.until(lambda text: "Phases     decode" in text and "1 running" in text and "slot" in text)
    assert "sends no prompts" in text
    terminal.resize(40, 12)
    small = terminal.until(lambda text: "Phase " in text and "Read-only." in text)
    assert len(small.rstrip("\n").split("\n")) == 12
    terminal.resize(120, 40)
    terminal.until(lambda text: "Cause" in text and "Read-only" in text)
    request.join()
    terminal.until(lambda text: "Phases     idle" in text)
    terminal.type("?")
    terminal.until(lambda text: "where the time of a token goes" in text)
    terminal.type("q")
    left = terminal.until(lambda text: "status" in text)
    assert "status 0" in left
    assert "Phases" not in left, "the screen is left as it was"


@pytest.mark.parametrize("setting", ["NO_COLOR=1", "TERM=dumb", "PYTHONIOENCODING=ascii"])
def test_watch_in_terminals_without_colour_or_unicode(terminal, url, setting):
    terminal.type(f"clear; {setting} {sys.executable} -m unslow watch {url} --interval 0.5; echo status $?", "Enter")
    text = terminal.until(lambda text: "idle" in text and "expected" in text)
    assert text.isascii() or setting == "NO_COLOR=1"
    terminal.type("C-c")
    assert "status 0" in terminal.until(lambda text: "status" in text)
