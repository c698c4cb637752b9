import re

import msgspec
from tests.page.html.chart_geometry import drawings, words
from tests.page.html.chart_samples import depth_curve, users_curve

from unslow.page.html.curves import render_curve
from unslow.page.view import CurvePoint, CurveView


def marks(html: str, name: str) -> list[tuple[float, float]]:
    """The middle of each mark of the wide drawing."""
    found = [s.attrib["d"] for s in drawings(html)[0] if s.attrib.get("class") == f"mark {name}"]
    ends = [[tuple(map(float, p)) for p in re.findall(r"(?:[ML]|0 1 1 )([\d.]+),([\d.]+)", d)] for d in found]
    return [tuple((min(side) + max(side)) / 2 for side in zip(*points, strict=True)) for points in ends]


def titles(said: list[str]) -> list[str]:
    """The words of a picture without its numbers."""
    return [words for words in said if re.search("[a-z]{3}", words)]


def test_depth_sweep_is_drawn_with_measured_and_predicted_points(wording):
    html = render_curve(depth_curve(), 4)
    assert 'id="depth-4-figure"' in html
    assert depth_curve().because in html
    measured = marks(html, "measured")
    assert len(measured) == 8
    assert [x for x, _ in measured] == sorted(x for x, _ in measured)
    assert measured[-1][1] > measured[0][1]  # slower lies lower
    said = words(drawings(html)[0])
    assert {"512", "1k", "64k", "231", "126"} <= set(said)
    wording(titles(said))
    assert "<td>231 tok/s</td>" in html
    assert depth_curve().points[0].note in html


def test_users_sweep_marks_its_knee(wording):
    html = render_curve(users_curve(), 0)
    wording(titles(words(drawings(html)[0])), tells=": 16")
    knee = next(s for s in drawings(html)[0] if s.attrib.get("class") == "knee")
    assert abs(float(knee.attrib["x1"]) - marks(html, "measured")[4][0]) < 0.2


def test_whiskers_and_band_span_the_intervals():
    point = CurvePoint(at=4, measured=50, low=40, high=60, predicted=50, predicted_low=20, predicted_high=80)
    svg = drawings(render_curve(CurveView(axis="users", metric="together_tokens_per_s", points=(point,)), 0))[0]
    whisker = next(s for s in svg if s.attrib.get("class") == "whisker").attrib["d"]
    heights = sorted({float(y) for y in re.findall(r",([\d.]+)", whisker)})
    band = next(s for s in svg if s.attrib.get("class") == "band")
    assert float(band.attrib["height"]) / (heights[-1] - heights[0]) - 3 < 0.05


def test_depth_zero_stands_apart_at_the_left():
    points = tuple(CurvePoint(at=at, predicted=100 - at / 1000) for at in (0, 512, 4096))
    html = render_curve(CurveView(axis="depth", metric="decode_tokens_per_s", points=points), 0)
    first, second, third = (x for x, _ in marks(html, "predicted"))
    assert first < second < third
    assert words(drawings(html)[0]).count("0") == 2  # of both axes
    assert "predicted" in html
    assert "measured, with" not in html


def test_time_curve_has_a_time_axis(wording):
    points = (CurvePoint(at=1, measured=0.02), CurvePoint(at=8, measured=0.2))
    html = render_curve(CurveView(axis="users", metric="time_to_first_token_s", points=points), 0)
    said = words(drawings(html)[0])
    assert "200" in said
    wording(titles(said))
    assert "<td>200 ms</td>" in html


def test_curve_without_points_says_so(wording):
    none = msgspec.structs.replace(depth_curve(), points=(), verdict="", because="")
    wording(words(drawings(render_curve(none, 0))[0]))
