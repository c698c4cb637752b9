"""Anything that amd-smi prints as text, in any mixture, as it is pasted into a bug report."""

from unslow.facts.machine import Gpu
from unslow.look.logs.amd_smi_table import parse_monitor, parse_table
from unslow.look.logs.amd_smi_tree import parse_tree
from unslow.look.logs.dialect import Seen, Text
from unslow.look.logs.found_blocks import form, seen_gpus
from unslow.look.logs.gpu_builder import by_index

SOURCE = "amd-smi"

_FORMS = (
    form(r"AMD-SMI \d|\bBDF\s+GPU-Name", r"[|+]"),
    form(r"(?<!\S)GPU\s+XCP\s+POWER\b", r"\d\s+\d{1,9}\s+(?:N/A|\d)"),
    form(r"(?<!\S)GPU: \d{1,3}$", r"[A-Z][A-Z0-9_]{1,40}:|N/A"),
)


def parse_gpus(text: str, source: str = SOURCE, first_line: int = 1) -> tuple[Gpu, ...]:
    """The GPUs that the text tells of, by index, each with all that any part of it says."""
    return by_index(*(parse(text, source, first_line) for parse in (parse_monitor, parse_table, parse_tree)))


def parse_text(text: Text) -> Seen:
    """The GPUs of every output of amd-smi in a text."""
    return seen_gpus(text, _FORMS, parse_gpus)
