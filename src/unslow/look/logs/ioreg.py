"""What macOS's `ioreg -r -d 1 -c IOAccelerator` says of the GPU, for which no root is needed."""

import re
from collections.abc import Callable
from typing import Any

from unslow.facts.machine import Gpu
from unslow.facts.values import Fact, reported
from unslow.look.logs.dialect import Seen, Text
from unslow.look.logs.found_blocks import form, seen_gpus
from unslow.look.logs.gpu_builder import gpu_of
from unslow.look.logs.numbered import numbered_lines

SOURCE = "ioreg"

_FORMS = (form(r"\"Device Utilization %\"|\bIOAccelerator\b|\"gpu-core-count\"", r"\"|[{}]"),)
_PERCENT = 100
_FACTS: dict[str, tuple[re.Pattern[str], Callable[[str], Any]]] = {
    "busy": (re.compile(r"\"Device Utilization %\"\s?=\s?(\d{1,3})\b"), lambda digits: int(digits) / _PERCENT),
    "vram_used_bytes": (re.compile(r"\"In use system memory\"\s?=\s?(\d{1,15})\b"), int),
    "cores": (re.compile(r"\"gpu-core-count\"\s?=\s?(\d{1,4})\b"), int),
    "name": (re.compile(r"\"model\"\s?=\s?<?\"(Apple [^\"]{1,60})\""), str),
}


def parse_gpus(text: str, source: str = SOURCE, first_line: int = 1) -> tuple[Gpu, ...]:
    """The Apple GPU that the text tells of; none where it is something else."""
    facts: dict[str, Fact[Any]] = {}
    place = ""
    for line in numbered_lines(text, source, first_line):
        for name, (pattern, convert) in _FACTS.items():
            if match := pattern.search(line.text):
                facts[name] = reported(convert(match[1]), line.source)
                place = place or line.source
    return (gpu_of(0, "Apple", place, {**facts, "kind": reported("integrated", place)}),) if facts else ()


def parse_text(text: Text) -> Seen:
    """The GPU of a Mac, as ioreg shows it in a text."""
    return seen_gpus(text, _FORMS, parse_gpus)
