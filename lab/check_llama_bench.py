"""How near `unslow bench` comes to llama-bench, and what lies between them: same build, same model, in turns.

    python lab/check_llama_bench.py --server llama-server --bench llama-bench --model M.gguf --threads 8 --rounds 9

Each round asks a llama-server (started here) as the benchmark does, and runs llama-bench with the same numbers: `-n`
is the steps after the first token, `-d` the length of the short prompt, `-p` that of the long one. A prompt is exact to
a token or two, so the long one stays some tokens below a multiple of the ubatch: a token above it would cost a batch of
its own. Ratios are of medians over the rounds, with a bootstrap interval.
"""

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from unslow.commands.bench.bencher import Bencher, BenchWish
from unslow.commands.bench.parts import WAYS, round_of
from unslow.facts.bench import BenchRow, Failure, Pass
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import Known, Origin
from unslow.look.bench.llama_bench import parse_llama_bench
from unslow.look.requests import Target
from unslow.look.sampler import Sampler
from unslow.look.system.live import LiveSystem
from unslow.think.stats.figures import LONG, SHORT, client_decode_rate, decode_rate, figures_of, prefill_rate
from unslow.think.stats.parts import Parts, checked_by_idle, parts_of, step_at

DECODE_WITHIN, PREFILL_WITHIN, CLIENT_WITHIN = 0.03, 0.05, 0.01
LOAD_LIMIT_S, BENCH_LIMIT_S = 180.0, 600.0
AFTER_PROMPT_TOKENS = 16
_RESAMPLES = 4000


class Quiet:
    """Progress that says what stays, and no steps."""

    def say(self, text: str) -> None:
        """A line."""
        print(text, file=sys.stderr, flush=True)

    def step(self, text: str, share: float) -> None:
        """Nothing."""


class Turn(NamedTuple):
    """One round: the server's answers by the way they were asked for, and llama-bench's tests."""

    answers: dict[str, Pass]
    long: Pass
    generated: BenchRow
    read: BenchRow


class Ratio(NamedTuple):
    """Ours over theirs."""

    ours: float
    theirs: float
    low: float
    high: float

    @property
    def value(self) -> float:
        """The ratio of the two levels."""
        return self.ours / self.theirs


def main() -> int:
    """Measure in turns, print, and end with 1 where a criterion does not hold."""
    args = _arguments()
    with _server(args) as pid:
        target = Target(f"http://127.0.0.1:{args.port}", pid=pid)
        subject = Subject(runtime=Runtime(name=Known("llama.cpp", Origin.TOLD, "this script")))
        system = LiveSystem()
        with Sampler(system, [pid], args.hz) as sampler:
            bencher = Bencher(system, subject, target, Quiet(), sampler if args.hz else None)
            short, long = _warm_up(bencher, args)
            turns = [_turn(bencher, args, number, short, long) for number in range(1, args.rounds + 1)]
            parts = checked_by_idle(_parts(turns), sampler.telemetry())
    level = _best_third if args.best else statistics.median
    results = _results(turns, level, gpu=args.gpu_layers not in (None, 0))
    _print_rounds(turns)
    held = _print_results(results)
    _print_parts(parts)
    if args.out:
        args.out.write_bytes(_saved(turns, results, parts, bencher))
    return 0 if held else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", required=True, type=Path)
    parser.add_argument("--bench", required=True, type=Path)
    parser.add_argument("--model", required=True, type=Path)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--gpu-layers", type=int)
    parser.add_argument("--prompt", type=int, default=3580, help="tokens of the long prompt")
    parser.add_argument("--tokens", type=int, default=128, help="tokens of an answer")
    parser.add_argument("--slots", type=int, default=0, help="-np of the server; 0 leaves it as it is")
    parser.add_argument("--flash", choices=("on", "off", "auto"), default="auto")
    parser.add_argument("--hz", type=float, default=0.0, help="of the sampler; 0 does not watch")
    parser.add_argument("--port", type=int, default=9200)
    parser.add_argument("--plain", action="store_true", help="only as the server is set up: more rounds in the time")
    parser.add_argument(
        "--best", action="store_true", help="compare the best third of each: neighbours disturb, and only slow down"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="write everything as JSON")
    return parser.parse_args()


# --- the server ---------------------------------------------------------------------------------------------------


@contextmanager
def _server(args: argparse.Namespace) -> Iterator[int]:
    """A llama-server that is loaded, until the end; a generating one ignores SIGTERM, so it is killed."""
    context = max(4096, args.prompt + args.tokens + 256)
    command = [str(args.server), "-m", str(args.model), "-c", str(context), "--port", str(args.port)]
    command += ["-t", str(args.threads), "-tb", str(args.threads), "-fa", args.flash]
    command += ["-ngl", str(args.gpu_layers)] if args.gpu_layers is not None else []
    command += ["-np", str(args.slots)] if args.slots else []
    print(" ".join(command), flush=True)
    log = Path(tempfile.gettempdir(), f"check_llama_bench.{args.port}.log")
    with log.open("wb") as sink:
        process = subprocess.Popen(command, stdout=sink, stderr=subprocess.STDOUT)
        try:
            _wait(process, args.port, log)
            yield process.pid
        finally:
            process.kill()
            process.wait()
    log.unlink()


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    limit = time.monotonic() + LOAD_LIMIT_S
    while time.monotonic() < limit and process.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2):
                return
        except OSError:
            time.sleep(0.2)
    raise SystemExit("the server did not come up:\n" + log.read_text(errors="replace")[-2000:])


