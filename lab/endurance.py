"""An hour against a server that stalls, restarts and drops connections: whether every request is rightly counted.

    python -m lab.endurance --server llama-server --model FILE [--minutes 60] [--json FILE]

A real llama-server runs behind a proxy that ill-treats requests by a seeded plan and keeps an account of its own. Now
and then the server is killed and started again, and now and then the proxy refuses connections. The sweep over minutes
asks through it. In the end its ledger is held against the proxy's account, request by request: the kind of every
failure, the tokens of every answer, the pieces that had come. Exit status 0 where the two agree about everything.
"""

import argparse
import json
import random
import resource
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from lab.chaos.account import Account, as_json, compared, ledger
from lab.chaos.deeds import DEEDS
from lab.chaos.proxy import Chaos
from lab.chaos.server import Killable, free_port

from unslow.commands.bench.bencher import FLUSH_EVERY_S, Bencher
from unslow.commands.bench.sweeps import Limits
from unslow.commands.bench.sweeps.minutes import sustained_sweep
from unslow.facts.bench import Sweep
from unslow.facts.snapshot import Subject
from unslow.look.requests import Target
from unslow.look.system.live import LiveSystem

SILENCE_S = 25.0
"""Longer than anything but a stall takes, on a machine that has other work too."""
_EDGE_S = 15.0


class Event(NamedTuple):
    """Something that happens to the server or to the door before it."""

    at_s: float
    kind: str
    seconds: float


def planned(minutes: float, seed: int) -> list[Event]:
    """Kills and refusals, about one of them every two and a half minutes, at least one of each."""
    dice, whole = random.Random(seed), minutes * 60
    count = max(2, round(minutes / 2.5))
    step = (whole - 2 * _EDGE_S) / count
    return [
        Event(_EDGE_S + (n + dice.uniform(0.1, 0.6)) * step, "kill" if n % 2 else "refuse", dice.uniform(1.0, 6.0))
        for n in range(count)
    ]


def happen(events: list[Event], start_s: float, deeds: dict[str, Callable[[float], None]]) -> None:
    """Let each event happen at its time."""
    for event in events:
        time.sleep(max(0.0, start_s + event.at_s - time.monotonic()))
        deeds[event.kind](event.seconds)


class Said:
    """Progress as a line a minute."""

    def __init__(self) -> None:
        self._next_s = 0.0

    def say(self, text: str) -> None:
        """Print it."""
        print(text, flush=True)

    def step(self, text: str, share: float) -> None:
        """Print it where the last one is a minute old."""
        if time.monotonic() >= self._next_s:
            print(f"{share:4.0%} {text}", flush=True)
            self._next_s = time.monotonic() + 60


class Result(NamedTuple):
    """Everything that came of a run."""

    sweep: Sweep
    account: Account
    kills: int
    closures: int
    seconds: float
    cpu_s: float
    longest_unflushed_s: float


def run(options: argparse.Namespace) -> Result:
    """Start everything, ask for so many minutes, end everything, compare."""
    began, flushed = time.monotonic(), [time.monotonic()]
    with tempfile.TemporaryFile() as log:
        server = Killable(options.server, options.model, options.threads, free_port(options.port + 1), log)
        server.start()
        chaos = Chaos(server.port, options.seed, pause_s=(options.pause, 1.5 * options.pause), port=options.port)
        chaos.open()
        try:
            system = LiveSystem()
            target = Target(f"http://127.0.0.1:{chaos.port}", pid=server.pid)
            bencher = Bencher(system, Subject(), target, Said())
            bencher.silence_s = SILENCE_S
            bencher.flush = lambda: flushed.append(time.monotonic())
            plan = planned(options.minutes, options.seed)
            args = (plan, time.monotonic(), {"kill": server.kill_for, "refuse": chaos.refuse_for})
            threading.Thread(target=happen, args=args, daemon=True).start()
            sweep = sustained_sweep(bencher, Limits(values=(options.minutes,), tokens=options.tokens), 0.0)
        finally:
            chaos.close()
            server.end()
    lines = ledger(bencher.passes, bencher.failures, bencher.began_s)
    flushed.append(time.monotonic())
    seen = chaos.seen
    if bencher.interrupted and seen and lines and seen[-1].at_s > lines[-1].at_s + 0.5:
        seen = seen[:-1]  # the last one was not waited for
    return Result(
        sweep=sweep,
        account=_with_sweep(compared(lines, seen, chaos.closed, SILENCE_S, server.kills), sweep),
        kills=len(server.kills),
        closures=len(chaos.closed),
        seconds=time.monotonic() - began,
        cpu_s=sum(_cpu_s(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)),
        longest_unflushed_s=max(b - a for a, b in pairwise(flushed)),
    )


def _with_sweep(account: Account, sweep: Sweep) -> Account:
    """The report must tell the same: in its words and in its points."""
    words = f"{account.asked} requests: {account.answered} answered, {account.failed} failed"
    if words not in sweep.because:
        account.faults.append(f"the report does not say {words!r}: {sweep.because}")
    shown = sum(point.failures for point in sweep.points)
    if shown != account.failed:
        account.faults.append(f"the points of the report show {shown} failures of {account.failed}")
    return account


def _cpu_s(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def show(result: Result) -> None:
    """The table and the verdict."""
    account = result.account
    print(f"\n{'what was done to it':<52}{'requests':>9}  counted as")
    for name, counts in sorted(account.by_deed.items()):
        meaning = f"{name}: {DEEDS[name].meaning}" if name in DEEDS else name
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
        print(f"{meaning:<52}{sum(counts.values()):>9}  {kinds}")
    print(f"{'refused: nobody listened':<52}{account.refused_while_closed:>9}")
    print(f"\n{result.sweep.verdict}: {result.sweep.because}")
    print(f"{result.kills} kills, {result.closures} times nobody listened, {result.seconds / 60:.1f} minutes")
    print(f"tokens of answers: {account.tokens_forwarded} passed on, {account.tokens_counted} in the ledger")
    print(
        f"{account.matched} of {account.asked - account.refused_while_closed} requests agree in kind, time and tokens"
    )
    print(f"written down at the latest after {result.longest_unflushed_s:.0f} s (meant: about {FLUSH_EVERY_S:.0f})")
    print(f"processors used: {result.cpu_s / result.seconds:.2f}")
    for fault in account.faults[:40]:
        print(f"FAULT {fault}")
    print("every request is accounted for" if account.holds else f"{len(account.faults)} faults")


def main() -> int:
    """Run, show, and tell by the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", required=True, help="the llama-server to start")
    parser.add_argument("--model", required=True, help="a GGUF file")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=32, help="of each answer")
    parser.add_argument("--pause", type=float, default=3.0, help="seconds of rest before each request, at least")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--port", type=int, default=9180)
    parser.add_argument("--json", type=Path, help="write the result there too")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what there is by then is compared all the same
    result = run(options)
    show(result)
    if options.json:
        told = {**result._asdict(), "account": as_json(result.account), "seed": options.seed}
        told["sweep"] = {"verdict": result.sweep.verdict, "because": result.sweep.because}
        options.json.write_text(json.dumps(told, indent=1) + "\n")
    return 0 if result.account.holds else 1


if __name__ == "__main__":
    sys.exit(main())
