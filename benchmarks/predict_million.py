"""How long a million predictions take: as arrays, as columns of names, and from a table to a table.

python benchmarks/predict_million.py [ROWS]
"""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from unslow.commands.predict.tables import predict_table
from unslow.think.speed.tables import predict_many

MODELS = ("llama-3.1-8b", "qwen3-8b", "qwen3-30b-a3b", "llama-3.3-70b", "gemma-3-27b", "smollm2-135m")
DEVICES = ("RTX 4090", "RTX 3090", "RTX 5090", "H100 SXM", "M3 Max", "RX 7900 XTX", "RTX 3060", "Ryzen 9 7950X")
QUANTS = ("Q4_K_M", "Q8_0", "Q6_K", "F16")
TESTS = ("tg128", "pp512")


class Silent:
    """Says nothing."""

    def say(self, text: str) -> None:
        """Nothing."""

    def step(self, text: str, share: float) -> None:
        """Nothing."""


def timed(what: str, rows: int, work: Callable[[], object]) -> None:
    """Print how long it took."""
    start = time.perf_counter()
    work()
    seconds = time.perf_counter() - start
    print(f"{what:42} {rows:>10,} rows  {seconds:6.1f} s  {rows / seconds:>12,.0f} rows/s")


def main() -> None:
    """Print a line for each way."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    drawn = np.random.default_rng(1)
    depths = drawn.integers(0, 100_000, rows)
    names = {"model": MODELS, "hardware": DEVICES, "quant": QUANTS, "test": TESTS}
    columns = {name: np.array(some)[drawn.integers(0, len(some), rows)].tolist() for name, some in names.items()}
    one = {name: some[0] for name, some in names.items()}
    timed("one model on one device, depths as an array", rows, lambda: predict_many({**one, "ctx_or_depth": depths}))
    timed("models, devices and quants drawn at random", rows, lambda: predict_many({**columns, "ctx_or_depth": depths}))
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "in.csv", Path(folder) / "out.csv"
        with source.open("w", encoding="utf-8") as file:
            file.write(",".join([*columns, "ctx_or_depth"]) + "\n")
            file.writelines(
                f"{','.join(cells)},{depth}\n" for *cells, depth in zip(*columns.values(), depths.tolist(), strict=True)
            )
        timed("the same from a table to a table", rows, lambda: predict_table(str(source), str(target), Silent()))


if __name__ == "__main__":
    main()