# --- asking ---------------------------------------------------------------------------------------------------------


def _warm_up(bencher: Bencher, args: argparse.Namespace) -> tuple[int, int]:
    """Everything once, so that nothing is cold; how long the prompts are by the server's count."""
    short = _answer(bencher, BenchWish(SHORT, args.tokens, round=0))
    long = _answer(bencher, BenchWish(LONG, AFTER_PROMPT_TOKENS, args.prompt, round=0))
    return short.prompt_tokens, long.prompt_tokens


def _answer(bencher: Bencher, wanted: BenchWish) -> Pass:
    done = bencher.ask(wanted)
    if isinstance(done, Failure):
        raise SystemExit(f"{wanted.case}: {done.kind}: {done.why}")
    return done


def _turn(bencher: Bencher, args: argparse.Namespace, number: int, short: int, long: int) -> Turn:
    """The server and llama-bench, in another order each time."""
    order = [0, 1] if number % 2 else [1, 0]
    done: dict[int, Any] = {}
    for which in order:
        done[which] = _asked(bencher, args, number) if which == 0 else _benched(args, short, long)
    turn = Turn(*done[0], *done[1])
    print(f"round {number} of {args.rounds}: {_line(turn)}", file=sys.stderr, flush=True)
    return turn


def _asked(bencher: Bencher, args: argparse.Namespace, number: int) -> tuple[dict[str, Pass], Pass]:
    ways = WAYS[:1] if args.plain else WAYS
    turned = ways[number % len(ways) :] + ways[: number % len(ways)]
    answers = {
        way.case: _answer(
            bencher,
            BenchWish(
                SHORT if way == WAYS[0] else way.case, args.tokens, round=number, greedy=way.greedy, stream=way.stream
            ),
        )
        for way in turned
    }
    return answers, _answer(bencher, BenchWish(LONG, AFTER_PROMPT_TOKENS, args.prompt, round=number))


def _benched(args: argparse.Namespace, short: int, long: int) -> tuple[BenchRow, BenchRow]:
    """llama-bench for the same steps at the same depth, and for the same prompt; warmed up by itself."""
    generated = _llama_bench(args, "-p", "0", "-n", str(args.tokens - 1), "-d", str(short))
    return generated, _llama_bench(args, "-p", str(long), "-n", "0")


def _llama_bench(args: argparse.Namespace, *test: str) -> BenchRow:
    command = [str(args.bench), "-m", str(args.model), "-t", str(args.threads), "-fa", args.flash, *test]
    command += ["-ngl", str(args.gpu_layers)] if args.gpu_layers is not None else []
    command += ["-r", "1", "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=BENCH_LIMIT_S, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr[-1000:]}")
    return parse_llama_bench(done.stdout, "llama-bench")[0]


# --- what it comes to -------------------------------------------------------------------------------------------------


def _best_third(rates: Iterable[float]) -> float:
    """The level that nothing disturbed."""
    ordered = sorted(rates, reverse=True)
    return statistics.fmean(ordered[: math.ceil(len(ordered) / 3)])


def _results(
    turns: Sequence[Turn], level: Callable[[Iterable[float]], float], *, gpu: bool
) -> dict[str, tuple[Ratio, float | None]]:
    """Every comparison, and how near it has to be; None where it is only shown."""
    usual, greedy, _ = WAYS
    found: dict[str, tuple[list[float], list[float], float | None]] = {
        "decode / llama-bench": (_ours(turns, usual.case), _theirs(turns), None if gpu else DECODE_WITHIN),
        "decode without samplers / llama-bench": (_ours(turns, greedy.case), _theirs(turns), None),
        "prefill / llama-bench": (
            [prefill_rate(turn.long) or 0.0 for turn in turns],
            [turn.read.avg_ts for turn in turns],
            PREFILL_WITHIN,
        ),
        "client's clock / server's": (
            [client_decode_rate(turn.answers[usual.case]) or 0.0 for turn in turns],
            _ours(turns, usual.case),
            CLIENT_WITHIN,
        ),
    }
    return {name: (_ratio(ours, theirs, level), within) for name, (ours, theirs, within) in found.items() if ours}


def _ours(turns: Sequence[Turn], way: str) -> list[float]:
    return [decode_rate(turn.answers[way]) or 0.0 for turn in turns if way in turn.answers]


def _theirs(turns: Sequence[Turn]) -> list[float]:
    return [turn.generated.avg_ts for turn in turns]


