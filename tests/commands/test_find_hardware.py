"""Where a model runs: named devices, and this machine, recorded or real."""

from pathlib import Path

import msgspec
import pytest

from unslow.commands._hardware import HardwareRequest, find_hardware
from unslow.commands.predict import PredictRequest
from unslow.commands.predict.cases import hardware_request
from unslow.commands.predict.speeds import answer
from unslow.facts.calibration import Calibration, Rates, TypeRate
from unslow.facts.errors import UserError
from unslow.facts.machine import Gpu
from unslow.facts.values import Unknown, reported_fact
from unslow.look.probes import read_machine
from unslow.look.stored import default_store
from unslow.look.system import System
from unslow.look.system.live import LiveSystem
from unslow.look.system.recorded import RecordedSystem
from unslow.think.hardware import Hardware
from unslow.think.speed.calibration import mark_of

MACHINES = Path(__file__).parents[1] / "machines"


def hardware(system: System | None = None, **flags: object) -> Hardware | Unknown:
    return find_hardware(
        system or LiveSystem(), hardware_request(PredictRequest.from_flags({"model": "qwen3-8b", **flags}))
    )


def test_recorded_machine_gives_its_gpu(wording) -> None:
    found = hardware(RecordedSystem(MACHINES / "h200_live_healthy"))
    assert isinstance(found, Hardware)
    assert (found.device.name, found.device_count, len(found.rooms)) == ("H200 SXM", 1, 1)
    assert found.rooms[0].capacity_bytes > 130 * 2**30
    with pytest.raises(UserError) as caught:
        hardware(RecordedSystem(MACHINES / "h200_live_healthy"), gpus="2")
    wording(str(caught.value))


def test_counted_devices_give_one_room_each() -> None:
    found = hardware(devices=["2x RTX 3090"])
    assert isinstance(found, Hardware)
    assert (found.device.name, found.device_count, len(found.rooms)) == ("RTX 3090", 2, 2)
    also = hardware(devices=["RTX 3090"], gpus="2")
    assert isinstance(also, Hardware)
    assert also.rooms == found.rooms


def test_mixed_gpus_are_returned_only_on_request() -> None:
    request, name = HardwareRequest(), "built_rtx_3090_and_p40_uneven_split"
    found = find_hardware(RecordedSystem(MACHINES / name), request, unlike=True)
    assert isinstance(found, Hardware)
    assert [device.name for device in found.devices] == ["RTX 3090", "Tesla P40"]
    assert [room.name for room in found.rooms] == ["RTX 3090", "Tesla P40"]
    assert isinstance(find_hardware(RecordedSystem(MACHINES / name), request), Unknown)


def test_device_with_unknown_memory_size_is_assumed_to_fit() -> None:
    found = hardware(devices=["M3 Max"])
    assert isinstance(found, Hardware)
    assert found.rooms == ()
    assert "assuming that the model fits" in found.notes[0]
    sized = hardware(devices=["M3 Max 64GB"])
    assert isinstance(sized, Hardware)
    assert len(sized.rooms) == 1


def test_calibration_of_this_machine_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
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
    report = answer(system, PredictRequest.from_flags(flags))
    assert report.basis is not None
    assert (report.basis.kind, report.basis.text.split(":")[0]) == ("calibrated", "calibrated")
    assert report.decode is not None
    assert report.decode.walls[0].part == "weights"
    explain = answer(system, PredictRequest.from_flags({**flags, "explain": True})).explain
    assert explain is not None
    own = next(q.tokens_per_s for q in explain.quants if q.name == "Q8_0")
    assert own == explain.batching[0].tokens_per_s == pytest.approx(report.decode.tokens_per_s.mid)
    other = answer(system, PredictRequest.from_flags({**flags, "threads": "1"}))
    assert other.basis is not None
    assert other.basis.kind == "catalog"
    assert any("not used" in note and "threads" in note for note in other.notes)


def test_contradicting_counts_are_refused() -> None:
    with pytest.raises(UserError, match="contradict"):
        hardware(devices=["2x RTX 3090"], gpus="4")
    assert isinstance(hardware(devices=["2x RTX 3090"], gpus="2"), Hardware)


def test_device_matches_the_chosen_memory_variant() -> None:
    found = hardware(devices=["GTX 1060"])
    assert isinstance(found, Hardware)
    assert found.device.name == found.rooms[0].name
    assert "there is also" in found.notes[0]


def test_unpredictable_chip_gives_its_published_speed() -> None:
    found = hardware(devices=["Taalas HC1"])
    assert isinstance(found, Unknown)
    assert "17,000 tok/s" in found.why


def test_vendor_name_suggests_its_chip() -> None:
    with pytest.raises(UserError) as error:
        hardware(devices=["Groq"])
    assert "Groq LPU" in error.value.hint


def test_vllm_is_refused_on_apple_gpus(wording) -> None:
    with pytest.raises(UserError) as caught:
        hardware(devices=["M3 Ultra"], runtime="vllm")
    wording(str(caught.value), tells="vLLM")


def test_host_of_unified_memory_shares_its_bandwidth() -> None:
    mac, desktop = hardware(devices=["M3 Max 48GB"]), hardware(devices=["RTX 4090"])
    assert isinstance(mac, Hardware)
    assert isinstance(desktop, Hardware)
    assert 2 * mac.processors.bytes_per_s == mac.device.memory_bytes_per_s > 2 * desktop.processors.bytes_per_s


def test_integrated_gpu_beside_a_discrete_one_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = MACHINES / "h200_live_healthy"
    machine, outcomes = read_machine(RecordedSystem(recorded))
    chip = Gpu(index=1, name=reported_fact("Intel UHD 770", "x"), kind=reported_fact("integrated", "x"))
    both = msgspec.structs.replace(machine, gpus=reported_fact((*machine.gpus.need(), chip), "x"))
    monkeypatch.setattr("unslow.commands._hardware.read_machine", lambda _system: (both, outcomes))
    found = hardware(RecordedSystem(recorded))
    assert isinstance(found, Hardware)
    assert (found.device.name, found.device_count, len(found.rooms)) == ("H200 SXM", 1, 1)
