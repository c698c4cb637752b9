"""Prove that comparisons of benchmarks tell a slowdown from noise, on real runs.

A server of our own is benchmarked in turns: as it is, and slowed down by a tenth through stopping its process for 2 ms
of every 20. Each plain benchmark is held against the next plain one, and must be called the same; and against the
slowed one that follows it, which must be called slower:

    python -m lab.check_noise --command 'llama-server -m model.gguf -t 2' --save lab/data/noise_same_server.json
    python -m lab.check_noise --command 'llama-server -m model.gguf -t 2' --restart --save lab/data/noise_restarts.json
    python -m lab.check_noise --from lab/data/noise_restarts.json

Without --command and --model it is the embedded engine on a made-up model. With --restart each benchmark has a process
of its own. `--from` works everything out again from a file. The exit status is 1 where more than 5 % of the same are
called different, or fewer than 90 % of the slowed are found.
"""

import argparse
import math
import statistics
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from lab.noise.runs import Plan, Recording, Run, runs_of

from unslow.commands.bench.protocol import Protocol
from unslow.facts.bench import DECODE, LOWER_IS_BETTER, Bench, Comparison
from unslow.think.stats.comparison import BEST_THIRD_VARIANCE, compare_benches, level_of, lost_to_others, usual_variance

MOST_FALSE, LEAST_FOUND = 0.05, 0.90
MOST_WAITED = 0.15
OVERALL = "all together"
_WIDTHS = {"the same: differs": 18, "cannot tell": 12, "slowed: found": 14, "can't tell": 12, "a tenth: found": 15}
_COLUMNS = f"{'figure':28} " + " ".join(f"{name:>{width}}" for name, width in _WIDTHS.items())
TENTH = 0.9


class Tally(NamedTuple):
    """What was said of pairs of the same, and of slowed ones."""

    same: Counter[str]
    slowed: Counter[str]
    tenth: Counter[str]
    """Of the same again, with a tenth taken off every speed: real noise, and a slowdown that is exact."""

    @property
    def holds(self) -> bool:
        """Whether that is good enough."""
        whole = max(1, self.same.total())
        return self.false <= MOST_FALSE * whole and self.found >= LEAST_FOUND * max(1, self.slowed.total())

    @property
    def false(self) -> int:
        """Pairs of the same that were called different."""
        return self.same["slower"] + self.same["faster"]

    @property
    def found(self) -> int:
        """Slowed ones that were called so."""
        return self.slowed["slower"]


