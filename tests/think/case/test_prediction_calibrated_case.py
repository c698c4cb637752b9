"""A case is predicted from the calibration of its machine while that is valid."""

from pathlib import Path

import msgspec
import pytest
from cases import cpu_case, gpu_case, plan_8b, with_facts, with_tensors

from unslow.facts.calibration import Calibration, Scale
from unslow.facts.snapshot import Case
from unslow.facts.values import Unknown
from unslow.think.case.speed import Prediction
from unslow.think.case.view import CaseView
from unslow.think.speed.calibration import mark_of
from unslow.think.speed.machine_rates import calibrated_decode, demand_of

RECORDED = Path(__file__).parents[1] / "speed" / "recorded_xeon.json"


class Recording(msgspec.Struct):
    calibration: Calibration


def recorded(case: Case, **changes: object) -> Calibration:
    """What a real machine reached, as if it had been this one."""
    usual = {
        "machine": mark_of(case.machine),
        "engine": "llama.cpp",
        "threads": case.runtime.compute.threads.need(),
        "ram_read_bytes_per_s": case.machine.memory.read_bytes_per_s.need(),
    }
    found = msgspec.json.decode(RECORDED.read_bytes(), type=Recording).calibration
    return msgspec.structs.replace(found, **{**usual, **changes})


def with_calibration(case: Case, *calibrations: Calibration) -> Case:
    return msgspec.structs.replace(case, calibrations=calibrations)


def predicted(case: Case) -> Prediction:
    found = CaseView(case).speed.predict()
    assert not isinstance(found, Unknown)
    return found


CPU = with_tensors(cpu_case())


def test_cpu_is_predicted_from_its_calibrated_rates() -> None:
    known = recorded(CPU)
    found = predicted(with_calibration(CPU, known))
    wanted = calibrated_decode(demand_of(plan_8b(), 100), known)
    assert wanted is not None
    assert found.basis == "calibrated"
    assert found.seconds == wanted.seconds
    assert sum(part.seconds for part in found.parts) == pytest.approx(found.seconds.mid)
    assert len({part.name for part in found.parts}) == len(found.parts)
    assert found.parts[0].name == "host memory reads"


@pytest.mark.parametrize(
    "case",
    [
        with_calibration(CPU, recorded(CPU, ram_read_bytes_per_s=30e9)),
        with_calibration(CPU, recorded(CPU, threads=1)),
        with_calibration(CPU, recorded(CPU, engine="ollama")),
        with_calibration(CPU, recorded(CPU, machine=mark_of(gpu_case().machine))),
        with_calibration(CPU, recorded(CPU, rates=None)),
        with_calibration(cpu_case(), recorded(CPU)),
    ],
    ids=["memory is slower now", "other threads", "other engine", "other machine", "no rates", "no tensors"],
)
def test_invalid_calibration_is_not_used(case: Case) -> None:
    found = predicted(case)
    assert found.basis == "catalog"
    assert found == predicted(with_calibration(case))


def test_oversubscribed_threads_are_not_calibrated(wording) -> None:
    crowded = with_facts(CPU, {"runtime.compute.threads": 8})
    found = predicted(with_calibration(crowded, recorded(crowded)))
    assert found.basis == "catalog"
    wording([part.name for part in found.parts])


def scaled(case: Case, **changes: object) -> Case:
    scale = Scale(model="x", measured_decode_s=0.012, expected_decode_s=0.010)
    return with_calibration(case, recorded(case, **{"backend": "gpu", "rates": None, "scale": scale, **changes}))


@pytest.mark.parametrize("layers", [33, 20])
def test_gpu_prediction_is_scaled_by_the_calibration(layers: int) -> None:
    plain = predicted(gpu_case(layers_on_gpu=layers))
    found = predicted(scaled(gpu_case(layers_on_gpu=layers)))
    assert (plain.basis, found.basis) == ("catalog", "calibrated")
    assert found.seconds.mid == pytest.approx(1.2 * plain.seconds.mid)
    assert [part.seconds for part in found.parts] == pytest.approx([1.2 * part.seconds for part in plain.parts])
    assert found.ceiling == plain.ceiling


def test_scale_of_another_time_or_backend_is_not_used() -> None:
    plain = predicted(gpu_case())
    assert predicted(scaled(gpu_case(), taken_at="long ago")) == plain
    assert predicted(scaled(gpu_case(), backend="cpu")) == plain


def test_prefill_uses_calibrated_rates() -> None:
    case = with_tensors(cpu_case())
    found = CaseView(with_calibration(case, recorded(case))).speed.predict_prefill()
    assert isinstance(found, Prediction)
    assert found.basis == "calibrated"
    assert sum(part.seconds for part in found.parts) == pytest.approx(found.seconds.mid)
    plain = CaseView(case).speed.predict_prefill()
    assert isinstance(plain, Prediction)
    assert plain.basis == "catalog"


def test_vocabulary_sort_is_added_to_calibrated_time() -> None:
    case = with_tensors(cpu_case())
    known = with_calibration(case, recorded(case))
    sorted_too = with_facts(known, {"runtime.sampling.top_k": 0})
    assert predicted(sorted_too).seconds.mid - predicted(known).seconds.mid == pytest.approx(128_256 * 6e-8)
