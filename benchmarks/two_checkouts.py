"""Processor time of commands here against another checkout, in turns: `benchmarks/two_checkouts.py PATH [RUNS]`.

Both run in this environment, with compiled files of their own; the ratio of the medians is what counts.
"""

import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parents[1]
COMMANDS = {
    "--version": ["--version"],
    "--help": ["--help"],
    "explain": ["explain"],
    "explain CAUSE": ["explain", "weights_spill_to_ram"],
    "fit, whole": ["fit", "qwen3-8b", "--device", "RTX 3090"],
    "fit, partly": ["fit", "llama-3.3-70b", "--device", "RTX 4090", "--ram", "64GB"],
    "diagnose": ["diagnose", str(HERE / "tests/machines/lab_gpu_device_none"), "-q"],
}


def cpu_s(checkout: Path, words: list[str]) -> float:
    """User time of one run."""
    keep = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run(
        [sys.executable, "-m", "unslow", *words],
        env={**keep, "PYTHONPATH": str(checkout / "src")},
        capture_output=True,
        check=False,
    )
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def main() -> None:
    """Run each command in turns and print the medians."""
    other, runs = Path(sys.argv[1]), int(sys.argv[2]) if sys.argv[2:] else 9
    for name, words in COMMANDS.items():
        for checkout in (other, HERE):  # what is compiled the first time is not counted
            cpu_s(checkout, words)
        pairs = [(cpu_s(other, words), cpu_s(HERE, words)) for _ in range(runs)]
        there, here = (statistics.median(times) for times in zip(*pairs, strict=True))
        print(f"{name:14} there {there * 1000:5.0f} ms  here {here * 1000:5.0f} ms  ratio {here / there:.2f}")


if __name__ == "__main__":
    main()
