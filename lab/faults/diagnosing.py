"""The diagnosis of a stage by the program itself, as a person would run it, with its recording."""

import json
import os
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from lab.faults.fault import Playing

LIMIT_S = 180.0
_LAST_WORDS_S = 20.0
_LAST_LINES, _LONGEST_TROUBLE = 4, 500
_UNSLOW = [sys.executable, "-m", "unslow"]


class Diagnosis(NamedTuple):
    """The first subject of the report, and how long it took."""

    subject: dict[str, Any]
    seconds: float
    trouble: str = ""
    """Why there is no report."""


def diagnosed(playing: Playing, folder: Path, flags: tuple[str, ...], limit_s: float = LIMIT_S) -> Diagnosis:
    """Diagnose what is being played; the recording goes to the folder. A server that could not load left its log."""
    folder.mkdir(parents=True, exist_ok=True)
    keep = folder.with_suffix(".report.json")
    if playing.load_s is None:
        return triaged(Path(playing.log), limit_s, keep)
    url = playing.diagnose_url or playing.url
    record = ["--record", str(folder)] if records() else ["--save", str(folder / "snapshot.json")]
    return _reported([*_UNSLOW, "diagnose", url, "--json", *record, *flags], limit_s, keep)


def triaged(log: Path, limit_s: float = LIMIT_S, keep: Path = Path(os.devnull)) -> Diagnosis:
    """What a log alone tells."""
    return _reported([*_UNSLOW, "triage", str(log), "--json"], limit_s, keep)


@cache
def records() -> bool:
    """Whether this version of the program can record a whole diagnosis."""
    done = subprocess.run([*_UNSLOW, "diagnose", "--help"], capture_output=True, text=True, check=False)
    return "--record" in done.stdout


def _reported(command: list[str], limit_s: float, keep: Path) -> Diagnosis:
    """The report, which is also kept whole beside the recording, for whoever wants to know why it says so."""
    start = time.monotonic()
    output, errors = _run(command, limit_s)
    seconds = time.monotonic() - start
    keep.write_text(output or errors, encoding="utf-8")
    try:
        return Diagnosis(json.loads(output)["subjects"][0], seconds, "")
    except (ValueError, KeyError, IndexError):
        return Diagnosis({}, seconds, _last_words(errors))


def _run(command: list[str], limit_s: float) -> tuple[str, str]:
    """Output and errors; a diagnosis that takes too long is interrupted, which gives the report so far."""
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        return process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        try:
            return process.communicate(timeout=_LAST_WORDS_S)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.communicate()
    except BaseException:
        process.kill()
        process.wait()
        raise


def _last_words(errors: str) -> str:
    lines = [line for line in errors.splitlines() if line.strip()]
    return " | ".join(lines[-_LAST_LINES:])[:_LONGEST_TROUBLE] or "it said nothing"
