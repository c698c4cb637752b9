"""`nvidia-smi dmon`: a scrolling table with its column names and units behind `#`."""

import re
from collections import deque

from unslow.facts.machine import Gpu
from unslow.look.logs import nvidia_values as values
from unslow.look.logs.nvidia_smi_csv import Row, gpus_of

SOURCE = "nvidia-smi dmon"
_MOST_ROWS = 50_000
_HEADER = re.compile(r"#\s*((?:Date,?\s+Time,?\s+|Time,?\s+)?gpu\b.*)", re.IGNORECASE)
_SEPARATOR = re.compile(r"[\s,]+")
_DATE = re.compile(r"(\d{4})(\d\d)(\d\d)$")

# The columns by the names that --query-gpu has for them. `fb` is headed "MB" and counts MiB; `pclk` is the SM clock.
_COLUMNS = {
    "gpu": "index",
    "pwr": "power.draw",
    "gtemp": "temperature.gpu",
    "temp": "temperature.gpu",
    "mtemp": "temperature.memory",
    "sm": "utilization.gpu",
    "mem": "utilization.memory",
    "mclk": "clocks.mem",
    "pclk": "clocks.sm",
    "fb": "memory.used",
    "rxpci": "rxpci",
    "txpci": "txpci",
}


def parse_dmon_rows(text: str) -> list[Row]:
    """The rows, in the columns of `--query-gpu`, so that a series of them is summarised like any other."""
    names: list[str] = []
    rows: deque[Row] = deque(maxlen=_MOST_ROWS)
    for line in values.plain_lines(text):
        header = _HEADER.search(line)
        if header:
            names = _SEPARATOR.split(header[1].strip().lower())
        elif names and "#" not in line:
            fields = [field for field in _SEPARATOR.split(line) if field][-len(names) :]
            row = dict(zip(names, fields, strict=False))
            if len(fields) == len(names) and row.get("gpu", "").isdecimal():
                rows.append(_row(row))
    return list(rows)


def parse_dmon(text: str) -> tuple[Gpu, ...]:
    """Each GPU as its latest row says."""
    return gpus_of(parse_dmon_rows(text), SOURCE)


def _row(fields: dict[str, str]) -> Row:
    row = {_COLUMNS[name]: text for name, text in fields.items() if name in _COLUMNS}
    date = _DATE.match(fields.get("date", ""))
    if "time" in fields:
        row["timestamp"] = f"{'/'.join(date.groups()) if date else ''} {fields['time']}"
    return row
