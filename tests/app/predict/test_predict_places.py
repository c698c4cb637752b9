"""Where a model runs: devices by name, and this machine, recorded or real."""

from pathlib import Path

import pytest

from unslow.app.predict import Request, answer
from unslow.app.predict.places import Place, find_place
from unslow.facts.calibration import Calibration, Rates, TypeRate
from unslow.facts.errors import UserError
from unslow.facts.values import Unknown
from unslow.look.calibration import default_store
from unslow.look.probes import read_machine
from unslow.look.system import System
from unslow.look.system.live import LiveSystem
from unslow.look.system.recorded import RecordedSystem
from unslow.think.calibrate import mark_of

MACHINES = Path(__file__).parents[2] / "machines"


def place(system: System | None = None, **flags: object) -> Place | Unknown:
    return find_place(system or LiveSystem(), Request.from_flags({"model": "qwen3-8b", **flags}))


def test_a_recorded_machine_with_a_gpu() -> None:
    found = place(RecordedSystem(MACHINES / "h200_live_healthy"))
    assert isinstance(found, Place)
    assert (found.device.name, found.gpus, len(found.rooms)) == ("H200 SXM", 1, 1)
    assert found.rooms[0].capacity_bytes > 130 * 2**30
    with pytest.raises(UserError, match="this machine has 1"):
        place(RecordedSystem(MACHINES / "h200_live_healthy"), gpus="2")


def test_several_devices_of_one_kind() -> None:
    found = place(devices=["2x RTX 3090"])
    assert isinstance(found, Place)
    assert (found.device.name, found.gpus, len(found.rooms)) == ("RTX 3090", 2, 2)
    also = place(devices=["RTX 3090"], gpus="2")
    assert isinstance(also, Place)
    assert also.rooms == found.rooms


def test_a_device_with_an_unknown_size_of_memory_is_taken_to_be_large_enough() -> None:
    found = place(devices=["M3 Max"])
    assert isinstance(found, Place)
    assert found.rooms == ()
    assert "taken to fit" in found.notes[0]
    sized = place(devices=["M3 Max 64GB"])
    assert isinstance(sized, Place)
    assert len(sized.rooms) == 1


def test_a_calibration_of_this_machine_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("UNSLOW_DATA_DIR", str(tmp_path))
    system = LiveSystem()
    rates = Rates(
        types=(TypeRate(type="Q8_0", decode_bytes_per_s=5e9, prefill_bytes_per_s=1e11),), step_s=1e-4, operation_s=1e-6,
        row_s=0.0, vocabulary_entry_s=1e-9, attention_element_s=1e-9, kv_byte_s=0.0, error=0.02,
    )  # fmt: skip
    calibration = Calibration(
        unslow_version="1", taken_at=system.now(), seconds=30.0, machine=mark_of(read_machine(system)[0]),
        engine="embedded llama.cpp", engine_version="b1", backend="cpu", device="cpu", threads=2, rates=rates,
    )  # fmt: skip
    default_store().save(calibration)
    flags = {"model": "smollm2-135m", "quant": "Q8_0", "devices": ["cpu"]}
    report = answer(system, Request.from_flags(flags))
    assert report.basis is not None
    assert (report.basis.kind, report.basis.text.split(":")[0]) == ("calibrated", "calibrated")
    assert report.decode is not None
    assert report.decode.walls[0].part == "weights"
    other = answer(system, Request.from_flags({**flags, "threads": "1"}))
    assert other.basis is not None
    assert other.basis.kind == "catalog"
    assert any("not used" in note and "threads" in note for note in other.notes)
