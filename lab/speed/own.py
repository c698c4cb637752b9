"""Our own measurements on one H200, as rows to learn from."""

import json
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lab.h200_speed.questions import DEVICE, question, question_of
from lab.plan_gpu.cases import LONG, MOE, shape_of
from lab.plan_gpu.sheet import read_rows
from lab.speed.table import DATA, Measured

from unslow.think.blueprints import made_up
from unslow.think.speed import rows
from unslow.think.speed.question import SpeedQuestion, prompt_terms, step_terms
from unslow.think.speed.rows import CPU, DEEP, DEEP_FROM, DENSE, PARTIAL, PREFILL

FILES = ("h200_speed_learning.jsonl", "h200_speed_learning_more.jsonl", "h200_speed_measured.jsonl")
SWEEPS = "plan_gpu.jsonl"
_SIMPLE = frozenset({"-ncmoe", "-fa", "-ctk", "-ctv", "-ub", "-b", "-lm"})
BATCHED = "batched"
"""A group of our own: nobody published enough of it to judge by."""
WEIGHT = 0.4
"""There are many of them, all of one machine."""


def own_rows(folder: Path = DATA) -> list[Measured]:
    """Every figure of the learning set that the terms can explain."""
    return [*(m for name in FILES for m in _rows(folder / name)), *_swept(folder / SWEEPS)]


def _swept(path: Path) -> Iterator[Measured]:
    """Long prompts of the mixture of experts with some of them on the host, at all micro-batches."""
    plan = made_up(*shape_of(MOE))
    for row in read_rows(path):
        words = row.get("arguments", ()) if row.get("sweep") == "moe" else ()
        if not set(words) >= {"-lm", "none"} or not set(words[::2]) <= _SIMPLE:
            continue
        told = dict(zip(words[::2], words[1::2], strict=False))
        for heard in row["requests"]:
            if heard["prompt"] == LONG:
                said = {
                    "kind": "prefill", "prompt": heard["prompt_n"], "cpu_moe": int(told["-ncmoe"]), "pinned": True,
                    "micro_batch": int(told.get("-ub", 512)), "kv": told.get("-ctk", "f16"),
                    "tok_s": heard["prompt_per_second"],
                }  # fmt: skip
                yield measured_row(question_of(plan, said), said, {"run": row["arm"]})


def _rows(path: Path) -> Iterator[Measured]:
    for line in path.read_text("utf-8").splitlines():
        row = json.loads(line)
        said = said_of(row)
        if said is None or not said.get("graphs", True) or said.get("runtime") == "transformers":
            continue  # launches one by one are not a sum of terms
        yield measured_row(question(row["model"]["name"], said), said, row)


def measured_row(q: SpeedQuestion, said: dict[str, Any], row: dict[str, Any]) -> Measured:
    """One figure."""
    is_prompt = said["kind"] == "prefill"
    terms = prompt_terms(q, float(said["prompt"]), float(said["micro_batch"])) if is_prompt else step_terms(q)
    seconds = 1 / said["tok_s"] * (1.0 if is_prompt else float(said.get("sequences") or 1))
    some = tuple(t for t in terms if t.seconds)
    backend = "cpu" if said.get("cpu_only") else "cuda"
    return Measured(
        device=DEVICE,
        group=group_of_run(q, said),
        backend=backend,
        family=q.setting.family,
        terms=some,
        seconds=seconds,
        weight=WEIGHT,
        is_trusted=False,
        source=row["run"],
    )


def group_of_run(q: SpeedQuestion, said: dict[str, Any]) -> str:
    """The group that a run is judged in."""
    if said["kind"] == "prefill":
        return PREFILL
    if q.totals is None:
        return CPU
    if q.host is not None:
        return PARTIAL
    if (said.get("sequences") or 1) > 1:
        return BATCHED
    if q.totals.experts > 1:
        return rows.MOE
    return DEEP if float(q.depth) >= DEEP_FROM else DENSE


def said_of(row: dict[str, Any]) -> dict[str, Any] | None:
    """The settings of a line of results, and its figure; None where it is no speed of a model."""
    asked = row.get("asked", {})
    said = {key: asked[key] for key in ("graphs", "cpu_only", "runtime") if key in asked}
    if "samples_ts" in row and isinstance(row["model"], dict):
        samples = row["samples_ts"][1:] or row["samples_ts"]
        return said | {
            "kind": "prefill" if row.get("n_prompt") else "decode", "prompt": row.get("n_prompt", 0),
            "generate": row.get("n_gen", 0), "depth": row.get("n_depth", 0), "gpu_layers": row.get("n_gpu_layers", 99),
            "cpu_moe": row.get("n_cpu_moe", 0), "threads": row.get("n_threads", 16), "kv": row.get("type_k", "f16"),
            "micro_batch": row.get("n_ubatch", 512), "flash": row.get("flash_attn", 1),
            "tok_s": statistics.median(samples),
        }  # fmt: skip
    if "speed_tg" in row and row["pl"] > 1:
        return said | {
            "kind": "decode", "prompt": row["pp"], "generate": row["tg"], "sequences": row["pl"],
            "tok_s": row["speed_tg"],
        }  # fmt: skip
    return None
