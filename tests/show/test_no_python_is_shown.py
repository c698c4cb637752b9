"""No report of any recorded machine speaks Python: no repr, no None, no number that only a program reads."""

import re
from pathlib import Path

import pytest
from recorded_machines import FOLDERS, MACHINES, recorded

from unslow.cli import main
from unslow.show import render
from unslow.think.judge import diagnose

PYTHON = re.compile(r"\b[A-Z]\w*\(\w+=|\bNone\b|(?<![\w-])(?:inf|nan)(?![\w-])|\d(?:\.\d+)?e-\d\d|(?<![\d.,])0 µs")
NAMED = (
    "built_proxy_collects_the_stream", "built_rtx_3090_and_p40_uneven_split", "built_wsl2_rtx_4070_laptop_all_layers",
    "lab_cpu_late_client", "lab_cpu_pausing_client", "lab_gpu_flash_attention_off",
    "built_vllm_eight_copies_of_sixteen_places", "lab_gpu_healthy_moe",
)  # fmt: skip


def spoken(text: str) -> list[str]:
    return [text[max(0, found.start() - 60) : found.end() + 60] for found in PYTHON.finditer(text)]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda p: p.name)
def test_as_text_and_as_markdown(folder: Path) -> None:
    report = diagnose(recorded(folder))
    for form in ("terminal", "markdown"):
        assert not spoken(render(report, form, width=100, color=False, everything=True))


@pytest.mark.parametrize("name", NAMED)
def test_as_a_page(name: str, tmp_path: Path) -> None:
    assert main(["report", str(MACHINES / name), "-o", str(tmp_path / "page.html"), "-q"]) == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    words = re.sub(r"<(script|style)\b.*?</\1>|<[^>]*>", " ", page, flags=re.DOTALL)
    assert not spoken(words)
