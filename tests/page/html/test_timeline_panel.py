import re

import msgspec
import pytest
from tests.page.html.chart_geometry import drawings, words
from tests.page.html.chart_samples import many_gpus, recorded_timeline

from unslow.page.html.timeline import joined_spans, render_timeline, rows_of
from unslow.page.view import PhaseSpan, TimelineView, Track


def count(html: str, class_: str) -> int:
    return sum(shape.attrib.get("class") == class_ for shape in drawings(html)[0])


def test_timeline_has_a_row_per_quantity_with_its_limit():
    html = render_timeline(recorded_timeline(), 1)
    said = words(drawings(html)[0])
    assert {"clock, MHz", "power, W", "temperature, °C", "busy, %", "limit 700 W", "limit 140 GiB"} <= set(said)
    assert count(html, "line series-1") == 7
    assert count(html, "phase phase-prefill") >= 20
    assert "<td>1,980 MHz</td>" in html
    assert 'id="timeline-1-figure"' in html


def test_outlier_among_eight_gpus_is_highlighted():
    html = render_timeline(many_gpus(), 0)
    assert [sorted(row.odd) for row in rows_of(many_gpus().tracks)] == [[3], [3], [], [3], []]
    assert count(html, "line odd") == 3
    assert count(html, "line other") == 8 * 5 - 3
    said = words(drawings(html)[0])
    assert said.count("GPU 3") == 3
    assert said.count("all 8 similar") == 2


def test_two_gpus_get_a_line_each_and_a_legend():
    html = render_timeline(many_gpus(2, 50), 0)
    assert count(html, "line series-1") == count(html, "line series-2") == 5
    assert "<span>GPU 0</span>" in html
    assert "<span>GPU 1</span>" in html


def test_throttle_reasons_have_a_pattern_and_label_and_mark_the_clock_row(wording):
    html = render_timeline(many_gpus(), 0)
    for svg in drawings(html):
        wording([said for said in words(svg) if ": GPU" in said], tells=("hw thermal slowdown", "gpu idle"))
        fills = [shape.attrib["fill"] for shape in svg if shape.attrib.get("class") == "pattern"]
        patterns = [shape.attrib["id"] for shape in svg if shape.tag == "pattern"]
        assert len(fills) == 2
        assert {fill[5:-1] for fill in fills} == set(patterns)
    assert count(html, "held-back") == 1


def test_overlapping_spans_of_a_phase_are_joined():
    spans = [PhaseSpan(phase="decode", start_s=s, end_s=s + 3) for s in (0, 1, 5, 8)]
    assert joined_spans(spans, 0) == {"decode": [(0, 4), (5, 11)]}
    assert joined_spans(spans, 1) == {"decode": [(0, 11)]}


def one_track(*values: float | None, name: str = "power_w", limit: float | None = None) -> TimelineView:
    track = Track(name=name, label="", device="GPU", values=values, limit=limit)
    return TimelineView(times_s=tuple(float(n) for n in range(len(values))), tracks=(track,))


def path(part: TimelineView) -> str:
    svg = drawings(render_timeline(part, 0))[0]
    return next(shape.attrib["d"] for shape in svg if shape.attrib.get("class") == "line series-1")


def test_line_breaks_at_missing_samples_and_a_single_sample_is_a_dot():
    assert re.fullmatch(r"M[^ML]+L[^ML]+M[^MLh]+h0", path(one_track(1, 2, None, 3, None)))
    assert path(one_track(1, 2, 3)).count("M") == 1


def test_line_height_is_proportional_to_the_value():
    heights = [float(y) for y in re.findall(r",([\d.]+)", path(one_track(0, 5, 10, limit=20)))]
    assert heights[0] > heights[1] > heights[2]
    assert heights[0] - heights[2] == pytest.approx(2 * (heights[0] - heights[1]), abs=0.2)


def test_limit_far_above_the_values_is_not_drawn():
    assert rows_of(one_track(1, 2, limit=1e6).tracks)[0].limit is None
    assert rows_of(one_track(1, 2, limit=20).tracks)[0].limit == 20


def test_temperature_axis_spans_at_least_40_degrees():
    row = rows_of(one_track(50, 51, name="temperature_c").tracks)[0]
    assert row.high - row.low >= 40


def test_quantity_that_stays_zero_is_only_in_the_table():
    html = render_timeline(one_track(0, 0, name="swap_in_bytes_per_s"), 0)
    assert "<td>0 MB/s</td>" in html
    assert count(html, "line series-1") == 0


def test_timeline_without_samples_says_so(wording):
    (said,) = wording(words(drawings(render_timeline(TimelineView(times_s=(), tracks=()), 0))[0]))
    without = msgspec.structs.replace(recorded_timeline(), times_s=(), spans=())
    assert said in render_timeline(without, 0)
