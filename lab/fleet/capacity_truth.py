"""Does the capacity of a fleet come true? A real llama-server behind a real Prometheus, at 1, 2, 4 and 8 users.

    python -m lab.fleet.capacity_truth --server llama-server --model FILE.gguf [--seconds 300] [--save FILE.json]

From what Prometheus saw of the levels before, it predicts what each user gets at the third and the fourth, and how many
users reach the speed that was measured there; then it holds both against that level. Keep the machine quiet: the server
takes `--threads`, and whoever else computes is measured with it. Exit status 1: the last level lies
outside of the interval.
"""

import argparse
import contextlib
import json
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from lab.fleet.capacity_load import Level, level, llama_server
from lab.fleet.prometheus import Scrape, program, started

from unslow.fleet.capacity.curves import Grid, curve_queries, moments_of
from unslow.fleet.capacity.limits import InstanceGroup, Moment, extrapolate, gaps_of
from unslow.fleet.capacity.report import Goal
from unslow.fleet.capacity.users import instance_capacity
from unslow.fleet.prometheus.answers import AnsweredCurves
from unslow.fleet.prometheus.client import Prometheus
from unslow.fleet.prometheus.connection import Access
from unslow.fleet.queries import Options

PLACES = 8
WINDOW_S = 15.0
_SETTLE_S = 3.0
_FEWEST = 2
"""Levels from which another is predicted: one tells no slope."""


class Compared(NamedTuple):
    """The last level as predicted from the others, and as it was."""

    users: float
    predicted_tokens_per_s: tuple[float, float, float]
    measured_tokens_per_s: float
    predicted_users: tuple[float, float, float]

    @property
    def error(self) -> float:
        """Of the middle, as a share of the truth."""
        return self.predicted_tokens_per_s[1] / self.measured_tokens_per_s - 1

    @property
    def inside(self) -> bool:
        """Whether the truth lies within the interval."""
        return self.predicted_tokens_per_s[0] <= self.measured_tokens_per_s <= self.predicted_tokens_per_s[2]


def main() -> int:
    """Measure, predict, compare."""
    asked = _parser().parse_args()
    users = [int(text) for text in asked.levels.split(",")]
    with ExitStack() as ending:
        folder = Path(ending.enter_context(tempfile.TemporaryDirectory()))
        address = ending.enter_context(llama_server(asked.server, asked.model, PLACES, asked.threads, folder))
        scrape = Scrape(
            address, "/metrics", {"job": "llama-server", "instance": "truth:8080", "model": asked.model.stem}
        )
        prometheus = ending.enter_context(started(program(), folder, [scrape]))
        level(address, 1, _SETTLE_S)
        levels = [level(address, number, asked.seconds) for number in users]
        asking = ending.enter_context(contextlib.closing(Prometheus(Access(url=prometheus.url))))
        taken = recorded(asking, levels)
    if asked.save:
        asked.save.write_text(json.dumps(taken, indent=1) + "\n", encoding="utf-8")
    print(*(f"{one.users} users: {one.tokens_per_s:.1f} tok/s each by the answers" for one in levels), sep="\n")
    found = [compare(taken, place) for place in range(_FEWEST, len(levels))]
    print(*map(said, found), sep="\n")
    return 0 if found[-1].inside else 1


def recorded(prometheus: Prometheus, levels: list[Level]) -> dict[str, Any]:
    """What Prometheus tells of the levels, window by window."""
    points = int((levels[-1].end_s - levels[0].start_s) / WINDOW_S)
    grid = Grid(levels[-1].end_s - WINDOW_S * (points - 1), WINDOW_S, points, WINDOW_S)
    curves = {
        query.name: _plain(prometheus.curves(query.promql, grid.start_s, grid.end_s, grid.step_s, query.name))
        for query in curve_queries(Options(), WINDOW_S)
    }
    return {"levels": [one._asdict() for one in levels], "grid": grid._asdict(), "curves": curves}


def compare(taken: dict[str, Any], place: int = -1) -> Compared:
    """From windows that lie inside of the levels before one, against those inside of it: the last unless told."""
    levels = [Level(**one) for one in taken["levels"]]
    before = [moment for one in levels[:place] for moment in _moments(taken, one)]
    truth = gaps_of(_moments(taken, levels[place]))[-1]
    speed = 1 / truth.mid_s
    low, mid, high = extrapolate(gaps_of(before)).seconds(truth.requests)
    like = InstanceGroup(runtime="llama.cpp", model="", devices="", instances=1, moments=tuple(before))
    limit = instance_capacity(like, Goal(tokens_per_s=speed)).limit
    reached = (limit.low, limit.mid, limit.high) if limit else (0.0, 0.0, 0.0)
    return Compared(truth.requests, (1 / high, 1 / mid, 1 / low), speed, reached)


def said(compared: Compared) -> str:
    """The comparison in words."""
    low, mid, high = compared.predicted_tokens_per_s
    fewest, likely, most = compared.predicted_users
    return (
        f"{compared.users:.1f} users at once: predicted {mid:.1f} tok/s each ({low:.1f} to {high:.1f}), measured "
        f"{compared.measured_tokens_per_s:.1f}: {compared.error:+.0%}\n"
        f"users at {compared.measured_tokens_per_s:.1f} tok/s: predicted {likely:.1f} ({fewest:.1f} to {most:.1f}), "
        f"in truth {compared.users:.1f}"
    )


def _moments(taken: dict[str, Any], one: Level) -> list[Moment]:
    """Those whose whole window lies inside of a level."""
    grid = Grid(**taken["grid"])
    earliest = one.start_s + grid.window_s
    inside = [n for n in range(grid.points) if earliest <= grid.start_s + n * grid.step_s <= one.end_s]
    rows = {name: _row(grid, curve) for name, curve in taken["curves"].items() if curve}
    return list(moments_of({name: [row[n] for n in inside] for name, row in rows.items()}, grid.window_s))


def _row(grid: Grid, curve: list[list[float]]) -> list[float | None]:
    known = {round((at - grid.start_s) / grid.step_s): value for at, value in curve}
    return [known.get(n) for n in range(grid.points)]


def _plain(answer: AnsweredCurves) -> list[list[float]]:
    if answer.failure or len(answer.curves) > 1:
        sys.exit(f"{answer.failure or 'more than one server'}")
    return [list(pair) for curve in answer.curves for pair in zip(curve.times_s, curve.values, strict=True)]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", type=Path, required=True, help="the llama-server to start")
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=100.0, help="of each level")
    parser.add_argument("--levels", default="1,2,4,8", help="users; the last is predicted from the others")
    parser.add_argument("--threads", type=int, default=1, help="of the server")
    parser.add_argument("--save", type=Path, help="where what Prometheus saw is written")
    return parser


if __name__ == "__main__":
    sys.exit(main())