def main() -> None:
    """Measure or read, judge, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", help="that starts the server")
    parser.add_argument("--model", help="a GGUF file, or the name of a made-up model, for the embedded engine")
    parser.add_argument("--restart", action="store_true", help="a new process for each benchmark")
    parser.add_argument("--turns", type=int, default=40, help="comparisons of each kind")
    parser.add_argument("--tokens", type=int, default=128, help="of each answer")
    parser.add_argument("--prompt", type=int, default=256, help="tokens of the long prompt")
    parser.add_argument("--rounds", type=int, default=3, help="of two short questions and a long one")
    parser.add_argument("--share", type=float, default=0.10, help="of the time that the server is stopped")
    parser.add_argument("--period", type=float, default=20.0, help="of the stopping, in ms")
    parser.add_argument("--save", type=Path, metavar="FILE")
    parser.add_argument("--from", dest="source", type=Path, metavar="FILE")
    args = parser.parse_args()
    recording = msgspec.json.decode(args.source.read_bytes(), type=Recording) if args.source else _measured(args)
    sys.exit(0 if _shown(recording) else 1)


def _measured(args: argparse.Namespace) -> Recording:
    protocol = Protocol("quick", args.tokens, args.prompt, 16, args.rounds, args.rounds)
    plan = Plan(args.turns, args.restart, args.share, args.period / 1e3, protocol)
    runs: list[Run] = []
    try:
        for run in runs_of(args.model, args.command, plan):
            runs.append(run)
            if args.save:
                args.save.write_bytes(_encoded(_recording(args, runs)))
    except KeyboardInterrupt:
        print("\nstopped; what was measured counts", file=sys.stderr)
    return _recording(args, runs)


def _recording(args: argparse.Namespace, runs: Sequence[Run]) -> Recording:
    what = Path(args.command.split()[0]).name if args.command else f"the embedded engine on {args.model or 'a model'}"
    return Recording(what, args.restart, args.share, args.tokens, tuple(runs))


def _encoded(recording: Recording) -> bytes:
    return msgspec.json.format(msgspec.json.encode(recording), indent=0) + b"\n"


def _shown(recording: Recording) -> bool:
    """Print what the statistics make of it; whether that is good enough."""
    runs = {(run.turn, run.kind): run for run in recording.runs}
    turns = [turn for turn, kind in runs if kind == "slowed" and (turn + 1, "plain") in runs]
    if not turns:
        raise SystemExit("no turn was measured whole")
    _print_runs(recording, runs, turns)
    good = True
    for words, learned in (("with what is usual", False), ("with what earlier runs taught", True)):
        tallies = _tallies(runs, turns, learned=learned)
        print(f"\n{words}\n{_COLUMNS}")
        for name, tally in tallies.items():
            print(_row(name, tally))
        good = good and tallies[OVERALL].holds and tallies[DECODE].holds
    print(
        "\nholds" if good else "\ndoes not hold", f"(at most {MOST_FALSE:.0%} false, at least {LEAST_FOUND:.0%} found)"
    )
    return good


def _tallies(runs: dict[tuple[int, str], Run], turns: Sequence[int], *, learned: bool) -> dict[str, Tally]:
    tallies: dict[str, Tally] = {OVERALL: Tally(Counter(), Counter(), Counter())}
    history: list[Bench] = []
    for turn in turns:
        plain, slowed, again = (runs[key].bench for key in ((turn, "plain"), (turn, "slowed"), (turn + 1, "plain")))
        earlier = tuple(history) if learned else ()
        _count(tallies, compare_benches(plain, again, earlier), "same")
        _count(tallies, compare_benches(plain, slowed, earlier), "slowed")
        _count(tallies, compare_benches(plain, slower(runs[turn + 1, "plain"]).bench, earlier), "tenth")
        history.append(plain)
    return tallies


def _count(tallies: dict[str, Tally], comparison: Comparison, kind: str) -> None:
    verdicts = {OVERALL: comparison.verdict, **{one.metric: one.verdict for one in comparison.differences}}
    for name, verdict in verdicts.items():
        tally = tallies.setdefault(name, Tally(Counter(), Counter(), Counter()))
        {"same": tally.same, "slowed": tally.slowed, "tenth": tally.tenth}[kind][verdict] += 1


def slower(run: Run) -> Run:
    """The run as it would be a tenth slower."""
    taken = {
        name: tuple(value / TENTH if name in LOWER_IS_BETTER else value * TENTH for value in values)
        for name, values in run.samples.items()
    }
    return msgspec.structs.replace(run, samples=taken)


def _row(name: str, tally: Tally) -> str:
    same, slowed = tally.same.total(), tally.slowed.total()
    return (
        f"{name:28} {tally.false:>11} of {same:<3} {tally.same['cannot_tell']:>12} "
        f"{tally.found:>7} of {slowed:<3} {tally.slowed['cannot_tell']:>12} "
        f"{tally.tenth['slower']:>8} of {tally.tenth.total():<3}"
    )


def _print_runs(recording: Recording, runs: dict[tuple[int, str], Run], turns: Sequence[int]) -> None:
    """What was measured, and how much it varies: the numbers behind `_USUAL`."""
    kind = "a new process each" if recording.restart else "one process"
    print(f"{recording.command}, {kind}: {len(runs)} benchmarks, {len(turns)} turns, {recording.tokens} tokens each")
    stopped = statistics.fmean(runs[turn, "slowed"].stopped for turn in turns)
    print(f"slowed by stopping it for {stopped:.1%} of the time ({recording.share:.0%} wanted)")
    waited = statistics.median(lost_to_others(run.bench) for run in runs.values())
    if waited > MOST_WAITED:
        print(
            f"other programs made the server's threads wait ({waited:.0%}), and one that is stopped at times is given "
            "more of the processors later: slowed or not, these runs prove nothing"
        )
    print(f"{'figure':28} {'median':>10} {'slowed to':>10} {'repeats ±':>10} {'runs ±':>8} {'taken as':>15}")
    known = [set(run.samples) for run in runs.values()]
    for name in (name for name in runs[turns[0], "plain"].samples if all(name in names for names in known)):
        print(_noise_row(name, runs, turns))


def _noise_row(name: str, runs: dict[tuple[int, str], Run], turns: Sequence[int]) -> str:
    plain, slowed, again = (
        [level for key in keys if (level := level_of(name, runs[key].samples[name]))]
        for keys in zip(*(((t, "plain"), (t, "slowed"), (t + 1, "plain")) for t in turns), strict=True)
    )
    repeat = math.sqrt(statistics.fmean(level.scatter**2 for level in plain))
    apart = statistics.fmean((b.log - a.log) ** 2 for a, b in zip(plain, again, strict=True)) / 2
    within = statistics.fmean(BEST_THIRD_VARIANCE * repeat**2 / level.repeats for level in plain)
    middle = statistics.median(value for t in turns for value in runs[t, "plain"].samples[name])
    slower = math.exp(statistics.median(b.log - a.log for a, b in zip(plain, slowed, strict=True)))
    taken = usual_variance(name)
    return (
        f"{name:28} {middle:10.4g} {slower:10.3f} {repeat:10.1%} {math.sqrt(max(0.0, apart - within)):8.1%} "
        f"{taken.repeat:7.1%} {taken.run:7.1%}"
    )


if __name__ == "__main__":
    main()
