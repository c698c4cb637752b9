"""What llama-bench prints: its table in markdown, CSV, JSON, JSON lines or SQL."""

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from unslow.facts.account import Account, Comparison, Topic
from unslow.facts.machine import Cpu, Gpu, Machine
from unslow.facts.model import Model
from unslow.facts.run import Run
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import GIB, MIB, NOT_LOOKED, Fact, estimated_fact, reported_fact
from unslow.look.logs.dialect import LogFacts, Text
from unslow.look.logs.llama_cpp.start_lines import parse_file_type

_MOST = 1e9  # No test is longer or faster
MOST_ROWS = 2000
MOST_COMPARISONS = 32

# rows
_MARKDOWN_NAMES = {
    "ngl": "n_gpu_layers", "sm": "split_mode", "threads": "n_threads", "nkvo": "no_kv_offload", "fa": "flash_attn",
    "lm": "load_mode", "mmap": "use_mmap", "nopo": "no_op_offload", "rpk": "repack", "dev": "devices",
    "ts": "tensor_split", "ot": "tensor_buft_overrides", "backend": "backends", "mg": "main_gpu",
}  # fmt: skip
_TEST = re.compile(r"(?:(pp) ?(\d{1,7}))?\+?(?:(tg) ?(\d{1,7}))?(?: @ d(\d{1,7}))?")
_BUILD = re.compile(r"\bbuild: ([0-9a-f]{6,40}) \((\d{1,7})\)")
_INSERT = re.compile(r"INSERT INTO \w{1,40} \(([^)]{1,2000})\) VALUES \((.{1,4000})\);")
_SPEED = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)")
_LARGEST_OBJECT = 65536

# their columns as facts
_SIZE = re.compile(r"(\d{1,6}(?:\.\d{1,3})?) ([MG]iB)")
_PARAMETERS = re.compile(r"(\d{1,6}(?:\.\d{1,3})?) ([MBT])\b")
_SCALES = {"MiB": MIB, "GiB": GIB, "M": 1e6, "B": 1e9, "T": 1e12}
_SWITCHES = {"0": False, "1": True, "on": True, "off": False, "true": True, "false": False}
_QUANT = re.compile(
    r"\b((?:I?Q\d|T?Q[12]_\d|BF16|F16|F32|all F32|MXFP4|NVFP4|TQ)"
    r"\S{0,40}(?: - \S{1,40}(?: bpw)?| mix\b.{0,80}| MoE)?)\s*$"
)

# comparisons
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
_IGNORED = frozenset({
    "size", "params", "model_size", "model_filename", "test_time", "avg_ns", "stddev_ns", "avg_ts", "stddev_ts",
    "samples_ns", "samples_ts", "build_commit", "build_number", "type_k", "type_v", "model", "model_type", "n_prompt",
    "n_gen", "n_depth",
})  # fmt: skip


class Row(NamedTuple):
    """One test: which, how fast, and every setting that the output shows."""

    prompt: int
    generated: int
    depth: int
    speed: float
    columns: dict[str, str]
    where: str
    line: int


def parse_text(text: Text) -> LogFacts:
    """The last settings that were measured, their speeds, and what made a difference between rows."""
    rows = rows_of(text)
    if not rows:
        return LogFacts()
    compared = comparisons_of(rows)
    account = Account(comparisons=reported_fact(compared, rows[0].where) if compared else NOT_LOOKED)
    subject = Subject(runtime=runtime_of(rows[-1]), model=model_of(rows[-1]), run=run_of(rows), account=account)
    indexes = sorted({row.line for row in rows})
    spans = tuple((index, index + 1) for index in indexes)
    return LogFacts(machine=machine_of(rows[-1]), subject=subject, lines=len(indexes), spans=spans)


def rows_of(text: Text) -> list[Row]:
    """Every row of every output in the text, in their order."""
    found = [*_markdown(text), *_csv(text), *_json(text), *_sql(text)]
    return sorted(found, key=lambda row: row.line)[:MOST_ROWS]


