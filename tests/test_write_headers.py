"""Generated GGUF headers of the lab are read back as the intended model."""

import runpy
from pathlib import Path

import pytest

from unslow.catalog.models import well_known
from unslow.look.models.gguf import blueprint, read_gguf
from unslow.look.system.live import LiveSystem
from unslow.think.blueprints import made_up

SCRIPT = runpy.run_path(str(Path(__file__).parents[1] / "lab" / "write_headers.py"))


@pytest.mark.parametrize("stem", ["smollm2-135m", "granite-4.0-h-tiny", "deepseek-v2-lite"])
def test_a_generated_header_reads_back(stem, tmp_path):
    path = tmp_path / "made_up.gguf"
    size = SCRIPT["write_header"](well_known()[stem], "Q4_K_M", path)
    made, read = made_up(well_known()[stem], "Q4_K_M"), blueprint(read_gguf(LiveSystem(), str(path)))
    assert path.stat().st_size == size == read.file_bytes
    assert path.stat().st_blocks * 512 < 1_000_000  # nothing but the header takes room on the disk
    assert read.tensors == made.tensors
    assert read.vocabulary == made.vocabulary
    for key, value in made.metadata.items():
        assert read.metadata[key] == (pytest.approx(value) if isinstance(value, float) else value)
