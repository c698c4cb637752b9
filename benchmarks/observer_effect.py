"""What watching costs: the speed of one long answer, while the sampler is switched on and off again and again.

python benchmarks/observer_effect.py --server llama-server --model FILE.gguf --threads 8     starts its own
python benchmarks/observer_effect.py --url http://127.0.0.1:8080 --pid 1234                  one that runs already

Windows of half a second, watched and not, in the order A B B A: a machine that warms up or has busy neighbours touches
all alike, and each window is held against the one beside it. The moment after a switch does not count. The status is 0
where the ratio of the two speeds lies within 1 % of one.
"""

import argparse
import contextlib
import math
import random
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from itertools import cycle, pairwise
from typing import NamedTuple

from unslow.look.bench.prompts import Prompts
from unslow.look.bench.timing import ask
from unslow.look.requests import AskError, Question, Target
from unslow.look.sampler import Sampler
from unslow.look.system import LookError
from unslow.look.system.live import LiveSystem

LIMIT = 0.01
RESAMPLES = 2000
LOAD_LIMIT_S = 300.0
SETTLE_S = 0.1
FEWEST_TOKENS = 4


class Window(NamedTuple):
    """A stretch of an answer: whether it was watched, and when."""

    watched: bool
    start_s: float
    end_s: float


class Speed(NamedTuple):
    """How fast tokens came in a window."""

    watched: bool
    tokens_per_s: float


def arguments() -> argparse.Namespace:
    """What to ask, and whom."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", help="llama-server to start")
    parser.add_argument("--model", help="the model that it loads")
    parser.add_argument("--threads", type=int, default=0, help="of the server; its own choice without")
    parser.add_argument("--port", type=int, default=9199)
    parser.add_argument("--options", default="", help="more options of the server, such as '-ngl 99'")
    parser.add_argument("--url", help="a llama-server that runs already")
    parser.add_argument("--pid", type=int, help="its process")
    parser.add_argument("--hz", type=float, default=10.0)
    parser.add_argument("--window", type=float, default=0.5, help="seconds")
    parser.add_argument("--answers", type=int, default=8, help="how many long answers")
    parser.add_argument("--tokens", type=int, default=3500, help="of each")
    return parser.parse_args()


@contextlib.contextmanager
def server(options: argparse.Namespace, system: LiveSystem) -> Iterator[Target]:
    """The server to ask; one that was started here ends here."""
    if options.url:
        yield Target(options.url, pid=options.pid)
        return
    if not options.server or not options.model:
        raise SystemExit("give --server and --model, or --url")
    command = [options.server, "-m", options.model, "--port", str(options.port), "-c", "4096", "-np", "1"]
    command += ["-t", str(options.threads)] if options.threads else []
    with subprocess.Popen(
        [*command, *options.options.split()], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            target = Target(f"http://127.0.0.1:{options.port}", pid=process.pid)
            wait_for(system, target, process)
            yield target
        finally:
            process.kill()  # while it generates it ignores everything milder


def wait_for(system: LiveSystem, target: Target, process: subprocess.Popen[bytes]) -> None:
    """Until it answers that it is well."""
    deadline = time.monotonic() + LOAD_LIMIT_S
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(LookError):
            if system.request("GET", f"{target.url}/health").status == 200:
                return
        time.sleep(0.2)
    raise SystemExit("the server did not start")


class Switch(threading.Thread):
    """Watches and does not watch by turns, until it is told to end."""

    def __init__(self, system: LiveSystem, pid: int | None, hz: float, window_s: float) -> None:
        super().__init__(daemon=True)
        self.windows: list[Window] = []
        self.cpus: list[float] = []
        self._system, self._pids, self._hz, self._window_s = system, [pid] if pid else [], hz, window_s
        self._over = threading.Event()

    def run(self) -> None:
        """A B B A, and again."""
        for watched in cycle((True, False, False, True)):
            sampler = Sampler(self._system, self._pids, self._hz) if watched else None
            with sampler or contextlib.nullcontext():
                start = self._system.clock() + SETTLE_S
                if self._over.wait(SETTLE_S + self._window_s):
                    return
                self.windows.append(Window(watched, start, self._system.clock()))
            self.cpus += [sampler.telemetry().cost.cpus] if sampler else []

    def end(self) -> None:
        """No more windows; one that was not whole does not count."""
        self._over.set()
        self.join()


def answered(
    system: LiveSystem, target: Target, prompt: str, options: argparse.Namespace
) -> tuple[list[Speed], Switch]:
    """The windows of one long answer, in order."""
    switch = Switch(system, target.pid, options.hz, options.window)
    start = system.clock()
    switch.start()
    try:
        arrivals = [start + at for at in ask(system, target, Question(prompt, options.tokens, greedy=True)).arrivals_s]
    except AskError as error:
        raise SystemExit(error.why) from error
    finally:
        switch.end()
    return [found for window in switch.windows if (found := speed(window, arrivals))], switch


def speed(window: Window, arrivals: Sequence[float]) -> Speed | None:
    """Tokens over time between the first and the last of the window; None where there are too few."""
    inside = [at for at in arrivals if window.start_s <= at <= window.end_s]
    if len(inside) < FEWEST_TOKENS:
        return None
    return Speed(window.watched, (len(inside) - 1) / (inside[-1] - inside[0]))


def gains(speeds: Sequence[Speed]) -> list[float]:
    """By how much each watched window is faster than its neighbour that was not, in logarithms."""
    pairs = [(a, b) if a.watched else (b, a) for a, b in pairwise(speeds) if a.watched != b.watched]
    return [math.log(watched.tokens_per_s / alone.tokens_per_s) for watched, alone in pairs]


def typical(values: Sequence[float]) -> float:
    """The mean of the middle half: an outlier does not move it."""
    ordered, cut = sorted(values), len(values) // 4
    return statistics.fmean(ordered[cut : len(ordered) - cut])


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Where the typical value lies in 95 of 100 drawings."""
    draw = random.Random(1)
    drawn = sorted(typical(draw.choices(values, k=len(values))) for _ in range(RESAMPLES))
    return drawn[int(0.025 * RESAMPLES)], drawn[int(0.975 * RESAMPLES)]