def _markdown(text: Text) -> Iterator[Row]:
    """Tables with a column `t/s`; the line `build:` stands below its table."""
    names: list[str] = []
    waiting: list[Row] = []
    for index, line in enumerate(text.lines):
        if build := _BUILD.search(line):
            commit = {"build_commit": build[1], "build_number": build[2]}
            yield from (row._replace(columns={**row.columns, **commit}) for row in waiting)
            waiting = []
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if "|" in line else []
        if "t/s" in cells and "test" in cells:
            names = [_MARKDOWN_NAMES.get(cell, cell) for cell in cells]
        elif names and len(cells) == len(names):
            columns = dict(zip(names, cells, strict=True))
            test = _TEST.fullmatch(columns.pop("test").replace("pp+tg", ""))
            speed = _SPEED.match(columns.pop("t/s"))
            if speed and test and (test[1] or test[3]):
                prompt, generated, depth = (int(test[group] or 0) for group in (2, 4, 5))
                waiting.append(Row(prompt, generated, depth, float(speed[1]), columns, text.where(index), index))
        elif names and not cells and line.strip():
            names = []
    yield from waiting


def _csv(text: Text) -> Iterator[Row]:
    names: list[str] = []
    for index, line in enumerate(text.lines):
        if line.startswith("build_commit,"):
            names = line.split(",")
        elif names and line.count(",") >= len(names) - 1:
            cells = next(csv.reader([line.replace("\x00", "")]), [])
            yield from _row(dict(zip(names, cells, strict=False)), text, index)
        elif line.strip():
            names = []


def _json(text: Text) -> Iterator[Row]:
    """Objects that begin with `build_commit`: of an array, or one in each line."""
    marks = [index for index, line in enumerate(text.lines) if '"build_commit":' in line]
    for index in marks[:MOST_ROWS]:
        whole = "\n".join(text.lines[max(0, index - 1) : index + 80])
        start = whole.rfind("{", 0, whole.find('"build_commit"'))
        if start < 0:
            continue
        try:
            found = json.JSONDecoder().raw_decode(whole[start : start + _LARGEST_OBJECT])[0]
        except (ValueError, RecursionError):
            continue
        yield from _row({name: str(value) for name, value in found.items()}, text, index)


def _sql(text: Text) -> Iterator[Row]:
    for index, line in enumerate(text.lines):
        if "INSERT INTO" in line and "avg_ts" in line and (found := _INSERT.search(line)):
            names = [name.strip() for name in found[1].split(",")]
            cells = next(csv.reader([found[2]], quotechar="'", skipinitialspace=True), [])
            yield from _row(dict(zip(names, cells, strict=False)), text, index)


def _row(columns: Mapping[str, str], text: Text, index: int) -> Iterable[Row]:
    try:
        numbers = [float(columns.get(name, "0")) for name in ("n_prompt", "n_gen", "n_depth", "avg_ts")]
    except ValueError:
        return ()
    prompt, generated, depth, speed = numbers
    sensible = all(0 <= number < _MOST for number in numbers)  # which not-a-number is not
    if not sensible or not (prompt or generated) or not speed:
        return ()
    kept = {name: value for name, value in columns.items() if len(value) <= 400}  # noqa: PLR2004 (no samples)
    return (Row(int(prompt), int(generated), int(depth), speed, kept, text.where(index), index),)


def _count(text: str, least: int = 1) -> int | None:
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) and int(text) >= least else None


_FACTS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "n_gpu_layers": ("gpu_layers_set", lambda text: _count(text, least=0)),
    "n_threads": ("threads", _count),
    "n_batch": ("batch", _count),
    "n_ubatch": ("ubatch", _count),
    "type_k": ("kv_type_k", lambda text: text or None),
    "type_v": ("kv_type_v", lambda text: text or None),
    "flash_attn": ("flash_attention", lambda text: _SWITCHES.get(text.casefold())),
    "split_mode": ("split_mode", lambda text: text or None),
    "no_kv_offload": ("kv_offload", lambda text: None if (off := _SWITCHES.get(text.casefold())) is None else not off),
    "load_mode": ("load_mode", lambda text: text or None),
    "use_mmap": ("load_mode", {"0": "none", "1": "mmap"}.get),
    "backends": ("backends", lambda text: [word.strip() for word in text.split(",") if word.strip()] or None),
}


def runtime_of(row: Row) -> Runtime:
    """What the row was measured with."""
    facts: dict[str, Any] = {"name": reported_fact("llama.cpp", row.where)}
    for column, (fact, value) in _FACTS.items():
        if column in row.columns and (read := value(row.columns[column])) is not None:
            facts[fact] = reported_fact(read, row.where)
    if number := row.columns.get("build_number"):
        facts["version"] = reported_fact(f"b{number}-{row.columns.get('build_commit', '')}".rstrip("-"), row.where)
    return Runtime().with_facts(**facts)


