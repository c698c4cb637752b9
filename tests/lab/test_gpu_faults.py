"""GPU faults: complete rows, existing causes, skip reasons, and readable models."""

from pathlib import Path

import pytest
from lab.faults.every import faults_of
from lab.faults.fault import Fault, Playing, SkippedError
from lab.faults.large_models import SHAPES, SMOL_135M, make_large_models
from lab.faults.strangers import holds

from unslow.catalog.models import model_at
from unslow.look.models.gguf import blueprint, read_gguf, shortfall
from unslow.look.system.live import LiveSystem
from unslow.think.blueprints import made_up
from unslow.think.causes import cause_ids

FAULTS = faults_of("gpu")
MANY, CONTROLS = 30, 10


def test_there_are_enough_gpu_faults_and_controls():
    assert sum(bool(fault.cause) for fault in FAULTS.values()) >= MANY
    assert sum(not fault.cause for fault in FAULTS.values()) >= CONTROLS


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_gpu_fault_row_is_complete(fault: Fault):
    known = set(cause_ids())
    assert {cause for cause in (fault.cause, *fault.also) if cause} <= known
    assert (fault.verdict == "normal") == (not fault.cause) == fault.name.startswith("healthy_")
    assert (fault.cure is not None) == (fault.verdict == "slow")
    assert fault.cure != fault.stage
    assert fault.model in SHAPES


def test_holding_vram_without_a_gpu_is_skipped_with_a_reason():
    with pytest.raises(SkippedError, match="no stranger on the GPU"), holds(10**6)(Playing("", 0, "", [], {})):
        pass


def test_a_generated_model_reads_as_its_shape(tmp_path: Path):
    make_large_models(tmp_path, [SMOL_135M])
    read = read_gguf(LiveSystem(), str(tmp_path / f"{SMOL_135M}.gguf"))
    stem, quant = SHAPES[SMOL_135M]
    assert not shortfall(read)
    assert blueprint(read).tensors == made_up(model_at(stem), quant).tensors