def measured(system: LiveSystem, target: Target, options: argparse.Namespace) -> tuple[list[float], list[float], float]:
    """All gains, the speeds unwatched, and the processors that watching took; Ctrl-C keeps what is there."""
    prompts = Prompts(system, target)
    found: list[float] = []
    alone: list[float] = []
    cpus: list[float] = []
    with contextlib.suppress(KeyboardInterrupt):
        for number in range(options.answers):
            speeds, switch = answered(system, target, prompts.prompt(), options)
            found += gains(speeds)
            alone += [one.tokens_per_s for one in speeds if not one.watched]
            cpus += switch.cpus
            print(f"\ranswer {number + 1} of {options.answers}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return found, alone, statistics.fmean(cpus) if cpus else 0.0


def table(found: Sequence[float], alone: Sequence[float], cpus: float, options: argparse.Namespace) -> bool:
    """Print it; whether it is within the limit."""
    now, (low, high) = math.exp(typical(found)), map(math.exp, interval(found))
    within = abs(now - 1) <= LIMIT
    sure = "" if low >= 1 - LIMIT and high <= 1 + LIMIT else ", but the interval is wider: more answers"
    print(f"{len(found)} pairs of {options.window:g} s; not watched: {statistics.median(alone):.1f} tokens/s")
    print(f"watched {options.hz:g} times a second: {now:.4f} of that ({low:.4f} to {high:.4f} with 95 % confidence)")
    print(f"the sampler uses {cpus:.4f} processors, its starts included")
    print(f"within {LIMIT:.0%}: {'yes' if within else 'NO'}{sure}")
    return within


def main() -> int:
    """0 where watching does not show, 1 where it does."""
    options, system = arguments(), LiveSystem()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the server ends with this
    with server(options, system) as target:
        found, alone, cpus = measured(system, target, options)
    if not found:
        raise SystemExit("no answer was finished")
    return 0 if table(found, alone, cpus, options) else 1


if __name__ == "__main__":
    sys.exit(main())
