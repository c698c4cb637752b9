"""What the program itself costs, as ratios measured side by side: starting, collecting, diagnosing a snapshot.

make bench
"""

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROUNDS = 9
FOLDER = Path(__file__).parents[1] / "tests" / "machines" / "h200_llama_server_healthy_full_gpu"
UNSLOW = [str(Path(sys.executable).with_name("unslow"))]


def seconds(command: Sequence[str]) -> float:
    """Wall-clock time of a command that must not fail to run."""
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode not in (0, 1, 3):
        raise SystemExit(done.stderr.decode())
    return time.perf_counter() - start


def interleaved(commands: dict[str, Sequence[str]]) -> dict[str, float]:
    """The median time of each command; rounds are interleaved, so that a busy moment hits all alike."""
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(ROUNDS):
        for name, command in commands.items():
            times[name].append(seconds(command))
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> int:
    """Print the table; the status tells whether every goal is met."""
    with tempfile.TemporaryDirectory() as folder:
        seen, saved = str(Path(folder) / "seen.json"), str(Path(folder) / "saved.json")
        seconds([*UNSLOW, "diagnose", str(FOLDER), "--save", saved, "-q"])
        times = interleaved(
            {
                "python -c pass": [sys.executable, "-c", "pass"],
                "unslow --version": [*UNSLOW, "--version"],
                "unslow --help": [*UNSLOW, "--help"],
                "unslow collect --no-bandwidth": [*UNSLOW, "collect", "-q", "--no-bandwidth", "-o", seen],
                "unslow collect": [*UNSLOW, "collect", "-q", "-o", seen],
                "unslow diagnose SNAPSHOT --json": [*UNSLOW, "diagnose", "--json", saved],
                "unslow diagnose SNAPSHOT": [*UNSLOW, "diagnose", saved],
            }
        )
    base = times["python -c pass"]
    goals = {
        "unslow --version": 6 * base,
        "unslow --help": 10 * base,
        "unslow collect --no-bandwidth": 1.5,
        "unslow diagnose SNAPSHOT --json": 0.5,
        "unslow diagnose SNAPSHOT": 0.5,
    }
    for name, value in times.items():
        goal = goals.get(name)
        met = "" if goal is None else f"  goal {goal / base:5.1f}x {'met' if value <= goal else 'MISSED'}"
        print(f"{name:34} {value * 1e3:7.1f} ms {value / base:6.1f}x{met}")
    return int(any(times[name] > goal for name, goal in goals.items()))


if __name__ == "__main__":
    sys.exit(main())
