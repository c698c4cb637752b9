"""Predict every run of a plan before it is measured.

python -m lab.h200_speed.predict lab/data/h200_speed_plan.toml > lab/data/h200_speed_predictions.toml
"""

import argparse
from pathlib import Path
from typing import Any

import msgspec
from lab.h200_speed.plan import Run, read_plan
from lab.h200_speed.questions import question
from lab.speed.own import BATCHED, group_of_run

from unslow.think.speed.question import Outcome, decode_outcome, prefill_outcome
from unslow.think.speed.rows import DENSE

OWN_SPREAD = 0.5
"""On a device that was measured before, half of the spread (in logarithms) that a device never seen has."""
_RUNTIMES = ("llama.cpp", "transformers")


def predicted(run: Run) -> tuple[float, float, float] | None:
    """Tokens per second with an interval; None of a run that measures no model."""
    if run.runtime not in _RUNTIMES:
        return None
    said = msgspec.to_builtins(run) | _defaults(run)
    q = question(run.model, said)
    group = group_of_run(q, said)
    known = DENSE if group == BATCHED else group
    found = (
        prefill_outcome(q, float(said["prompt"]), float(said["micro_batch"]))
        if _is_prompt(run)
        else decode_outcome(q, known)
    )
    return _interval(found)


def _defaults(run: Run) -> dict[str, Any]:
    """What a run leaves open, as its programs have it."""
    full = {f.name: getattr(run, f.name) for f in msgspec.structs.fields(run)}
    return full | {"kind": "prefill" if _is_prompt(run) else "decode"}


def _is_prompt(run: Run) -> bool:
    return bool(run.prompt) and not run.generate


def _interval(found: Outcome) -> tuple[float, float, float]:
    low, mid, high = found.rate
    return mid, mid * (low / mid) ** OWN_SPREAD, mid * (high / mid) ** OWN_SPREAD


def main() -> None:
    """Print a table for each run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan", type=Path)
    for run in read_plan(parser.parse_args().plan).runs:
        answer = predicted(run)
        if answer:
            mid, low, high = answer
            print(f'[predictions."{run.name}"]\ntok_s = {mid:.1f}\nlow = {low:.1f}\nhigh = {high:.1f}\n')


if __name__ == "__main__":
    main()
