"""Blueprints built from model shapes, against real files: sizes agree as closely as the published figures allow."""

import csv
from pathlib import Path

import pytest

from unslow.catalog.models import well_known
from unslow.facts.errors import UserError
from unslow.facts.values import GIB
from unslow.think.blueprints import made_up

SIZES = Path(__file__).parents[3] / "lab" / "data" / "file_sizes.csv"
FILES = [row for row in csv.DictReader(SIZES.read_text("utf-8").splitlines()) if row["mix"] == "plain"]


@pytest.mark.no_cover  # tells nothing more of which lines are tested
@pytest.mark.parametrize("file", FILES, ids=lambda row: f"{row['model']}-{row['quant']}")
def test_size_of_a_quant_mix_matches_the_real_file(file):
    made = made_up(well_known()[file["model"]], file["quant"])
    assert sum(t.bytes for t in made.tensors) / GIB == pytest.approx(float(file["gib"]), rel=0.02)


def test_built_blueprint_reads_like_one_of_a_file():
    made = made_up(well_known()["llama-3-8b"], "Q4_K_M")
    assert made.architecture == "llama"
    assert made.count("block_count") == 32
    assert made.vocabulary == 128256
    assert made.file_bytes == 0
    assert made.metadata["general.file_type"] == 15
    assert made.by_name["token_embd.weight"].type == "Q4_K"
    assert made.by_name["output.weight"].type == "Q6_K"
    assert made.by_name["blk.0.attn_norm.weight"].type == "F32"
    assert made.by_name["blk.0.attn_k.weight"].bytes == 4096 * 1024 * 144 // 256
    assert len(made.layer_tensors[31]) == 9


def test_unknown_quant_mix_is_refused():
    with pytest.raises(UserError, match="Q9"):
        made_up(well_known()["llama-3-8b"], "Q9")
