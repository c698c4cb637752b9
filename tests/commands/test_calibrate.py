"""Calibrating: the embedded engine on tiny models, and the scale factor of a running server."""

from pathlib import Path

import msgspec
import pytest
from doubles import Quiet

from unslow.commands.calibrate import CalibrateRequest
from unslow.commands.calibrate.calibration import (
    calibrate_embedded,
    calibration_of,
    check_calibration,
    disturbance,
    forget_calibrations,
    list_calibrations,
)
from unslow.commands.diagnose.target import read_stored
from unslow.facts.calibration import parse_calibration
from unslow.facts.errors import UserError
from unslow.facts.machine import BusyProcess, Cpu, Gpu, Load, Machine
from unslow.facts.stored_json import dump_stored
from unslow.facts.values import measured_fact, not_found, reported_fact
from unslow.look.bench.calibration import Limits, ModelTimes, ModelToMeasure, Rounds
from unslow.look.engine.made_up_models import ModelCache
from unslow.look.kernel.processors import CpuUse
from unslow.look.stored import CalibrationStore
from unslow.look.system.live import LiveSystem

SYSTEM = LiveSystem()
MACHINES = Path(__file__).parents[1] / "machines"


@pytest.fixture(scope="module")
def calibration(tmp_path_factory):
    cache = ModelCache(tmp_path_factory.mktemp("cache"))
    guests = [
        ModelToMeasure(quant, str(cache.model("tiny", quant)), prompt_tokens=16) for quant in ("Q8_0", "Q4_0", "F16")
    ]
    limits = Limits(seconds=5.0, enough_rounds=2, fewest_rounds=2)
    return calibrate_embedded(SYSTEM, CalibrateRequest(anyway=True, threads=1), Quiet(), guests, limits)


def test_embedded_engine_is_calibrated(calibration):
    assert calibration.engine == "embedded llama.cpp"
    assert (calibration.backend, calibration.threads) == ("cpu", 1)
    assert calibration.rates
    assert calibration.rates.types
    assert [p.name for p in calibration.points] == ["Q8_0", "Q4_0", "F16"]
    assert all(p.decode_s > 0 and p.prefill_s > 0 for p in calibration.points)
    assert calibration.machine.cpu
    assert parse_calibration(dump_stored(calibration), "x") == calibration


def test_calibrations_are_stored_listed_and_removed(calibration, tmp_path, wording):
    store = CalibrationStore(tmp_path)
    assert list_calibrations(SYSTEM, Quiet(), store).calibrations == ()
    store.save(calibration)
    store.save(msgspec.structs.replace(calibration, threads=3, engine_version="0"))
    changed, same = sorted(
        list_calibrations(SYSTEM, Quiet(), store).calibrations, key=lambda k: k.calibration.engine_version
    )
    assert "is now" in changed.stale[0]
    assert not [why for why in same.stale if "memory" not in why]  # a busy machine may read its memory slower
    with pytest.raises(UserError) as caught:
        forget_calibrations(SYSTEM, "ollama", store)
    wording(str(caught.value))
    assert len(forget_calibrations(SYSTEM, "", store)) == 2
    with pytest.raises(UserError) as caught:
        forget_calibrations(SYSTEM, "", store)
    wording(str(caught.value))


def test_calibration_of_another_machine_is_stale(calibration, tmp_path, wording):
    store = CalibrationStore(tmp_path)
    store.save(msgspec.structs.replace(calibration, machine=msgspec.structs.replace(calibration.machine, cpu="Z80")))
    (one,) = list_calibrations(SYSTEM, Quiet(), store).calibrations
    wording(one.stale)


def test_busy_machine_is_not_calibrated(monkeypatch, wording):
    busy = Machine(
        cpu=Cpu(logical_cpus=reported_fact(2, "x")),
        load=Load(
            busy_cpus=measured_fact(1.2, "x"), busiest=measured_fact([BusyProcess(pid=1, name="cc1", cpus=1.2)], "x")
        ),
    )
    monkeypatch.setattr("unslow.commands.calibrate.calibration.read_machine", lambda _system: (busy, ()))
    with pytest.raises(UserError) as error:
        calibrate_embedded(SYSTEM, CalibrateRequest(), Quiet())
    wording(str(error.value), tells=("1.2 of 2", "cc1"))
    assert "--anyway" in error.value.hint


