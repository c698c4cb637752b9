"""No command ends in a traceback where Python lacks POSIX-only modules, as on Windows."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from lab.memory_rows import header_path
from plans import option, plan, written

from unslow.commands._dispatch import commands

HERE = Path(__file__).parents[1]
SIMULATION = HERE / "without_posix.py"
MODEL = str(header_path("llama8b"))
SLOW = str(HERE / "machines" / "h200_llama_server_gpu_layers_set_too_low")
BENCH = str(HERE / "benches" / "h200_standard.json")
NOBODY = "http://127.0.0.1:9"

LINES: dict[str, list[list[str]]] = {
    "apply": [["plan.json", "--yes"], ["plan.json", "--file", "start.sh", "--yes"], ["--dry-run"]],
    "bench": [["--list"], ["--import", BENCH], ["--list"], [NOBODY]],
    "calibrate": [["--list"], ["--forget"], [NOBODY]],
    "check": [["70B Q4 at 72 tok/s on an RTX 4090"]],
    "choose": [["--model", "qwen3-32b", "--budget", "1500"]],
    "collect": [["-o", "seen.json", "--record", "seen"], [SLOW, "-o", "again.json"]],
    "cost": [["--model", "qwen3-32b", "--device", "RTX 3090", "--tokens-per-day", "200k"]],
    "devices": [["RTX 3090", "--model", "qwen3-32b"]],
    "diagnose": [[SLOW, "--save", "seen.json"], ["seen.json"], ["--passive"], [NOBODY], [str(os.getpid())]],
    "explain": [["cpu-contended"]],
    "exporter": [["--once"], ["--once", "-o", "unslow.prom"], ["--listen", "127.0.0.1:0", "-q"]],
    "fit": [["qwen3-8b", "--device", "24GB"], [MODEL, "--device", "24GB"], ["-", "--device", "24GB"]],
    "fleet": [["--prometheus", NOBODY], ["rules"]],
    "mcp": [[]],
    "models": [["."]],
    "plan": [["qwen3-8b", "--device", "24GB"], [MODEL, "--device", "24GB"], []],
    "predict": [["qwen3-8b", "--device", "24GB", "--explain"], [MODEL, "--device", "24GB"]],
    "report": [[SLOW, "-o", "page.html"]],
    "serve": [[SLOW, "--no-open"]],
    "triage": [[str(Path(SLOW) / "server.log")], ["-"]],
    "tune": [[MODEL, "--yes"], [MODEL, "--server", sys.executable, "--yes", "--seconds", "30"]],
    "undo": [["--yes"], ["--list"]],
    "verify": [["--before", NOBODY, "--after", NOBODY], ["--save", "v.json", f"{sys.executable} -c pass"]],
    "watch": [["--once"], [NOBODY, "--once"]],
}
"""What makes a command open files, start programs and listen; one that is not here is run as it is."""


def _run(lines: list[list[str]], folder: Path, patience_s: float = 300.0) -> str:
    """What it says; whatever serves until it is stopped is stopped as by Ctrl-C."""
    words = [word for line in lines for word in (*line, "---")][:-1]
    home = {name: str(folder / name) for name in ("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME")}
    with (folder / "said").open("w+b") as said, Path(MODEL).open("rb") as model:
        process = subprocess.Popen(
            [sys.executable, str(SIMULATION), *words], cwd=folder, env={**os.environ, **home},
            stdin=model if lines[-1][-2:] == ["--device", "24GB"] else subprocess.DEVNULL, stdout=said, stderr=said,
        )  # fmt: skip
        try:
            until_s, signal_s = time.monotonic() + patience_s, 0.0
            while process.poll() is None and time.monotonic() < until_s:
                below_help = (folder / "said").read_text().partition("status 0")[2]
                if _is_answering(below_help) and time.monotonic() >= signal_s:
                    process.send_signal(signal.SIGINT)
                    signal_s = time.monotonic() + 5.0  # a second one while it ends would interrupt its imports
                time.sleep(0.2)
        finally:
            process.kill()
            process.wait()
        return (folder / "said").read_text()


def _is_answering(said: str) -> bool:
    """Whether a server has said its address and answers there: before that, Ctrl-C would interrupt its imports."""
    address = re.search(r"http://127\.0\.0\.1:\d+(?=.*Ctrl-C stops it)", said.rpartition("\nstatus ")[2], re.DOTALL)
    if address is None:
        return False
    try:
        with urlopen(address[0], timeout=30.0):
            return True
    except HTTPError:  # without the token it refuses, which is an answer
        return True
    except OSError:
        return False


@pytest.mark.parametrize("name", list(commands()))
def test_no_command_ends_in_a_traceback_without_posix(name: str, tmp_path: Path) -> None:
    lines = LINES.get(name, [[]])
    written(tmp_path, plan("llama_cpp", "model.gguf", option("more", gpu_layers=20)))
    (tmp_path / "start.sh").write_text("exec llama-server -m model.gguf -ngl 10\n")
    said = _run([[name, "--help"], *([name, *line] for line in lines)], tmp_path)
    assert "Traceback" not in said, said[said.index("Traceback") :][:4000]
    assert len(re.findall(r"^status \d+: unslow", said, re.MULTILINE)) == len(lines) + 1, said
