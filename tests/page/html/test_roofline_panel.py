import re

import msgspec
import pytest
from tests.page.html.chart_geometry import drawings, points, words
from tests.page.html.chart_samples import roofline

from unslow.page.html.roofline import render_roofline
from unslow.page.view import RooflineView


def shapes(html: str, class_: str) -> list[object]:
    return [shape for shape in drawings(html)[0] if shape.attrib.get("class") == class_]


def test_both_phases_are_drawn_measured_and_predicted_below_two_roofs(wording):
    html = render_roofline(roofline(), 0)
    for phase in ("decode", "prefill"):
        assert len(shapes(html, f"mark measured {phase}")) == 1
        assert len(shapes(html, f"mark predicted {phase}")) == 1
    facts = ("NVIDIA H200: 989 TFLOP/s", "4.8 TB/s", " 206", "24%")
    wording([said for said in words(drawings(html)[0]) if re.search("[a-zA-Z]{3}", said)], tells=facts)


def test_roof_is_a_slope_up_to_the_ridge_then_flat(wording):
    html = render_roofline(msgspec.structs.replace(roofline(), roofs=roofline().roofs[:1]), 0)
    (roof,) = shapes(html, "roof roof-1")
    parent = drawings(html)[0]
    for shape in list(parent):
        if shape.attrib.get("class") != "roof roof-1":
            parent.remove(shape)
    foot, ridge, end = points(parent)
    assert foot[0] < ridge[0] < end[0]
    assert foot[1] > ridge[1] == end[1]
    wording(roof.find("title").text, tells=("H200", "4.8", "989"))


def test_unmeasured_phase_has_only_a_hollow_marker():
    predicted = tuple(msgspec.structs.replace(p, measured_flops_per_s=None) for p in roofline().points)
    html = render_roofline(msgspec.structs.replace(roofline(), points=predicted), 0)
    assert not shapes(html, "mark measured decode")
    assert "decode, measured" not in html
    assert "decode, predicted" in html


def test_eight_identical_gpus_share_one_roof():
    roofs = tuple(msgspec.structs.replace(roofline().roofs[0], device="H100") for _ in range(8))
    html = render_roofline(msgspec.structs.replace(roofline(), roofs=roofs), 0)
    assert len(shapes(html, "roof roof-1")) == 1
    assert not shapes(html, "roof roof-2")
    assert "8 × H100: 989 TFLOP/s" in words(drawings(html)[0])


@pytest.mark.parametrize("field", ["bytes_per_s", "flops_per_s"])
def test_roof_without_a_positive_limit_is_not_drawn(field, wording):
    roofs = (msgspec.structs.replace(roofline().roofs[0], **{field: 0.0}),)
    html = render_roofline(RooflineView(roofs=roofs, points=roofline().points, summary=""), 0)
    wording(words(drawings(html)[0]))
    assert "<td>989 TFLOP/s</td>" in html or field == "flops_per_s"