def test_disturbances_are_noted(calibration, wording):
    one = ModelTimes(ModelToMeasure("x", "x"), (0.01, 0.01, 0.01), (), 3, 0, 8)
    calm = msgspec.structs.replace(calibration.rates, error=0.01)
    assert disturbance(Rounds([one], None), calm) == ""
    use = CpuUse(1.0, 2.0, [BusyProcess(pid=1, name="cc1", cpus=1.0)])
    wild = msgspec.structs.replace(calibration.rates, error=0.2)
    text = disturbance(Rounds([one._replace(lost=9)], use, ("vocabulary",), quiet=False), wild)
    wording(text, tells=("1.0", "cc1", "9 of 12"))
    assert "only within 20%" in text


@pytest.mark.parametrize(
    "flags", [{"threads": 0}, {"threads": 4, "target": "http://127.0.0.1:1"}, {"target": "seen.json"}]
)
def test_invalid_flags_are_refused(flags):
    with pytest.raises(UserError):
        CalibrateRequest.from_flags(flags)


def test_running_server_gives_one_scale_factor():
    snapshot = read_stored(str(MACHINES / "h200_llama_server_healthy_8b"))
    found = calibration_of(_named(snapshot))
    assert (found.backend, found.rates) == ("gpu", None)
    assert "H200" in found.device
    assert found.machine.gpus == ("NVIDIA H200",)
    assert 0.5 < found.scale.factor < 2
    speed = snapshot.subjects[0].run.decode_tokens_per_s.need()
    assert found.scale.measured_decode_s == pytest.approx(1 / speed)


def test_server_that_was_not_measured_gives_no_calibration(wording):
    snapshot = read_stored(str(MACHINES / "h200_llama_server_healthy_8b"))
    (subject,) = snapshot.subjects
    idle = msgspec.structs.replace(subject.run, decode_tokens_per_s=not_found("it is busy with 2 requests", "wait"))
    busy = msgspec.structs.replace(snapshot, subjects=(msgspec.structs.replace(subject, run=idle),))
    with pytest.raises(UserError) as caught:
        calibration_of(_named(busy))
    wording(str(caught.value))
    alone, afar = {"subjects": ()}, {"machine": Machine()}
    for others in (alone, afar):
        with pytest.raises(UserError) as caught:
            calibration_of(msgspec.structs.replace(snapshot, **others))
        wording(str(caught.value))


def test_unexpectedly_slow_server_is_refused_without_anyway(wording):
    found = calibration_of(_named(read_stored(str(MACHINES / "h200_llama_server_healthy_8b"))))
    assert check_calibration(found, anyway=False) == found
    slow = msgspec.structs.replace(
        found, scale=msgspec.structs.replace(found.scale, measured_decode_s=3 * found.scale.expected_decode_s)
    )
    with pytest.raises(UserError) as caught:
        check_calibration(slow, anyway=False)
    wording(str(caught.value), tells="3.0")
    assert check_calibration(slow, anyway=True) == slow


def _named(snapshot):
    """The snapshot with a processor that has a name: a folder of logs does not tell it."""
    cpu = msgspec.structs.replace(snapshot.machine.cpu, model=reported_fact("Xeon", "test"))
    return msgspec.structs.replace(snapshot, machine=msgspec.structs.replace(snapshot.machine, cpu=cpu))


def test_device_of_a_server_is_the_discrete_gpu():
    card = Gpu(index=0, name=reported_fact("H200", "x"))
    chip = Gpu(index=1, name=reported_fact("Intel UHD 770", "x"), kind=reported_fact("integrated", "x"))
    healthy = _named(read_stored(str(MACHINES / "h200_llama_server_healthy_8b")))
    machine = msgspec.structs.replace(healthy.machine, gpus=reported_fact((chip, card), "x"))
    assert calibration_of(msgspec.structs.replace(healthy, machine=machine)).device == "H200"
