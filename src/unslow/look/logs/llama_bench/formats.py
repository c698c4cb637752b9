"""The rows of llama-bench in each of its formats, with columns by the names that JSON and CSV give them."""

import csv
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from unslow.look.logs.dialect import Text

MOST_ROWS = 2000
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


class Row(NamedTuple):
    """One test: which, how fast, and every setting that the output shows."""

    prompt: int
    generated: int
    depth: int
    speed: float
    columns: dict[str, str]
    where: str
    line: int


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
            yield from (_with_build(row, build[1], build[2]) for row in waiting)
            waiting = []
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if "|" in line else []
        if "t/s" in cells and "test" in cells:
            names = [_MARKDOWN_NAMES.get(cell, cell) for cell in cells]
        elif names and len(cells) == len(names) and (row := _markdown_row(names, cells, text, index)):
            waiting.append(row)
        elif names and not cells and line.strip():
            names = []
    yield from waiting


def _markdown_row(names: list[str], cells: list[str], text: Text, index: int) -> Row | None:
    columns = dict(zip(names, cells, strict=True))
    test = _TEST.fullmatch(columns.pop("test").replace("pp+tg", ""))
    speed = _SPEED.match(columns.pop("t/s"))
    if not speed or not test or not (test[1] or test[3]):
        return None
    prompt, generated, depth = (int(test[group] or 0) for group in (2, 4, 5))
    return Row(prompt, generated, depth, float(speed[1]), columns, text.where(index), index)


def _with_build(row: Row, commit: str, number: str) -> Row:
    return row._replace(columns={**row.columns, "build_commit": commit, "build_number": number})


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
        first = max(0, index - 1)
        whole = "\n".join(text.lines[first : index + 80])
        start = whole.rfind("{", 0, whole.find('"build_commit"'))
        if start >= 0 and isinstance(found := _decoded(whole[start : start + _LARGEST_OBJECT]), dict):
            yield from _row({name: str(value) for name, value in found.items()}, text, index)


def _decoded(text: str) -> Any:
    try:
        return json.JSONDecoder().raw_decode(text)[0]
    except (ValueError, RecursionError):
        return None


def _sql(text: Text) -> Iterator[Row]:
    for index, line in enumerate(text.lines):
        if "INSERT INTO" in line and "avg_ts" in line and (found := _INSERT.search(line)):
            names = [name.strip() for name in found[1].split(",")]
            cells = next(csv.reader([found[2]], quotechar="'", skipinitialspace=True), [])
            yield from _row(dict(zip(names, cells, strict=False)), text, index)


def _row(columns: Mapping[str, str], text: Text, index: int) -> Iterable[Row]:
    numbers = [_number(columns.get(name, "0")) for name in ("n_prompt", "n_gen", "n_depth", "avg_ts")]
    prompt, generated, depth, speed = numbers
    if None in numbers or not (prompt or generated) or not speed:
        return ()
    kept = {name: value for name, value in columns.items() if len(value) <= 400}  # noqa: PLR2004 (no samples)
    return (Row(int(prompt or 0), int(generated or 0), int(depth or 0), speed, kept, text.where(index), index),)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and 0 <= value < 1e9 else None  # noqa: PLR2004 (no test is longer or faster)
