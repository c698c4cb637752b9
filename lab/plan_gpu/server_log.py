"""What a llama-server at -lv 4 says of its memory, and of why it could not go on."""

import re
from collections.abc import Iterable
from typing import Any

_BUFFER = re.compile(r"(\S+)\s+(model|KV|RS|compute|output) buffer size\s*=\s*([\d.]+) MiB")
_BREAKDOWN = re.compile(
    r"\|\s+- (\S+)[^|]*\|\s*(?:(\d+) =\s*(\d+) \+ \()?\s*(\d+) =\s*(\d+) \+\s*(\d+) \+\s*(\d+)\)?(?: \+\s*(-?\d+))?"
)
_OFFLOADED = re.compile(r"offloaded (\d+)/(\d+) layers")
_NO_MEMORY = re.compile(r"(?i)out of memory|failed to allocate|cudaMalloc|unable to allocate|alloc.* failed")
_FIT = re.compile(r"fit_params?\S*: +(.*(?:successfully|failed to fit|layers|abort|margin|target).*)")
_LOADS = "load_tensors: loading model tensors"
TAIL = 12
LONGEST = 240


def said(text: str) -> dict[str, Any]:
    """Buffers by device and kind in MiB, layers on the GPU, what the fit came to and the memory at the end."""
    lines = text.splitlines()
    real = _from_the_last_load(lines)
    offloaded = [found for line in real if (found := _OFFLOADED.search(line))]
    return {
        "buffers_mib": _buffers(real),
        "offloaded": "/".join(offloaded[-1].groups()) if offloaded else "",
        "fit_says": [found[1][:LONGEST] for line in lines if (found := _FIT.search(line))][-4:],
        "breakdown_mib": _breakdown(lines),
    }


def _from_the_last_load(lines: list[str]) -> list[str]:
    """The fit loads without memory first; what counts is the load that it came to."""
    starts = [number for number, line in enumerate(lines) if _LOADS in line]
    return lines[starts[-1] :] if starts else lines


def _buffers(lines: Iterable[str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for line in lines:
        if match := _BUFFER.search(line):
            device, kind, mib = match.groups()
            key = f"{device} {kind}"
            # of weights, a device may have several buffers; of the others, the last reservation counts
            found[key] = round(found.get(key, 0.0) + float(mib), 2) if kind == "model" else float(mib)
    return found


def _breakdown(lines: list[str]) -> dict[str, dict[str, int]]:
    """The last table: of each device what was free, and model, context and compute."""
    heads = [number for number, line in enumerate(lines) if "memory breakdown [MiB]" in line]
    table: dict[str, dict[str, int]] = {}
    for line in lines[heads[-1] + 1 :] if heads else ():
        if match := _BREAKDOWN.search(line):
            names = ("total", "free", "self", "model", "context", "compute", "unaccounted")
            table[match[1]] = {
                name: int(value) for name, value in zip(names, match.groups()[1:], strict=True) if value is not None
            }
    return table


def no_memory(text: str) -> list[str]:
    """Lines that tell of an allocation that failed."""
    return [line[:LONGEST] for line in text.splitlines() if _NO_MEMORY.search(line)][:TAIL]


def tail(text: str) -> list[str]:
    """The last lines."""
    return [line[:LONGEST] for line in text.splitlines()[-TAIL:]]
