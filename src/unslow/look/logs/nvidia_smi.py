"""Anything that nvidia-smi prints, in any mixture, as it is pasted into a bug report."""

import re

from unslow.facts.machine import Gpu, Machine, System
from unslow.facts.merge import overlaid
from unslow.facts.values import reported
from unslow.look.logs.blocks import block, placed, spans_of
from unslow.look.logs.dialect import Seen, Text
from unslow.look.logs.gpu_builder import by_index
from unslow.look.logs.nvidia_smi_csv import parse_query_gpu
from unslow.look.logs.nvidia_smi_dmon import parse_dmon
from unslow.look.logs.nvidia_smi_q import parse_nvidia_smi_q
from unslow.look.logs.nvidia_smi_table import parse_nvidia_smi

# From the coarsest to the finest: what a later one says is laid over what an earlier one said.
_DIALECTS = (parse_nvidia_smi, parse_dmon, parse_query_gpu, parse_nvidia_smi_q)

# Each form of output: how it begins, and how its further lines look.
_BOX = r"NVIDIA-SMI\s+[\d\[]|[|+]\s*GPU\s+Name\s"
_TREE = r"NVSMI LOG|^\s*GPU\s+[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:"
_DMON = r"#\s*(?:Date,?\s+Time,?\s+|Time,?\s+)?gpu\b"
_QUERY = (
    r"--query-(?:gpu|compute-apps)="
    r"|\b(?:index|name|timestamp|[a-z]{1,40}\.[a-z.]{1,60})\b[^,]{0,20}, {0,40}[a-z_.]{1,100}(?: \[\w{1,20}\])?(?:,|$)"
)
_FORMS = (
    (re.compile(_BOX), re.compile(r"[|+].{0,400}[|+]\s*$|^\s*[+|][-=]")),
    (re.compile(_TREE), re.compile(rf"\s:\s|\s:$|^\s+\w|{_TREE}")),
    (re.compile(_DMON), re.compile(r"^\s*#|\d\s+[\d-]")),
    (re.compile(_QUERY), re.compile(",")),
)
_ON_WINDOWS = re.compile(
    r"\bDriver-Model\b|\bTCC/WDDM\b|\s(?:WDDM|MCDM)\s|Driver Model\s*:?\s*\n\s*Current\s*:\s*(?:WDDM|TCC)"
)
"""The model of the driver, which only Windows has; elsewhere the same column tells of persistence."""


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """The GPUs that the text tells of, by index, each with all that any part of it says."""
    gpus: dict[int, Gpu] = {}
    for parse in _DIALECTS:
        for gpu in parse(text):
            gpus[gpu.index] = overlaid(gpus[gpu.index], gpu) if gpu.index in gpus else gpu
    return tuple(gpus[index] for index in sorted(gpus))


def parse_text(text: Text) -> Seen:
    """The GPUs of every output of nvidia-smi in a text, whatever stands around it."""
    spans = sorted(span for form in _FORMS for span in spans_of(text, *form))
    found = []
    for span in spans:
        gpus = parse_gpus(block(text, span))
        if gpus:
            found.append((span, tuple(placed(gpu, text.where(span[0])) for gpu in gpus)))
    if not found:
        return Seen()
    gpus, where = by_index(*(gpus for _, gpus in found)), text.where(found[0][0][0])
    on_windows = any(_ON_WINDOWS.search(block(text, span)) for span, _ in found)
    return Seen(
        machine=Machine(
            gpus=reported(gpus, where), system=System(name=reported("Windows", where)) if on_windows else System()
        ),
        lines=sum(end - first for (first, end), _ in found),
        spans=tuple(span for span, _ in found),
    )
