"""Busy loops on every core: are they named, and does the speed predicted without them come true once they end.

    python lab/contention.py [--rounds 3]

Each round measures with the loops and then without; the ratio of predicted to measured speed is what counts.
"""

import argparse
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

DECODE = "decode_tokens_per_s"
UNSLOW = str(Path(sys.executable).with_name("unslow"))


def spin() -> None:
    """Keep one core busy until ended."""
    while True:
        pass


def diagnosis() -> dict[str, Any]:
    """The report on the embedded engine."""
    done = subprocess.run([UNSLOW, "--json", "-q"], capture_output=True, text=True, check=False)
    report: dict[str, Any] = json.loads(done.stdout)["subjects"][0]
    return report


def one_round() -> float:
    """Predicted without the loops over measured without them."""
    loops = [multiprocessing.Process(target=spin, daemon=True) for _ in range(os.cpu_count() or 1)]
    for loop in loops:
        loop.start()
    try:
        busy = diagnosis()
    finally:
        for loop in loops:
            loop.terminate()
            loop.join()
    free = diagnosis()
    causes = [f["cause"] for f in busy["findings"]]
    predicted, measured = busy["expected"]["achievable"][DECODE]["mid"], free["measured"][DECODE]
    print(
        f"with loops {busy['measured'][DECODE]:.1f} tok/s, {causes}, predicts {predicted:.1f} without them; "
        f"measured without {measured:.1f} ({free['verdict']}), ratio {predicted / measured:.2f}",
        flush=True,
    )
    return float(predicted / measured)


def main() -> None:
    """Print every round and the median ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    ratios = [one_round() for _ in range(parser.parse_args().rounds)]
    print(f"median ratio {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
