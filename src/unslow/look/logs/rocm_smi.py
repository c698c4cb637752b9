"""Anything that rocm-smi prints, in any mixture, as it is pasted into a bug report."""

from unslow.facts.machine import Gpu
from unslow.look.logs.dialect import Seen, Text
from unslow.look.logs.found_blocks import form, seen_gpus
from unslow.look.logs.gpu_builder import by_index
from unslow.look.logs.rocm_smi_data import parse_csv, parse_json
from unslow.look.logs.rocm_smi_lines import parse_lines
from unslow.look.logs.rocm_smi_table import parse_table

SOURCE = "rocm-smi"

_FORMS = (
    form(
        r"ROCm System Management Interface|\bSCLK\s+MCLK\b|\bGPU\[\d{1,3}\]\s*:",
        r"={4}|-{10}|GPU\[\d|SCLK|DID,|KFD|PROCESS NAME|WARNING|ERROR|(?<![^\s>|#])\d{1,10}\s+\S",
    ),
    form(r"\{\s*$|\{\s*\"card\d", r"[{}]|\"[^\"]+\"\s*:"),
    form(r"(?<!\S)device,[^\n]*\(", r"card\d{1,3},"),
)


def parse_gpus(text: str, source: str = SOURCE, first_line: int = 1) -> tuple[Gpu, ...]:
    """The GPUs that the text tells of, by index, each with all that any part of it says."""
    return by_index(*(parse(text, source, first_line) for parse in (parse_table, parse_csv, parse_json, parse_lines)))


def parse_text(text: Text) -> Seen:
    """The GPUs of every output of rocm-smi in a text."""
    return seen_gpus(text, _FORMS, parse_gpus)
