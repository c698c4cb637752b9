"""What `unslow watch` costs in a real terminal, and whether it shows what goes on.

python -m lab.watch_cpu --server llama-server --model model.gguf [--write docs/how_to/watch.md]

It starts the server on loopback, draws the screen in tmux, leaves the server idle, runs `unslow bench --quick` beside
it, then ends the server. Every other second it reads the text of the screen and the processor time of the program.
Exit status 1: over the limit in any of the three, or nothing moved.
"""

import argparse
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

LIMIT = 0.03
"""Of one core."""
EVERY_S = 2.0
_SPEED = re.compile(r"^Speed +([\d.,]+|-|reading)", re.MULTILINE)
_PHASE = re.compile(r"^Phases? +(\w+)", re.MULTILINE)
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_BLOCK = re.compile(r"(<!-- cost: written by lab/watch_cpu.py -->\n).*?(<!-- /cost -->)", re.DOTALL)
WARM_S = 8.0
"""After the first screen: by then it was judged once, and all that is needed was imported."""
_UTIME, _CHILDREN = 11, 15
"""Places after the command name in /proc/PID/stat, proc_pid_stat(5): four counters, its own and its children's."""


class Sample(NamedTuple):
    """One look at the screen."""

    at_s: float
    cpu_s: float
    speed: str
    phase: str


def main() -> int:
    """Run, print the table, judge."""
    asked = _parser().parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))  # what was started here ends with it
    with ExitStack() as closing:
        url, server = started_server(asked.server, asked.model, closing)
        screen = Screen(url, asked.size, closing)
        time.sleep(WARM_S)
        costs = {"the server is idle": share_of(sampled(screen, asked.each))}
        bench = subprocess.Popen(
            [sys.executable, "-m", "unslow", "bench", url, "--quick", "--no-keep", "-q", *asked.bench.split()],
            stdout=subprocess.DEVNULL,
        )
        closing.callback(ended, bench)
        samples = sampled(screen, asked.most, lambda: bench.poll() is None)
        costs["a benchmark runs"] = share_of(samples)
        if asked.show:
            print(screen.text())
        ended(bench)
        ended(server)
        time.sleep(EVERY_S)
        costs["the server is gone"] = share_of(sampled(screen, asked.each))
    if asked.write:
        written(asked.write, costs)
    return reported(samples, costs)


def sampled(screen: "Screen", seconds: float, goes_on: Callable[[], bool] = lambda: True) -> "list[Sample]":
    """The screen every other second, for so long, or until it is over."""
    samples, end = [screen.sample()], time.monotonic() + seconds
    while goes_on() and time.monotonic() < end:
        time.sleep(EVERY_S)
        samples.append(screen.sample())
    return samples


def share_of(samples: "list[Sample]") -> float:
    """Of one core, from the first sample to the last."""
    first, last = samples[0], samples[-1]
    return (last.cpu_s - first.cpu_s) / (last.at_s - first.at_s)


def written(path: Path, costs: dict[str, float]) -> None:
    """Put the table into its block of a page."""
    rows = "".join(f"| {state} | {share:.1%} |\n" for state, share in costs.items())
    where = f"{os.cpu_count()} processors that others use as well, {time.strftime('%Y-%m-%d', time.gmtime())}"
    table = f"| while | of one core |\n|---|---|\n{rows}\nMeasured on {where}, in tmux, with the usual interval.\n"
    page = path.read_text("utf-8")
    if not _BLOCK.search(page):
        raise SystemExit(f"{path} has no block for it")
    path.write_text(_BLOCK.sub(lambda block: f"{block[1]}{table}{block[2]}", page), "utf-8")


def reported(samples: "list[Sample]", costs: dict[str, float]) -> int:
    """The table, and the exit status."""
    print("second  CPU seconds  tok/s    phase")
    first = samples[0]
    for sample in samples:
        used = sample.cpu_s - first.cpu_s
        print(f"{sample.at_s - first.at_s:6.1f}  {used:11.2f}  {sample.speed:>7}  {sample.phase}")
    speeds, phases = {sample.speed for sample in samples}, Counter(sample.phase for sample in samples)
    print()
    for state, share in costs.items():
        print(f"while {state}: {share:.2%} of one core (limit {LIMIT:.0%})")
    print(f"{len(speeds)} different speeds; phases: {', '.join(f'{n} {c}' for n, c in phases.most_common())}")
    moved = len(speeds) > 2 and {"prefill", "decode"} & set(phases)
    return 0 if max(costs.values()) < LIMIT and moved else 1


def started_server(program: str, model: str, closing: ExitStack) -> "tuple[str, subprocess.Popen[bytes]]":
    """A server on a free port of loopback, once it answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [program, "-m", model, "--port", str(port), "-c", "4096", "-np", "2"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    closing.callback(ended, server)
    url = f"http://127.0.0.1:{port}"
    for _ in range(600):
        with suppress(OSError), urllib.request.urlopen(f"{url}/health") as answer:
            if answer.status == 200:
                return url, server
        time.sleep(0.1)
    raise SystemExit("the server did not start")


def ended(process: "subprocess.Popen[bytes]") -> None:
    """End a process that was started here."""
    if process.poll() is None:
        process.terminate()
        process.wait(10)


class Screen:
    """`unslow watch` in a terminal of tmux, of its own server."""

    def __init__(self, url: str, size: str, closing: ExitStack) -> None:
        self._socket = f"unslow-watch-{os.getpid()}"
        width, _, height = size.partition("x")
        environment = "PYTHONDONTWRITEBYTECODE= "
        self._tmux("-f", "/dev/null", "new-session", "-d", "-x", width, "-y", height, "sh")
        closing.callback(self._tmux, "kill-server")
        self._tmux("set", "-g", "status", "off")
        self._tmux("send-keys", f"clear; exec env {environment}{sys.executable} -m unslow watch {url}", "Enter")
        self.pid = int(self._tmux("display", "-p", "#{pane_pid}"))
        for _ in range(300):
            if _SPEED.search(self.text()):
                return
            time.sleep(0.1)
        raise SystemExit(f"the screen did not come:\n{self.text()}")

    def _tmux(self, *words: str) -> str:
        program = shutil.which("tmux") or "tmux"
        return subprocess.run([program, "-L", self._socket, *words], capture_output=True, text=True, check=False).stdout

    def text(self) -> str:
        """What can be read now."""
        return self._tmux("capture-pane", "-p")

    def sample(self) -> Sample:
        """Speed, phase and processor time so far, its own and its children's."""
        text = self.text()
        speed, phase = _SPEED.search(text), _PHASE.search(text)
        words = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        cpu_s = sum(map(int, words[_UTIME:_CHILDREN])) / _TICKS_PER_S
        return Sample(time.monotonic(), cpu_s, speed[1] if speed else "-", phase[1] if phase else "-")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m lab.watch_cpu", description=__doc__)
    parser.add_argument("--server", required=True, help="a llama-server")
    parser.add_argument("--model", required=True, help="a GGUF file")
    parser.add_argument("--size", default="100x30", help="of the terminal")
    parser.add_argument("--each", type=float, default=30.0, help="seconds to look on while it is idle, and gone")
    parser.add_argument("--most", type=float, default=600.0, help="seconds of the benchmark, at most")
    parser.add_argument("--write", type=Path, help="a page with a block for the table")
    parser.add_argument("--bench", default="", help="more flags for `unslow bench`")
    parser.add_argument("--show", action="store_true", help="also print the last screen")
    return parser


if __name__ == "__main__":
    sys.exit(main())
