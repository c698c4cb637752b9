"""Runs a command line in this process and gives what it printed, without this machine, the date or a path in it."""

import contextlib
import io
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

from unslow import __version__
from unslow.__main__ import main

ROOT = Path(__file__).parents[2]
WIDTH = 100
_ENVIRONMENT = {"COLUMNS": str(WIDTH), "LINES": "24", "TZ": "UTC", "LANG": "C.UTF-8", "TERM": "xterm-256color"}
_KEPT = ("PATH", "SYSTEMROOT")
_VERSION = re.compile(rf'(unslow(?:_version)?[" :v/=]*){re.escape(__version__)}')


class _Terminal(io.TextIOWrapper):
    """Standard output that shows colours."""

    def isatty(self) -> bool:
        return True


@contextlib.contextmanager
def elsewhere() -> Iterator[Path]:
    """The folder of the repository as the current one, a home that is empty, and no variable of whoever runs this."""
    with tempfile.TemporaryDirectory(prefix="golden") as home, contextlib.chdir(ROOT):
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        folders = {"UNSLOW_DATA_DIR": "data", "XDG_CACHE_HOME": "cache", "XDG_STATE_HOME": "state"}
        folders |= {"XDG_CONFIG_HOME": "config", "XDG_DATA_HOME": "share"}
        own = {"HOME": home} | {name: f"{home}/{folder}" for name, folder in folders.items()}
        with patch.dict(os.environ, {**kept, **_ENVIRONMENT, **own}, clear=True):
            yield Path(home)


def printed(*words: str, stdin: str = "", colors: bool = False) -> str:
    """What a command prints, on both of its outputs, and how it exits."""
    out = (_Terminal if colors else io.TextIOWrapper)(io.BytesIO(), "utf-8", write_through=True)
    err = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
    given = io.TextIOWrapper(io.BytesIO(stdin.encode()), "utf-8")
    with patch.object(sys, "stdin", given), patch.object(sys, "stdout", out), patch.object(sys, "stderr", err):
        try:
            status: object = main(words)
        except SystemExit as ended:  # argparse, for --help and for wrong words
            status = ended.code
    said, complaints = (stream.buffer.getvalue().decode() for stream in (out, err))
    parts = [said, f"[standard error]\n{complaints}" if complaints else "", f"[exit {status}]"]
    return "\n".join(part.rstrip("\n") for part in parts if part) + "\n"


def masked(text: str, home: Path | None = None) -> str:
    """A text without what differs from machine to machine and from version to version; colour codes can be read."""
    text = text.replace(str(home), "~") if home else text
    text = text.replace(str(ROOT), "<repository>").replace("\x1b", "␛")
    return _VERSION.sub(r"\1<version>", text)
