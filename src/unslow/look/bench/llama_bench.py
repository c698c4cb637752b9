"""What llama-bench wrote, of any version and in any of its formats.

JSON and JSON lines have every repeat; CSV, SQL and the table only their mean.
"""

import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any

import msgspec

from unslow.facts.bench import LARGEST_BENCH_BYTES, BenchRow
from unslow.facts.errors import UserError
from unslow.facts.values import LARGEST_COUNT
from unslow.look.logs.dialect import Text
from unslow.look.logs.llama_bench import model_of, rows_of

MOST_ROWS = 5000
MOST_SAMPLES = 10_000
FASTEST = 1e9  # Tokens per second that no machine reaches
_LONGEST = 1000
_HINT = "it is written by `llama-bench -m MODEL -o json`"
_KV_TYPES = {True: "f16", False: "f32"}
_BACKENDS = {
    "cuda": "CUDA", "opencl": "OpenCL", "vulkan": "Vulkan", "kompute": "Kompute", "metal": "Metal", "sycl": "SYCL",
    "rpc": "RPC", "blas": "BLAS",
}  # fmt: skip
"""Switches of the versions until 2024, which had no list of backends."""


def parse_llama_bench(text: str, source: str) -> tuple[BenchRow, ...]:
    """Every test in its order; UserError where the text is nothing that llama-bench wrote."""
    if len(text) > LARGEST_BENCH_BYTES:
        limit = f"{LARGEST_BENCH_BYTES >> 20} MiB"
        raise UserError(f"{source} is larger than {limit}, so it is not from llama-bench", _HINT)
    found = (map(bench_row, objects) for objects in (_json_objects(text), _table_objects(text, source)))
    rows = next(filter(None, (tuple(islice(filter(None, some), MOST_ROWS + 1)) for some in found)), ())
    if not rows:
        raise UserError(f"{source} holds no test of llama-bench", _HINT)
    if len(rows) > MOST_ROWS:
        raise UserError(f"{source} holds more than {MOST_ROWS} tests", "split it")
    return rows


def _json_objects(text: str) -> Iterator[dict[str, Any]]:
    """The items of an array, which may lack its end where llama-bench was stopped, or one for each line."""
    lines = [line for line in text.splitlines() if line.lstrip().startswith("{")]
    for alternative in ([text], [f"{text[: text.rfind('}') + 1]}]"], lines):
        found = []
        for part in alternative:
            with suppress(msgspec.MsgspecError, RecursionError):
                decoded = msgspec.json.decode(part)
                found += decoded if isinstance(decoded, list) else [decoded]
        if found or alternative is lines:
            yield from (one for one in found if isinstance(one, dict))
            return


def _table_objects(text: str, source: str) -> Iterator[dict[str, Any]]:
    """CSV, SQL and markdown; their one mean stands for all repeats."""
    for row in rows_of(Text(text.splitlines(), source)):
        model = model_of(row)
        known = {
            "model_size": model.weights_bytes.value_or(0),
            "model_n_params": model.parameters.value_or(0),
            "model_type": row.columns.get("model", ""),
        }
        tests = {"n_prompt": row.prompt, "n_gen": row.generated, "n_depth": row.depth, "avg_ts": row.speed}
        yield {**known, **row.columns, **tests}


def bench_row(raw: Mapping[str, Any]) -> BenchRow | None:
    """One test, whatever version wrote it; None where it has no speed."""
    known = {**_older(raw), **raw}
    fields = {f.name: f for f in msgspec.structs.fields(BenchRow)}
    plain = {name: _as(known[name], fields[name].default) for name in fields if name in known}
    good = {name: value for name, value in plain.items() if value is not None}
    row = BenchRow(**good)
    tokens = row.n_prompt + row.n_gen
    if tokens <= 0 or row.n_prompt < 0 or row.n_gen < 0 or row.n_depth < 0:
        return None
    # With speeds that follow from the times, which have more digits; with one of the mean where no repeat is told
    times = tuple(int(ns) for ns in row.samples_ns if ns >= 1)
    speeds = tuple(1e9 * tokens / ns for ns in times) or tuple(ts for ts in row.samples_ts if ts > 0)
    speeds = tuple(speed for speed in speeds or (row.avg_ts,) if 0 < speed <= FASTEST)
    return msgspec.structs.replace(row, samples_ns=times, samples_ts=speeds) if speeds else None


def _older(raw: Mapping[str, Any]) -> dict[str, Any]:
    said: dict[str, Any] = {}
    if isinstance(half := raw.get("f16_kv"), bool):
        said |= {"type_k": _KV_TYPES[half], "type_v": _KV_TYPES[half]}
    if "use_mmap" in raw:
        said["load_mode"] = "mmap" if _as(raw["use_mmap"], default=False) else "none"
    if _as(raw.get("use_direct_io"), default=False):
        said["load_mode"] = "dio"
    if "backends" not in raw and "cuda" in raw:
        said["backends"] = ",".join(name for field, name in _BACKENDS.items() if raw.get(field) is True) or "CPU"
    return said


def _as(value: Any, default: Any) -> Any:
    match default:
        case bool():
            return {"0": False, "1": True, "false": False, "true": True}.get(str(value).casefold())
        case str():
            return str(value)[:_LONGEST] if isinstance(value, str | int | float) else None
        case tuple():
            return tuple(filter(None, map(_number, value[:MOST_SAMPLES]))) if isinstance(value, list) else None
        case float():
            return _number(value)
        case _:
            number = _number(value)
            return None if number is None else int(number)


def _number(value: Any) -> float | None:
    try:
        number = float(value) if isinstance(value, str | int | float) else math.nan
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and abs(number) <= LARGEST_COUNT else None
