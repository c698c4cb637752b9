"""Anything that rocm-smi prints, in any mixture, as it is pasted into a bug report."""

from unslow.facts.machine import Gpu
from unslow.look.logs.gpu_builder import by_index
from unslow.look.logs.rocm_smi_data import parse_csv, parse_json
from unslow.look.logs.rocm_smi_lines import parse_lines
from unslow.look.logs.rocm_smi_table import parse_table

SOURCE = "rocm-smi"


def parse_gpus(text: str, source: str = SOURCE, first_line: int = 1) -> tuple[Gpu, ...]:
    """The GPUs that the text tells of, by index, each with all that any part of it says."""
    return by_index(*(parse(text, source, first_line) for parse in (parse_table, parse_csv, parse_json, parse_lines)))
