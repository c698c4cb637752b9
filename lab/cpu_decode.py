"""What a CPU reaches of its read bandwidth when it generates tokens: a check of physics/host_decoding.

Made-up models of several sizes on the embedded engine, with the bandwidth measured beside every run:

    python lab/cpu_decode.py llama_135m llama_1b llama_3b
"""

import argparse
import statistics

from unslow.facts.units import GB
from unslow.look.bench.guest import Plan, Target
from unslow.look.bench.ram_bandwidth import read_ram_bandwidth
from unslow.look.bench.timed import complete as one_completion
from unslow.look.bench.timed import decode_rate
from unslow.look.engine.cache import default_cache
from unslow.look.engine.server import start_engine
from unslow.look.system.live import LiveSystem

ROUNDS, TOKENS = 4, 48


def measure(system: LiveSystem, path: str, size: int, threads: int) -> str:
    """One row: tokens per second, and the bytes they read as a share of the bandwidth."""
    rates, shares = [], []
    with start_engine(system, path, threads=threads) as engine:
        for number in range(ROUNDS):
            memory = read_ram_bandwidth(system)
            available = (memory.read_one_core_bytes_per_s if threads == 1 else memory.read_bytes_per_s).need()
            done = one_completion(system, Target(engine.url), Plan(), f"Round {number}.", TOKENS).completion
            rates.append(decode_rate(done))
            shares.append(decode_rate(done) * size / available)
    speed = statistics.median(rates)
    share = statistics.median(shares)
    return f"{threads} threads {speed:7.1f} tok/s {speed * size / GB:6.1f} GB/s, {share:.0%} of the bandwidth"


def main() -> None:
    """Print a row for each shape and number of threads."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shapes", nargs="+")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    args = parser.parse_args()
    system = LiveSystem()
    for shape in args.shapes:
        path = default_cache().model(shape)
        for threads in args.threads:
            print(f"{shape:12} {measure(system, str(path), path.stat().st_size, threads)}", flush=True)


if __name__ == "__main__":
    main()
