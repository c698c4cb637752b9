"""How wrong is a capacity beyond what was measured? Held against steps that were timed on a real GPU.

    python -m lab.fleet.capacity_on_gpu

llama-batched-bench on one NVIDIA H200 gives the seconds of a step for 1 to 32 conversations, for a few models
(`lab/data/h200_speed_learning*.jsonl`). Each curve is cut off at every load, and the next loads, twice and four times
as high, are predicted from what is left: by the line alone, without what physics knows of the machine.

`DOUBT` was chosen on these very curves, so how many lie inside of the interval with it is no proof. What it is worth on
a model that was not looked at is the second figure: chosen on all other models, counted on the one left out. The
predictions of one curve share its points, so there are fewer independent ones than are counted.
"""

import json
import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from unslow.fleet.capacity.limits import DOUBT, At, extrapolate

DATA = Path(__file__).parents[1] / "data"
FILES = ("h200_speed_learning.jsonl", "h200_speed_learning_more.jsonl")
FEWEST = 2
"""Loads that a line goes through."""
TIMES = (2.0, 4.0)
TRIED = (0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5)
WANTED = 0.8
"""Of the predictions inside, at each distance."""
_NOISE, _SAMPLES = 1.03, 20
"""As windows of one load differ, and as many of them as an hour has."""


class Predicted(NamedTuple):
    """A load that was left out, and how the prediction from lower ones did."""

    model: str
    times: float
    """How many times the highest load that was kept."""
    error: float
    """Of the seconds of a step, as a share."""
    inside: bool


def curves() -> dict[str, dict[int, float]]:
    """The seconds of a step by how many share it, for each model."""
    found: dict[str, dict[int, float]] = {}
    for name in FILES:
        for line in (DATA / name).read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            if "t_tg" in row:
                found.setdefault(f"{row['run']} {row['model']['name']}", {})[row["pl"]] = row["t_tg"] / row["tg"]
    return found


def predicted(steps_of: Mapping[str, Mapping[int, float]], doubt: float = DOUBT) -> Iterator[Predicted]:
    """Every load that can be predicted from lower ones."""
    for model, steps in steps_of.items():
        loads = sorted(steps)
        for kept in range(FEWEST, len(loads)):
            known = extrapolate([_at(load, steps[load]) for load in loads[:kept]])._replace(doubt=doubt)
            for load in loads[kept:]:
                times = load / loads[kept - 1]
                if times in TIMES:
                    low, mid, high = known.seconds(float(load))
                    yield Predicted(model, times, mid / steps[load] - 1, low <= steps[load] <= high)


def left_out() -> Iterator[Predicted]:
    """The predictions of each model, with the doubt that was chosen on all the others."""
    every = curves()
    for model in every:
        others = {name: steps for name, steps in every.items() if name != model}
        yield from predicted({model: every[model]}, chosen(others))


def chosen(steps_of: Mapping[str, Mapping[int, float]]) -> float:
    """The smallest doubt that was tried with which enough lie inside at each distance."""
    enough = (d for d in TRIED if all(share_inside(list(predicted(steps_of, d)), times) >= WANTED for times in TIMES))
    return next(enough, TRIED[-1])


def share_inside(found: list[Predicted], times: float) -> float:
    """Of those that far."""
    those = [one.inside for one in found if one.times == times]
    return sum(those) / len(those)


def main() -> None:
    """Print one row for each distance."""
    found, unseen = list(predicted(curves())), list(left_out())
    print(f"{len(curves())} models, doubt {DOUBT:g}; chosen on all of them: {chosen(curves()):g}")
    for times in TIMES:
        errors = [one.error for one in found if one.times == times]
        print(
            f"{times:.0f} times the load: {len(errors)} predictions, a step is off by "
            f"{statistics.median(map(abs, errors)):.0%} in the middle ({statistics.median(errors):+.0%} on the whole); "
            f"inside: {share_inside(found, times):.0%} where it was chosen, {share_inside(unseen, times):.0%} left out"
        )


def _at(load: int, seconds: float) -> At:
    return At(float(load), seconds / _NOISE, seconds, seconds * _NOISE, _SAMPLES)


if __name__ == "__main__":
    main()
