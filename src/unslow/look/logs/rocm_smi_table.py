"""The concise table of plain `rocm-smi`, in its three shapes: one line for each GPU under a line of column names."""

import re
from collections.abc import Iterator
from typing import Any

from unslow.facts.machine import Gpu
from unslow.facts.values import Fact, not_supported
from unslow.look.logs.amounts import amount, word
from unslow.look.logs.gpu_builder import MOST_GPUS, gpu_of
from unslow.look.logs.numbered import Numbered, numbered_lines

SOURCE = "rocm-smi"
_HEADER = re.compile(r"(?<!\S)(?:GPU|Device)\s.{0,200}\bSCLK\s+MCLK\b.{0,200}\bVRAM%\s+GPU%")
_PATTERNS = (
    # since ROCm 5.7: device, KFD node, two ids, temperature, power, three partitions
    re.compile(
        r"(?<!\S)(?P<gpu>\d{1,3})\s+(?:\[\S+\s*:\s*\S+\]\s+)?\d{1,3}\s+0x[0-9a-f]+,\s*\S+\s+(?P<temp>\S+)\s+(?P<power>\S+)"
        r"\s+\S+,\s*\S+,\s*\S+\s+(?P<sclk>\S+)\s+(?P<mclk>\S+)\s+(?P<fan>\S+)\s+(?P<perf>\S+)\s+(?P<cap>\S+)\s+(?P<vram>\S+)"
        r"\s+(?P<use>\S+)",
        re.IGNORECASE,
    ),
    re.compile(
        r"(?<!\S)(?P<gpu>\d{1,3})\s+(?P<temp>\S+)\s+(?P<power>\S+)\s+(?P<sclk>\S+)\s+(?P<mclk>\S+)\s+(?P<fan>\S+)\s+"
        r"(?P<perf>\S+)\s+(?P<cap>\S+)\s+(?P<vram>\S+)\s+(?P<use>\S+)(?!\S)"
    ),
)
_AMOUNTS = {
    "temperature_c": ("temp", "C"),
    "power_w": ("power", "W"),
    "power_limit_w": ("cap", "W"),
    "clock_hz": ("sclk", "MHz"),
    "memory_clock_hz": ("mclk", "MHz"),
    "busy": ("use", "%"),
}


def parse_table(text: str, source: str = SOURCE, first_line: int = 1) -> tuple[Gpu, ...]:
    """The GPUs of the table; none where the text is something else."""
    gpus: dict[int, Gpu] = {}
    for line, row in _rows(text, source, first_line):
        facts: dict[str, Fact[Any]] = {
            name: amount(row[column], unit, line.source) for name, (column, unit) in _AMOUNTS.items()
        }
        facts["performance_state"] = word(row["perf"], line.source)
        # The table has a percentage and no size: bytes can't be had from it.
        share = not_supported(
            f"{line.source} says {row['vram'][:10]} of an unnamed total", "rocm-smi --showmeminfo all"
        )
        gpus[int(row["gpu"])] = gpu_of(int(row["gpu"]), "AMD", line.source, {**facts, "vram_used_bytes": share})
    return tuple(gpus[index] for index in sorted(gpus)[:MOST_GPUS])


def _rows(text: str, source: str, first_line: int) -> Iterator[tuple[Numbered, dict[str, str]]]:
    below = False
    for line in numbered_lines(text, source, first_line):
        if _HEADER.search(line.text):
            below = True
        elif "End of ROCm SMI Log" in line.text:
            below = False
        elif below and (match := next((m for p in _PATTERNS if (m := p.search(line.text))), None)):
            yield line, match.groupdict()