def _ratio(ours: Sequence[float], theirs: Sequence[float], level: Callable[[Iterable[float]], float]) -> Ratio:
    """The ratio of levels; rounds are drawn whole, because both of a round met the same machine."""
    draw, count = random.Random(1), len(ours)
    drawn = []
    for _ in range(_RESAMPLES):
        rounds = [draw.randrange(count) for _ in range(count)]
        drawn.append(level(ours[n] for n in rounds) / level(theirs[n] for n in rounds))
    drawn.sort()
    ends = drawn[int(0.025 * _RESAMPLES)], drawn[int(0.975 * _RESAMPLES)]
    return Ratio(level(ours), level(theirs), *ends)


def _parts(turns: Sequence[Turn]) -> Parts:
    """The time of a token by parts, with the step from all rounds of llama-bench."""
    first = turns[0].generated
    samples = tuple(ns for turn in turns for ns in turn.generated.samples_ns)
    step = step_at([msgspec.structs.replace(first, samples_ns=samples)], first.n_depth + first.n_gen / 2)
    parts = parts_of([round_of(turn.answers) for turn in turns], step)
    if parts is None:
        raise SystemExit("no answer was timed")
    return parts


# --- printing ---------------------------------------------------------------------------------------------------------


def _line(turn: Turn) -> str:
    ways = "  ".join(f"{name} {decode_rate(done) or 0:8.2f}" for name, done in sorted(turn.answers.items()))
    client = client_decode_rate(turn.answers[WAYS[0].case]) or 0.0
    return (
        f"{ways}  client {client:8.2f}  llama-bench {turn.generated.avg_ts:8.2f} tok/s | "
        f"prefill {prefill_rate(turn.long) or 0:9.1f}  llama-bench {turn.read.avg_ts:9.1f} tok/s"
    )


def _print_rounds(turns: Sequence[Turn]) -> None:
    print(f"\n{turns[0].generated.test} and {turns[0].read.test}, {turns[0].generated.model_type}; tokens per second\n")
    for number, turn in enumerate(turns, 1):
        print(f"{number:3} {_line(turn)}")
    lengths = {turn.long.prompt_tokens for turn in turns}
    if lengths != {turns[0].read.n_prompt}:
        print(f"    the long prompts had {sorted(lengths)} tokens, llama-bench {turns[0].read.n_prompt}")


def _print_results(results: dict[str, tuple[Ratio, float | None]]) -> bool:
    print(f"\n{'':40}{'ours':>10}{'theirs':>10}{'ratio':>9}{'95 % interval':>18}   criterion")
    for name, (ratio, within) in results.items():
        said = "" if within is None else f"within {within:.0%}: {_verdict(ratio, within)}"
        interval = f"{ratio.low:.4f}-{ratio.high:.4f}"
        print(f"{name:40}{ratio.ours:10.2f}{ratio.theirs:10.2f}{ratio.value:9.4f}{interval:>18}   {said}")
    return all(within is None or abs(ratio.value - 1) <= within for ratio, within in results.values())


def _verdict(ratio: Ratio, within: float) -> str:
    """Whether it holds, and whether the noise allows to say so."""
    if abs(ratio.value - 1) > within:
        return "NO"
    sure = 1 - within <= ratio.low and ratio.high <= 1 + within
    return "yes" if sure else "yes, but the interval is wider than that"


def _print_parts(parts: Parts) -> None:
    print(f"\na token as the client sees it: {parts.seconds * 1e3:.3f} ms, over {parts.rounds} rounds")
    for part in parts.parts:
        seen = part.told_apart or part.seconds  # what is left over is shown in any case
        shown = (
            f"{part.seconds * 1e3:9.3f} ms {part.seconds / parts.seconds:6.1%}" if seen else f"{'none detected':>19}"
        )
        print(f"  {part.name:14}{shown}   {part.low_s * 1e3:8.3f} to {part.high_s * 1e3:8.3f} ms   {part.how}")
    if parts.gpu_idle_s is not None:
        print(f"  the GPU idle  {parts.gpu_idle_s * 1e3:9.3f} ms")
    for note in parts.notes:
        print(f"  {note}")


def _saved(turns: Sequence[Turn], results: dict[str, Any], parts: Parts, bencher: Bencher) -> bytes:
    """Everything, as JSON."""
    passes: Callable[[Any], Any] = msgspec.to_builtins
    return json.dumps(
        {
            "results": {
                name: {**ratio._asdict(), "ratio": ratio.value, "within": within}
                for name, (ratio, within) in results.items()
            },
            "parts": passes(parts),
            "figures": passes(figures_of(bencher.passes).figures),
            "turns": [
                {
                    "answers": {name: passes(done) for name, done in turn.answers.items()},
                    "long": passes(turn.long),
                    "llama_bench": [passes(turn.generated), passes(turn.read)],
                }
                for turn in turns
            ],
        },
        indent=1,
    ).encode()


if __name__ == "__main__":
    sys.exit(main())
