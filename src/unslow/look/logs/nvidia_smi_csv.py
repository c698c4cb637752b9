"""`nvidia-smi --query-gpu=… --format=csv` and `--query-compute-apps`: tables whose header names the columns."""

import re
from collections import deque
from collections.abc import Sequence

from unslow.facts.machine import Gpu, GpuProcess
from unslow.facts.values import Fact, not_found, reported
from unslow.look.logs import nvidia_values as values
from unslow.look.logs.nvidia_columns import COLUMNS, row_facts
from unslow.look.logs.nvidia_gpu import gpu_process, nvidia_gpu

GPU_SOURCE = "nvidia-smi --query-gpu"
APPS_SOURCE = "nvidia-smi --query-compute-apps"
Row = dict[str, str]
"""The printed values by column name, which is written here without its unit."""

_MOST_GPUS = 64
_MOST_ROWS = 50_000  # the latest ones: nearly three hours at five rows a second
_NAME = re.compile(r"[a-z][a-z0-9_.]*")
_UNIT = re.compile(r"\s*\[[^\[\]]*\]$")
_COMMAND = re.compile(r"--query-(?:gpu|compute-apps)=([a-z0-9_.,]+)")
_IDENTITIES = ("uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id")
_KNOWN = COLUMNS | {*_IDENTITIES, "index", "timestamp", "pid", "process_name", "used_gpu_memory", "used_memory"}


def parse_query_gpu(text: str, columns: Sequence[str] = ()) -> tuple[Gpu, ...]:
    """Each GPU as its latest row says; `columns` are those of a table without a header."""
    return gpus_of(parse_rows(text, columns), GPU_SOURCE)


def parse_compute_apps(text: str) -> Fact[list[GpuProcess]]:
    """The processes of a table that has at least their ids; a header without rows is an empty list."""
    rows = [row for row in parse_rows(text) if values.process_id(row.get("pid", "")) is not None]
    if not rows and not any("pid" in (_header(line) or ("", []))[1] for line in values.plain_lines(text)):
        return not_found("no table of GPU processes")
    return reported([_process(row) for row in rows], APPS_SOURCE)


def _process(row: Row) -> GpuProcess:
    name, used = row.get("process_name", ""), row.get("used_gpu_memory", row.get("used_memory", ""))
    size = values.quantity(used, "MiB", APPS_SOURCE)
    return gpu_process(int(row["pid"]), values.word(name, APPS_SOURCE), size)


def parse_rows(text: str, columns: Sequence[str] = ()) -> list[Row]:
    """The rows below the header, or below the command that names the columns, or of the columns given."""
    names, prefix, ends = list(columns), "", False
    rows: deque[Row] = deque(maxlen=_MOST_ROWS)
    for line in values.plain_lines(text):
        if command := _COMMAND.search(line):
            names, prefix, ends = command[1].split(","), "", True
        elif header := _header(line):
            (prefix, names), ends = header, len(header[1]) == 1
        elif row := _row(line.removeprefix(prefix), names):
            rows.append(row)
        elif ends:  # what follows is other text, that would fit a table of so few columns by chance
            names = []
    return list(rows)


def _header(line: str) -> tuple[str, list[str]] | None:
    """What stands before the header in its line, and the column names; None where the line is no header."""
    fields = [_UNIT.sub("", field.strip()) for field in line.split(",")]
    fields[0] = fields[0].rpartition(" ")[2]
    known = _KNOWN.intersection(fields)
    if not all(map(_NAME.fullmatch, fields)) or not (len(known) > 1 or any("." in name for name in known)):
        return None
    return line[: line.index(fields[0])], fields


def _row(line: str, names: list[str]) -> Row | None:
    fields = [field.strip() for field in line.split(",")]
    extra = len(fields) - len(names)
    place = next((names.index(name) for name in ("process_name", "name", "gpu_name") if name in names), None)
    if extra > 0 and place is not None:  # a comma inside a name, which nvidia-smi does not quote
        fields[place : place + extra + 1] = [", ".join(fields[place : place + extra + 1])]
    return dict(zip(names, fields, strict=True)) if len(fields) == len(names) and any(fields) else None


def gpus_of(rows: Sequence[Row], source: str) -> tuple[Gpu, ...]:
    """Each GPU of the table as its latest row says."""
    return tuple(nvidia_gpu(index, source, row_facts(of[-1], source)) for index, of in rows_by_gpu(rows).items())


def rows_by_gpu(rows: Sequence[Row]) -> dict[int, list[Row]]:
    """The rows of each GPU by its index; a table of one moment that names none has one row for each."""
    places: dict[str, int] = {}
    result: dict[int, list[Row]] = {}
    for number, row in enumerate(row for row in rows if not COLUMNS.isdisjoint(row)):
        index = row.get("index", "")
        if not (index.isdecimal() and int(index) < _MOST_GPUS):
            names = [row[column] for column in _IDENTITIES if column in row]
            series = "timestamp" in row or len(rows) > _MOST_GPUS
            name = names[0] if names else "" if series else str(number)
            index = str(places.setdefault(name, len(places)))
        result.setdefault(int(index), []).append(row)
    return result
