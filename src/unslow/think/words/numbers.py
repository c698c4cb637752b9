"""Numbers and settings in prose: `24 threads on 6 cores`, `top_k 0`, `--cpus 2`, `--enforce-eager`."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from unslow.catalog.report_words import number_phrases
from unslow.facts.units import GB, GIB, MB, MHZ, MIB
from unslow.facts.values import Known, told
from unslow.think.words.in_use import settings_in_use
from unslow.think.words.lines import Line
from unslow.think.words.modality import is_of_others

_SCALE = {"gib": GIB, "gb": GB, "g": GB, "mib": MIB, "mb": MB, "tb": 1000 * GB}
_MOST = 2**53
_SECONDS = {"m": 60.0, "h": 3600.0}
_BACKENDS = {"vulkan": "Vulkan", "sycl": "SYCL", "rocm": "ROCm", "hip": "ROCm", "metal": "Metal", "opencl": "OpenCL"}
_FEW = {"two": 2, "three": 3, "four": 4}
_AT_LEAST = {"a few": 2, "several": 2, "many": 2, "minutes": 2, "hours": 60}
"""Minutes that these words stand for, at the least."""
_OTHER_WAY = re.compile(
    r"\b(?:than|instead of|rather than|versus|vs\.?|unlike|compared (?:to|with)|as (?:slow|bad|fast) as) (?:with "
    r"|using |at |on )?$"
)
"""What a setting stands behind that is held against the one at hand."""
_QUICKER_PLACE = re.compile(
    r"\b(?:local (?:nvme|ssd|disk|copy)|copy on|copied to|second (?:time|load)|page cache|cached|warm)\b"
)
"""A load from there is what a slow one is held against."""
_LAYERS = (
    re.compile(r"\b(\d{1,3}) ?(?:/|of|out of) ?(\d{1,3}) (?:\w+ )?layers?\b"),
    re.compile(r"\blayers?[^.;\d]{0,16}(\d{1,3}) ?/ ?(\d{1,3})\b"),
)
_ONLY = re.compile(r"\bonly (\d{1,3}) layers?\b|\b(\d{1,3}) layers? (?:offloaded|on (?:the )?gpu|in vram)\b")
_ALL = re.compile(r"(?:max|all|of|total)\W{1,3}(\d{1,3}) layers?\b|\b(\d{1,3}) layers? (?:in total|total)\b")
_CONTEXTS = re.compile(
    r"(?:--ctx-size|num_ctx|\bctx|context(?: size| length)?|(?<![\w-])-c)[ =]"
    r"((?:\d{3,7}(?:, | then | and |/| > ?)){1,12}\d{3,7})"
)


def numbers_told(lines: Sequence[Line], only: str = "") -> dict[str, Known[Any]]:
    """Facts by their dotted path, or that of one path only; of each, what is said to be in use, else the first."""
    found: dict[str, Known[Any]] = {}
    for line, sentence in settings_in_use(lines):
        for path, value in _of_line(sentence):
            if path.startswith("runtime.") and (not only or path == only):
                found.setdefault(path, told(value, line.where))
    for line in lines:
        for path, value in (*_of_line(line.text), *layers_of(line.text)):
            elsewhere = path.startswith("machine.") and is_of_others(line.text)
            elsewhere = elsewhere or (path == "run.load_s" and bool(_QUICKER_PLACE.search(line.text)))
            if (not only or path == only) and not elsewhere:
                found.setdefault(path, told(value, line.where))
    return found


def _of_line(text: str) -> Iterator[tuple[str, Any]]:
    for phrase in number_phrases():
        match = phrase.says.search(text)
        if match is None or _OTHER_WAY.search(text[: match.start()]):
            continue
        value = _READERS[phrase.kind]([group for group in match.groups() if group is not None])
        if isinstance(value, str | list) or 0 <= value < _MOST:
            yield phrase.path, value


def layers_of(text: str) -> Iterator[tuple[str, int]]:
    """How many layers are on the GPU, and of how many."""
    for pattern in _LAYERS:
        if (match := pattern.search(text)) and int(match[1]) <= int(match[2]):
            yield "runtime.gpu_layers", int(match[1])
            yield "runtime.layers", int(match[2])
            return
    if match := _ALL.search(text):
        yield "runtime.layers", int(match[1] or match[2])
    elif match := _ONLY.search(text):
        yield "runtime.gpu_layers", int(match[1] or match[2])


def contexts_of(text: str) -> list[int]:
    """Several context lengths that one line gives in turn."""
    match = _CONTEXTS.search(text)
    return [int(number) for number in re.findall(r"\d{3,7}", match[1])] if match else []


def _cpu_list(groups: list[str]) -> int:
    first, _, last = groups[-1].partition("-")
    return int(last) - int(first) + 1 if last else int(first)


def _share_of(groups: list[str]) -> float:
    part, whole = float(groups[0]), float(groups[1])
    return part / whole if 0 < part <= whole else 0.0


_READERS: dict[str, Callable[[list[str]], Any]] = {
    "count": lambda groups: int(float(groups[-1])),
    "number": lambda groups: float(groups[-1]),
    "thousands": lambda groups: int(groups[-1]) * 1024,
    "percent": lambda groups: float(groups[-1]) / 100,
    "bytes": lambda groups: int(float(groups[-2]) * _SCALE[groups[-1]]),
    "backends": lambda groups: [_BACKENDS.get(groups[-1], groups[-1])],
    "word": lambda groups: groups[-1],
    "phrase": lambda groups: groups[0],
    "switch": lambda groups: groups[-1] in ("on", "1", "true", "enabled"),
    "flag": lambda _groups: True,
    "cpu_list": _cpu_list,
    "seconds": lambda groups: float(groups[-2]) * _SECONDS.get(groups[-1][:1], 1.0),
    "hours": lambda groups: 3600.0 * _FEW.get(groups[-1], 1),
    "few_minutes": lambda groups: 60.0 * _AT_LEAST.get(groups[-1], 1),
    "gigabytes": lambda groups: int(groups[-1]) * GB,
    "mebibytes": lambda groups: int(groups[-1]) * MIB,
    "share_of": _share_of,
    "ratio": lambda groups: float(groups[0]) / max(1.0, float(groups[1])),
    "mhz": lambda groups: float(groups[-1]) * MHZ,
}
