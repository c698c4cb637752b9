"""Anything that nvidia-smi prints, in any mixture, as it is pasted into a bug report."""

from unslow.facts.machine import Gpu
from unslow.facts.merge import overlaid
from unslow.look.logs.nvidia_smi_csv import parse_query_gpu
from unslow.look.logs.nvidia_smi_dmon import parse_dmon
from unslow.look.logs.nvidia_smi_q import parse_nvidia_smi_q
from unslow.look.logs.nvidia_smi_table import parse_nvidia_smi

# From the coarsest to the finest: what a later one says is laid over what an earlier one said.
_DIALECTS = (parse_nvidia_smi, parse_dmon, parse_query_gpu, parse_nvidia_smi_q)


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """The GPUs that the text tells of, by index, each with all that any part of it says."""
    gpus: dict[int, Gpu] = {}
    for parse in _DIALECTS:
        for gpu in parse(text):
            gpus[gpu.index] = overlaid(gpus[gpu.index], gpu) if gpu.index in gpus else gpu
    return tuple(gpus[index] for index in sorted(gpus))
