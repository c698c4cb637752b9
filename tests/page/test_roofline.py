"""The roofline: roofs, intensities, and how near the phases come to them."""

import pytest
from tests.cases import cpu_case, gpu_case
from tests.recorded_machines import first_case

from unslow.facts.snapshot import Case
from unslow.facts.values import Unknown
from unslow.page.roofline import joined_roof, roofline_summary, roofline_view
from unslow.page.view import Roof, RooflinePoint, RooflineView
from unslow.think.case.speed import Prediction
from unslow.think.case.view import CaseView


def drawn(case: Case) -> RooflineView:
    found = roofline_view(CaseView(case))
    assert isinstance(found, RooflineView), found
    return found


def point(view: RooflineView, phase: str) -> RooflinePoint:
    return next(one for one in view.points if one.phase == phase)


@pytest.mark.parametrize("name", ["h200_live_healthy", "built_rtx_4060_llama_70b", "lab_cpu_cpu_contended"])
def test_predictions_stay_below_the_roof_and_decode_intensity_is_low(name: str):
    view = drawn(first_case(name))
    for one in view.points:
        assert one.predicted_flops_per_s is not None
        assert 0 < one.predicted_flops_per_s <= one.roof_flops_per_s
    assert 1 < point(view, "decode").flops_per_byte < 10
    assert point(view, "prefill").flops_per_byte > 20 * point(view, "decode").flops_per_byte


def test_decode_flops_per_token_are_two_per_parameter():
    case = gpu_case()
    found, decode = CaseView(case).speed.predict(), point(drawn(case), "decode")
    assert isinstance(found, Prediction)
    assert decode.predicted_flops_per_s is not None
    flops = decode.predicted_flops_per_s / found.tokens_per_s.mid
    assert flops == pytest.approx(2 * case.model.parameters.need(), rel=0.15)


def test_model_on_one_gpu_has_one_roof_with_its_source():
    (roof,) = drawn(first_case("h200_live_healthy")).roofs
    assert roof.device == "NVIDIA H200"
    assert roof.bytes_per_s == pytest.approx(4.81e12, rel=0.01)
    assert roof.ridge_flops_per_byte == pytest.approx(roof.flops_per_s / roof.bytes_per_s)
    assert "driver" in roof.source
    assert "8-bit" in roof.source


def test_spilled_model_has_gpu_and_cpu_roofs_and_a_lower_decode_roof():
    view = drawn(first_case("built_rtx_4060_llama_70b"))
    gpu, cpu = view.roofs
    assert (gpu.device, cpu.device) == ("NVIDIA GeForce RTX 4060", "AMD Ryzen 7 5800X 8-Core Processor")
    decode = point(view, "decode")
    assert decode.roof_flops_per_s < 0.3 * decode.flops_per_byte * gpu.bytes_per_s
    assert decode.bound_by == "memory"
    assert point(view, "prefill").bound_by == "memory"  # weights come over the link


def test_cpu_only_model_has_a_cpu_roof():
    view = drawn(cpu_case())
    (roof,) = view.roofs
    assert "cores" in roof.source
    assert point(view, "prefill").bound_by == "compute"


def test_layer_split_and_parallel_gpus_have_different_roofs(wording):
    view = drawn(first_case("built_two_rtx_3090_layer_split"))
    wording([roof.device for roof in view.roofs], tells=("2 ×", "RTX 3090"))
    assert view.roofs[1].flops_per_s == pytest.approx(2 * view.roofs[0].flops_per_s)
    (shared,) = drawn(first_case("built_vllm_eight_h100")).roofs
    wording(shared.device, tells=("8 ×", "H100", "80GB"))


def test_different_gpus_are_both_named_and_averaged(wording):
    view = drawn(first_case("built_rtx_3090_and_p40_uneven_split"))
    wording(view.roofs[0].device, tells=("RTX 3090", "P40"))
    (alike, *_) = drawn(first_case("built_two_rtx_3090_layer_split")).roofs
    assert view.roofs[0].flops_per_s < 0.8 * alike.flops_per_s
    assert view.roofs[0].source.count("catalog") >= 2


def test_small_model_on_a_large_gpu_is_overhead_bound():
    assert point(drawn(first_case("h200_live_healthy")), "decode").bound_by == "overhead"


def test_roofline_of_an_empty_case_is_unknown():
    found = roofline_view(CaseView(Case()))
    assert isinstance(found, Unknown)
    assert found.why


def test_roofline_summary_says_what_bounds_each_phase(wording):
    text = drawn(first_case("built_rtx_4060_llama_70b")).summary
    wording(text, tells=("RTX 4060", "445", "3.3", "80%"))


def test_measurement_above_the_roof_is_flagged(wording):
    roof = Roof(device="X", bytes_per_s=1e9, flops_per_s=1e12, ridge_flops_per_byte=1e3, source="test")
    above = RooflinePoint(
        phase="prefill",
        label="",
        flops_per_byte=1e4,
        measured_flops_per_s=3e12,
        roof_flops_per_s=1e12,
        bound_by="compute",
    )
    wording(roofline_summary([roof], [above]))
    assert joined_roof(roof, 1) is roof


def test_point_without_a_speed_has_no_share_in_the_summary(wording):
    roof = Roof(device="X", bytes_per_s=1e9, flops_per_s=1e12, ridge_flops_per_byte=1e3, source="test")
    bare = RooflinePoint(phase="decode", label="", flops_per_byte=2.0, roof_flops_per_s=2e9, bound_by="memory")
    wording(roofline_summary([roof], [bare]), tells="2.0")


def test_compute_bound_decode_below_the_ridge_is_explained(wording):
    view = drawn(first_case("h200_seen_spilled"))
    assert point(view, "decode").bound_by == "compute"
    wording(view.summary)
