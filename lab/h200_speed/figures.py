"""The figures in files of results, one for each thing measured, and how far predictions are from them.

    python -m lab.h200_speed.figures RESULTS.jsonl                                  a table of all
    python -m lab.h200_speed.figures RESULTS.jsonl --predicted PREDICTIONS.toml     beside what was predicted

The first repetition warms up (clocks, kernels that are loaded when first used) and does not count where there are
others. PREDICTIONS.toml holds a table [predictions.NAME] for each run of a plan, with tok_s, low and high.
"""

import argparse
import json
import statistics
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple


class Figure(NamedTuple):
    """Tokens per second of one thing, all sequences together, and how much the repetitions differ."""

    run: str
    section: str
    model: Any
    kind: str
    """decode or prefill"""
    settings: dict[str, Any]
    tok_s: float
    spread: float
    """Between the slowest and the fastest repetition, as a share."""

    @property
    def words(self) -> str:
        """The settings that say which figure of a run it is."""
        return " ".join(f"{key} {value}" for key, value in self.settings.items() if value not in (None, "f16"))


_SETTINGS = {
    "n_prompt": "prompt", "n_gen": "generate", "n_depth": "depth", "n_gpu_layers": "gpu_layers", "n_cpu_moe": "cpu_moe",
    "n_threads": "threads", "n_ubatch": "micro_batch", "type_k": "kv", "flash_attn": "flash", "batch": "sequences",
}  # fmt: skip


def figures(path: Path) -> Iterator[Figure]:
    """Everything in a file that is a speed of a model."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    batched = [row for row in rows if "speed_tg" in row]
    for row in rows:
        if "samples_ts" in row:
            yield _alone(row)
    for first, second in _rounds(batched):
        yield _together(first, second)


def _alone(row: dict[str, Any]) -> Figure:
    samples = row["samples_ts"][1:] or row["samples_ts"]
    settings = {ours: row[theirs] for theirs, ours in _SETTINGS.items() if theirs in row}
    spread = (max(samples) - min(samples)) / statistics.median(samples)
    kind = "prefill" if row.get("n_prompt") else "decode"
    return Figure(row["run"], row["section"], row["model"], kind, settings, statistics.median(samples), spread)


def _rounds(rows: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Each number of sequences of a run, as first and as second measured."""
    seen: dict[tuple[str, int], dict[str, Any]] = {}
    for row in rows:
        key = row["run"], row["pl"]
        if key in seen:
            yield seen[key], row
        seen[key] = row


def _together(first: dict[str, Any], second: dict[str, Any]) -> Figure:
    settings = {"sequences": second["pl"], "prompt": second["pp"], "generate": second["tg"]}
    rate = second["speed_tg"]
    spread = abs(first["speed_tg"] - rate) / rate
    return Figure(second["run"], second["section"], second["model"], "decode", settings, rate, spread)


def compared(found: list[Figure], predictions: dict[str, dict[str, float]]) -> Iterator[str]:
    """A line for each prediction that was measured, and the median error."""
    errors = []
    for one in found:
        said = predictions.get(one.run)
        if said:
            errors.append(abs(said["tok_s"] / one.tok_s - 1))
            inside = "" if said["low"] <= one.tok_s <= said["high"] else "outside"
            yield f"{one.run:50} {said['tok_s']:9.1f} {one.tok_s:9.1f} {said['tok_s'] / one.tok_s - 1:+7.1%} {inside}"
    if errors:
        yield f"median error {statistics.median(errors):.1%}, worst {max(errors):.1%}, of {len(errors)}"


def main() -> None:
    """Print one of the two tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, nargs="+")
    parser.add_argument("--predicted", type=Path)
    asked = parser.parse_args()
    found = [figure for path in asked.results for figure in figures(path)]
    if asked.predicted:
        print(*compared(found, tomllib.loads(asked.predicted.read_text())["predictions"]), sep="\n")
        return
    for one in found:
        print(f"{one.run:22} {one.kind:8} {one.tok_s:10.1f} ±{one.spread:4.0%}  {one.words}")


if __name__ == "__main__":
    main()
