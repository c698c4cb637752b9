"""No report page shows Python: no repr, no None, no unformatted number. `test_machines` checks terminal texts."""

import re
from pathlib import Path

import pytest
from recorded_machines import MACHINES
from spoken_python import python_in

from unslow.__main__ import main

NAMED = (
    "built_proxy_collects_the_stream", "built_rtx_3090_and_p40_uneven_split", "built_wsl2_rtx_4070_laptop_all_layers",
    "lab_cpu_late_client", "lab_cpu_pausing_client", "lab_gpu_flash_attention_off",
    "built_vllm_eight_copies_of_sixteen_places", "lab_gpu_healthy_moe",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMED)
def test_html_report_shows_no_python_values(name: str, tmp_path: Path) -> None:
    assert main(["report", str(MACHINES / name), "-o", str(tmp_path / "page.html"), "-q"]) == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    words = re.sub(r"<(script|style)\b.*?</\1>|<[^>]*>", " ", page, flags=re.DOTALL)
    assert not python_in(words)
