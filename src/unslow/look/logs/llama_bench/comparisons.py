"""Rows that differ in one thing alone: what that thing does to the speed."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from unslow.facts.account import Comparison, Metric, Topic
from unslow.look.logs.llama_bench.facts import split_model
from unslow.look.logs.llama_bench.formats import Row

MOST_COMPARISONS = 32
_TOPICS = {
    "quant": Topic.QUANT_TYPE,
    "kv_type": Topic.KV_TYPE,
    "flash_attn": Topic.FLASH_ATTENTION,
    "n_threads": Topic.THREADS,
    "n_batch": Topic.BATCH,
    "n_ubatch": Topic.BATCH,
    "build": Topic.VERSION,
    "backends": Topic.BUILD,
    "n_gpu_layers": Topic.DEVICE,
    "devices": Topic.DEVICE,
    "main_gpu": Topic.DEVICE,
    "gpu_info": Topic.DEVICE,
    "split_mode": Topic.SPLIT_MODE,
    "tensor_split": Topic.SPLIT_MODE,
    "n_depth": Topic.DEPTH,
    "load_mode": Topic.LOAD_MODE,
    "use_mmap": Topic.LOAD_MODE,
    "n_cpu_moe": Topic.EXPERTS,
    "tensor_buft_overrides": Topic.EXPERTS,
}
# what follows from the model or the moment, and so differs whenever anything does
_IGNORED = ("size", "params", "model_size", "model_filename", "test_time", "avg_ns", "stddev_ns", "avg_ts", "stddev_ts")
_IGNORED_TOO = ("samples_ns", "samples_ts", "build_commit", "build_number", "type_k", "type_v", "model", "model_type")


def comparisons_of(rows: Sequence[Row]) -> tuple[Comparison, ...]:
    """The slowest row against the fastest of each set that differs in one column, in the order of the rows."""
    found = [comparison for column in _TOPICS for comparison in _along(column, rows)]
    return tuple(found[:MOST_COMPARISONS])


def _along(column: str, rows: Sequence[Row]) -> Iterator[Comparison]:
    settings = [(_settings(row), row) for row in rows]
    keyed = sorted(((_others(known, column, row), known, row) for known, row in settings), key=lambda each: each[0])
    for _, group in groupby(keyed, key=lambda each: each[0]):
        values = {known.get(column, ""): row for _, known, row in group if column in known}
        if len(values) < 2:  # noqa: PLR2004 (a comparison takes two)
            continue
        slow, fast = min(values, key=lambda v: values[v].speed), max(values, key=lambda v: values[v].speed)
        yield Comparison(
            metric=_metric(values[slow]),
            slow=values[slow].speed,
            fast=values[fast].speed,
            differs=(_TOPICS[column],),
            slow_is=f"{column} {slow[:80]}",
            fast_is=f"{column} {fast[:80]}",
            text=f"{_test(values[slow])}: {column} {slow[:80]} against {fast[:80]}",
            source=values[slow].where,
        )


def _settings(row: Row) -> dict[str, str]:
    columns = row.columns
    name, quant = split_model(columns.get("model") or columns.get("model_type", ""))
    derived = {
        "name": name,
        "quant": quant,
        "kv_type": "/".join(columns[kind] for kind in ("type_k", "type_v") if kind in columns),
        "build": columns.get("build_number", ""),
        "n_depth": str(row.depth),
    }
    plain = {k: v for k, v in columns.items() if k not in (*_IGNORED, *_IGNORED_TOO, "n_prompt", "n_gen", "n_depth")}
    return {k: v for k, v in {**plain, **derived}.items() if v}


def _others(known: dict[str, str], column: str, row: Row) -> tuple[object, ...]:
    """Everything but the column: rows with the same of these differ in nothing else."""
    return (row.prompt, row.generated, *sorted((k, v) for k, v in known.items() if k != column))


def _metric(row: Row) -> Metric:
    return "total" if row.prompt and row.generated else "prefill" if row.prompt else "decode"


def _test(row: Row) -> str:
    parts = (f"pp{row.prompt}" if row.prompt else "", f"tg{row.generated}" if row.generated else "")
    return "+".join(part for part in parts if part)