def model_of(row: Row) -> Model:
    """The model as llama-bench describes it; sizes of the table have two digits."""
    name, quant = split_model(row.columns.get("model") or row.columns.get("model_type", ""))
    path = row.columns.get("model_filename", "")
    return Model(
        name=reported_fact(name, row.where) if name else NOT_LOOKED,
        path=reported_fact(path, row.where) if path else NOT_LOOKED,
        quant=reported_fact(parse_file_type(quant), row.where) if quant else NOT_LOOKED,
        weights_bytes=_amount(row, "model_size", "size", _SIZE),
        parameters=_amount(row, "model_n_params", "params", _PARAMETERS),
    )


def split_model(described: str) -> tuple[str, str]:
    """`llama 8B Q4_K - Medium` as name and quant."""
    quant = _QUANT.search(described.strip())
    return (described[: quant.start()].strip(), quant[1]) if quant else (described.strip(), "")


def _amount(row: Row, exact: str, rounded: str, pattern: re.Pattern[str]) -> Fact[int]:
    if re.fullmatch(r"[0-9]{1,15}", row.columns.get(exact, "")):
        return reported_fact(int(row.columns[exact]), row.where)
    found = pattern.search(row.columns.get(rounded, ""))
    return estimated_fact(round(float(found[1]) * _SCALES[found[2]]), row.where) if found else NOT_LOOKED


def run_of(rows: Sequence[Row]) -> Run:
    """The speeds of the last settings, at the shallowest depth that was measured."""
    facts: dict[str, Any] = {}
    if decode := [row for row in reversed(rows) if row.generated and not row.prompt]:
        row = min(decode, key=lambda row: row.depth)
        facts["decode_tokens_per_s"] = reported_fact(row.speed, row.where)
        facts["depth_tokens"] = reported_fact(row.depth + row.generated // 2, row.where)
    if prefill := [row for row in reversed(rows) if row.prompt and not row.generated]:
        row = min(prefill, key=lambda row: row.depth)
        facts["prefill_tokens_per_s"] = reported_fact(row.speed, row.where)
    return Run(**facts)


def machine_of(row: Row) -> Machine:
    """JSON, CSV and SQL name the processor and the GPUs."""
    cpu, names = row.columns.get("cpu_info", ""), row.columns.get("gpu_info", "")
    gpus = tuple(
        Gpu(index=index, name=reported_fact(name.strip(), row.where))
        for index, name in enumerate(names.split(",")[:64])
        if name.strip()
    )
    return Machine(
        cpu=Cpu(model=reported_fact(cpu, row.where) if cpu else NOT_LOOKED),
        gpus=reported_fact(gpus, row.where) if gpus else NOT_LOOKED,
    )


def comparisons_of(rows: Sequence[Row]) -> tuple[Comparison, ...]:
    """The slowest row against the fastest of each set that differs in one column, in the order of the rows."""
    settings = [(_settings(row), row) for row in rows]
    found: list[Comparison] = []
    for column in _TOPICS:
        sets: dict[tuple[object, ...], dict[str, Row]] = {}
        for known, row in settings:
            if column in known:
                others = sorted((k, v) for k, v in known.items() if k != column)
                sets.setdefault((row.prompt, row.generated, *others), {})[known[column]] = row
        found += [_comparison(column, sets[others]) for others in sorted(sets) if len(sets[others]) > 1]
    return tuple(found[:MOST_COMPARISONS])


def _comparison(column: str, values: dict[str, Row]) -> Comparison:
    slow, fast = min(values, key=lambda v: values[v].speed), max(values, key=lambda v: values[v].speed)
    row = values[slow]
    test = "+".join(f"{kind}{count}" for kind, count in (("pp", row.prompt), ("tg", row.generated)) if count)
    return Comparison(
        metric="total" if row.prompt and row.generated else "prefill" if row.prompt else "decode",
        slow=row.speed,
        fast=values[fast].speed,
        differs=(_TOPICS[column],),
        slow_is=f"{column} {slow[:80]}",
        fast_is=f"{column} {fast[:80]}",
        text=f"{test}: {column} {slow[:80]} against {fast[:80]}",
        source=row.where,
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
    plain = {k: v for k, v in columns.items() if k not in _IGNORED}
    return {k: v for k, v in {**plain, **derived}.items() if v}
