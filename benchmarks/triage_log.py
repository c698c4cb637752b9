"""A log of gigabytes, triaged by unslow and counted by `grep -c`, side by side.

    python benchmarks/triage_log.py [--gigabytes 2] [--rounds 3] [--folder DIR] [--keep TABLE]

The log is made of real ones (tests/machines): a server starts, answers requests for a long time, starts again. Numbers
vary from line to line. Each reading is a fresh process on one core; rounds are interleaved; the file is removed.
"""

import argparse
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

MACHINES = Path(__file__).parents[1] / "tests" / "machines"
LEAST_RATE, MOST_MEMORY_BYTES = 100e6, 150e6
REQUESTS_PER_START, VARIANTS, BUFFER_BYTES = 400, 24, 1 << 20
LOADED, ENDS = "model loaded", "cleaning up before exit"

# VmHWM and not the peak of getrusage, which a process inherits from the one that started it
CHILD = """
import json, sys, time
from unslow.commands.triage.pasted_text import read_text_source
from unslow.commands.triage.pasted_text import triage
from unslow.commands._formats import render
start, busy = time.perf_counter(), time.process_time()
with read_text_source(sys.argv[1]) as source:
    report, snapshot = triage(source.chunks, source.name)
text = render(report, "terminal", width=100, color=False, everything=False)
seconds, busy = time.perf_counter() - start, time.process_time() - busy
with open("/proc/self/status") as file:
    peak = next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))
subject = snapshot.subjects[0]
print(json.dumps(dict(
    seconds=seconds, cpu_seconds=busy, peak_bytes=peak, verdict=report.subjects[0].verdict, shown=len(text),
    loads=len(subject.runtime.history.loads.value_or(())), layers=subject.runtime.placement.layers.value_or(0),
    decode=subject.run.decode_tokens_per_s.value_or(0),
)))
"""


def parts() -> list[tuple[str, str, str]]:
    """The start of each recorded server, what it wrote about its requests, and its end."""
    texts = [path.read_text("utf-8") for path in sorted(MACHINES.glob("*/server.log"))]
    found = [re.fullmatch(f"(.*?{LOADED}[^\\n]*\\n)(.*?)([^\\n]*{ENDS}.*)", text, re.DOTALL) for text in texts]
    return [(each[1], each[2], each[3]) for each in found if each]


def varied(text: str, dice: random.Random) -> str:
    """The text with other digits behind the first of each decimal number."""
    return re.sub(r"(?<=\d\.)\d\d(?=\d* )", lambda _: f"{dice.randrange(100):02}", text)


def pieces() -> Iterator[bytes]:
    """Starts and requests without end, as a server writes them over months."""
    dice = random.Random(5)
    servers = parts()
    starts, ends = ([varied(server[n], dice).encode() for server in servers] for n in (0, 2))
    requests = [varied(request, dice).encode() for _, request, _ in servers for _ in range(VARIANTS)]
    while True:
        yield dice.choice(starts)
        yield from (dice.choice(requests) for _ in range(REQUESTS_PER_START))
        yield dice.choice(ends)


def write(file: BinaryIO, size: int) -> None:
    """So many bytes of log."""
    written = 0
    for piece in pieces():
        written += file.write(piece)
        if written >= size:
            return


def timed_grep(path: str) -> tuple[float, float]:
    """Seconds of `grep -c`, in the locale that makes it fastest: on the clock, and of a core."""
    start, before = time.perf_counter(), os.times()
    subprocess.run(
        ["grep", "-c", "eval time", path], check=True, capture_output=True, env={**os.environ, "LC_ALL": "C"}
    )
    after = os.times()
    cpu_s = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - start, cpu_s


def read_once(path: str) -> dict[str, float]:
    """One reading in a process of its own."""
    done = subprocess.run([sys.executable, "-c", CHILD, path], check=True, capture_output=True, text=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def measured(path: str, rounds: int) -> tuple[str, bool]:
    """Triage and count in turns: the table, and whether both goals are met on one core."""
    size = Path(path).stat().st_size
    ours, grep = [], []
    for _ in range(rounds):
        grep.append(timed_grep(path))
        ours.append(read_once(path))
    rate = size / statistics.median(each["cpu_seconds"] for each in ours)
    clock = size / statistics.median(each["seconds"] for each in ours)
    peak = max(each["peak_bytes"] for each in ours)
    walls, cpus = (size / statistics.median(column) / 1e6 for column in zip(*grep, strict=True))
    print(ours[-1])
    table = [
        f"{size / 1e9:.1f} GB, median of {rounds} rounds, interleaved",
        "                MB/s of a core   MB/s on the clock   peak MB",
        f"unslow triage   {rate / 1e6:14.0f} {clock / 1e6:19.0f} {peak / 1e6:9.0f}",
        f"grep -c         {cpus:14.0f} {walls:19.0f}",
    ]
    return "\n".join(table) + "\n", rate >= LEAST_RATE and peak <= MOST_MEMORY_BYTES


def main() -> int:
    """Write, measure, remove."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", help="where the log is written (default: the folder for temporary files)")
    parser.add_argument("--keep", type=Path, help="also write the table to this file")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        path = Path(folder) / "server.log"
        with path.open("wb", buffering=BUFFER_BYTES) as file:
            write(file, int(arguments.gigabytes * 1e9))
        table, good = measured(str(path), arguments.rounds)
    print(table, end="")
    if arguments.keep:
        arguments.keep.write_text(table)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
