"""Prove that two things asked in turns are told apart on a restless machine, as `unslow bench --against` does it.

    python -m lab.check_turns --command 'llama-server -m model.gguf -t 2' --save lab/data/bench/turns_cpu.json
    python -m lab.check_turns --from lab/data/bench/turns_cpu.json

One server of our own is asked in pairs: as it is, and as it is again; or as it is, and slowed down by a tenth through
stopping its process for 2 ms of every 20. Who goes first changes with every pair. The status is 1 where more than 5 %
of the same are called different, or fewer than 90 % of the slowed are found.
"""

import argparse
import statistics
import sys
from collections import Counter
from contextlib import nullcontext
from pathlib import Path

import msgspec
from lab.check_noise import LEAST_FOUND, MOST_FALSE
from lab.noise.runs import Silent
from lab.noise.slowed import Slowed

from unslow.commands.bench.bencher import Bencher, BenchWish
from unslow.commands.bench.server import Own
from unslow.facts.bench import DECODE, Pass
from unslow.facts.machine import Machine
from unslow.look.system.live import LiveSystem
from unslow.think.stats.comparison import compare_pairs
from unslow.think.stats.figures import decode_rate


class Compared(msgspec.Struct, frozen=True):
    """Pairs of speeds: as it is, and as it is again or slowed."""

    slowed: bool
    pairs: tuple[tuple[float, float], ...]


def main() -> None:
    """Measure or read, judge, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", help="that starts the server")
    parser.add_argument("--turns", type=int, default=40, help="comparisons of each kind")
    parser.add_argument("--pairs", type=int, default=12, help="of each comparison")
    parser.add_argument("--tokens", type=int, default=32, help="of each answer")
    parser.add_argument("--share", type=float, default=0.10, help="of the time that the server is stopped")
    parser.add_argument("--period", type=float, default=0.02, help="of the stopping, in seconds")
    parser.add_argument("--save", type=Path, metavar="FILE")
    parser.add_argument("--from", dest="source", type=Path, metavar="FILE")
    args = parser.parse_args()
    done = msgspec.json.decode(args.source.read_bytes(), type=list[Compared]) if args.source else _measured(args)
    sys.exit(0 if _shown(done) else 1)


def _measured(args: argparse.Namespace) -> list[Compared]:
    own = Own.from_request(LiveSystem(), Machine(), Silent(), command=args.command)
    done: list[Compared] = []
    with own.start({}) as bencher:
        _speed(bencher, args, slowed=False)
        try:
            for number in range(2 * args.turns):
                print(f"\r{number} of {2 * args.turns} comparisons", end="", file=sys.stderr, flush=True)
                done.append(_compared(bencher, args, slowed=bool(number % 2)))
                if args.save:
                    args.save.write_bytes(msgspec.json.encode(done) + b"\n")
        except KeyboardInterrupt:
            print("\nstopped; what was measured counts", file=sys.stderr)
    print(file=sys.stderr)
    return done


def _compared(bencher: Bencher, args: argparse.Namespace, *, slowed: bool) -> Compared:
    pairs = []
    for number in range(args.pairs):
        order = (False, True) if number % 2 else (True, False)
        speeds = {other: _speed(bencher, args, slowed=slowed and other) for other in order}
        pairs.append((round(speeds[False], 4), round(speeds[True], 4)))
    return Compared(slowed, tuple(pairs))


def _speed(bencher: Bencher, args: argparse.Namespace, *, slowed: bool) -> float:
    pid = bencher.target.pid
    if pid is None:
        raise SystemExit("the server's process is not known, so it can't be slowed down")
    with Slowed(pid, args.share, args.period) if slowed else nullcontext():
        done = bencher.ask(BenchWish("short", args.tokens))
    rate = decode_rate(done) if isinstance(done, Pass) else None
    if rate is None:
        raise SystemExit("a request was not answered")
    return rate


def _shown(done: list[Compared]) -> bool:
    """Print what the statistics make of it; whether that is good enough."""
    verdicts = {kind: Counter(_verdict(one) for one in done if one.slowed is kind) for kind in (False, True)}
    same, slowed = verdicts[False], verdicts[True]
    if not same.total() or not slowed.total():
        raise SystemExit("too little was measured")
    false, found = same["slower"] + same["faster"], slowed["slower"]
    for words, kind in (("as it is, again", False), ("slowed down", True)):
        ratios = [new / old for one in done if one.slowed is kind for old, new in one.pairs]
        print(f"{words:16} pairs differ by {statistics.median(ratios) - 1:+.1%} in the median; {dict(verdicts[kind])}")
    good = false <= MOST_FALSE * same.total() and found >= LEAST_FOUND * slowed.total()
    print(f"called different though the same: {false} of {same.total()}; found: {found} of {slowed.total()}")
    print("holds" if good else "does not hold", f"(at most {MOST_FALSE:.0%} false, at least {LEAST_FOUND:.0%} found)")
    return good


def _verdict(one: Compared) -> str:
    return compare_pairs(DECODE, one.pairs).verdict


if __name__ == "__main__":
    main()
