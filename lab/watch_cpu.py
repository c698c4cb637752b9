"""What `unslow watch` costs while a benchmark runs, in a real terminal, and whether it shows what goes on.

python -m lab.watch_cpu --server llama-server --model model.gguf

It starts the server on loopback, draws the screen in tmux, runs `unslow bench --quick` beside it, and reads the text of
the screen and the processor time of the program every other second. Exit status 1: over the limit, or nothing moved.
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
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

LIMIT = 0.03
"""Of one core."""
EVERY_S = 2.0
_SPEED = re.compile(r"^Speed +([\d.,]+|-|reading)", re.MULTILINE)
_PHASE = re.compile(r"^Phases? +(\w+)", re.MULTILINE)
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
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
        url = started_server(asked.server, asked.model, closing)
        screen = Screen(url, asked.size, closing)
        time.sleep(asked.before)
        bench = subprocess.Popen(
            [sys.executable, "-m", "unslow", "bench", url, "--quick", "--no-keep", "-q", *asked.bench.split()],
            stdout=subprocess.DEVNULL,
        )
        closing.callback(ended, bench)
        samples = [screen.sample()]
        while bench.poll() is None:
            time.sleep(EVERY_S)
            samples.append(screen.sample())
        if asked.show:
            print(screen.text())
    return reported(samples, samples[0].cpu_s)


def reported(samples: list[Sample], start_cpu_s: float) -> int:
    """The table, and the exit status."""
    print("second  CPU seconds  tok/s    phase")
    first = samples[0]
    for sample in samples:
        used = sample.cpu_s - first.cpu_s
        print(f"{sample.at_s - first.at_s:6.1f}  {used:11.2f}  {sample.speed:>7}  {sample.phase}")
    last = samples[-1]
    share = (last.cpu_s - first.cpu_s) / (last.at_s - first.at_s)
    speeds, phases = {sample.speed for sample in samples}, Counter(sample.phase for sample in samples)
    print(
        f"\nwhile the benchmark ran: {share:.2%} of one core (limit {LIMIT:.0%}); to start: {start_cpu_s:.2f} s of CPU"
    )
    print(f"{len(speeds)} different speeds; phases: {', '.join(f'{n} {c}' for n, c in phases.most_common())}")
    moved = len(speeds) > 2 and {"prefill", "decode"} & set(phases)
    return 0 if share < LIMIT and moved else 1


def started_server(program: str, model: str, closing: ExitStack) -> str:
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
                return url
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
    parser.add_argument("--before", type=float, default=5.0, help="seconds between the screen and the benchmark")
    parser.add_argument("--bench", default="", help="more flags for `unslow bench`")
    parser.add_argument("--show", action="store_true", help="also print the last screen")
    return parser


if __name__ == "__main__":
    sys.exit(main())
