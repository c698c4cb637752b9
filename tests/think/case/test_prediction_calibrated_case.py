"""A case is predicted from what was measured of its machine, as long as that holds."""

from pathlib import Path

import msgspec
import pytest
from cases import cpu_case, gpu_case, plan_8b, with_facts, with_tensors

from unslow.facts.calibration import Calibration, Scale
from unslow.facts.snapshot import Case
from unslow.facts.values import Unknown
from unslow.think.case.prediction import Prediction, predict, predict_prefill
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
        "threads": case.runtime.threads.need(),
        "ram_read_bytes_per_s": case.machine.memory.read_bytes_per_s.need(),
    }
    found = msgspec.json.decode(RECORDED.read_bytes(), type=Recording).calibration
    return msgspec.structs.replace(found, **{**usual, **changes})


def with_calibration(case: Case, *calibrations: Calibration) -> Case:
    return msgspec.structs.replace(case, calibrations=calibrations)


def predicted(case: Case) -> Prediction:
    found = predict(case)
    assert not isinstance(found, Unknown)
    return found


CPU = with_tensors(cpu_case())


def test_a_cpu_is_predicted_from_its_own_rates() -> None:
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
def test_what_does_not_hold_is_not_used(case: Case) -> None:
    found = predicted(case)
    assert found.basis == "catalog"
    assert found == predicted(with_calibration(case))


def test_threads_in_each_others_way_are_no_calibrated_machine(wording) -> None:
    crowded = with_facts(CPU, {"runtime.threads": 8})
    found = predicted(with_calibration(crowded, recorded(crowded)))
    assert found.basis == "catalog"
    wording([part.name for part in found.parts])


def scaled(case: Case, **changes: object) -> Case:
    scale = Scale(model="x", measured_decode_s=0.012, expected_decode_s=0.010)
    return with_calibration(case, recorded(case, **{"backend": "gpu", "rates": None, "scale": scale, **changes}))


@pytest.mark.parametrize("layers", [33, 20])
def test_a_server_on_a_gpu_is_as_much_slower_as_it_was(layers: int) -> None:
    plain = predicted(gpu_case(layers_on_gpu=layers))
    found = predicted(scaled(gpu_case(layers_on_gpu=layers)))
    assert (plain.basis, found.basis) == ("catalog", "calibrated")
    assert found.seconds.mid == pytest.approx(1.2 * plain.seconds.mid)
    assert [part.seconds for part in found.parts] == pytest.approx([1.2 * part.seconds for part in plain.parts])
    assert found.ceiling == plain.ceiling


def test_the_scale_of_another_time_or_device_is_not_used() -> None:
    plain = predicted(gpu_case())
    assert predicted(scaled(gpu_case(), taken_at="long ago")) == plain
    assert predicted(scaled(gpu_case(), backend="cpu")) == plain


def test_a_prompt_is_read_at_the_rates_of_the_machine_too() -> None:
    case = with_tensors(cpu_case())
    found = predict_prefill(with_calibration(case, recorded(case)))
    assert isinstance(found, Prediction)
    assert found.basis == "calibrated"
    assert sum(part.seconds for part in found.parts) == pytest.approx(found.seconds.mid)
    plain = predict_prefill(case)
    assert isinstance(plain, Prediction)
    assert plain.basis == "catalog"


def test_sorting_comes_on_top_of_what_was_measured() -> None:
    case = with_tensors(cpu_case())
    known = with_calibration(case, recorded(case))
    sorted_too = with_facts(known, {"runtime.top_k": 0})
    assert predicted(sorted_too).seconds.mid - predicted(known).seconds.mid == pytest.approx(128_256 * 6e-8)
