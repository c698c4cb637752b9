import re

import msgspec
import pytest
from tests.page.html.chart_geometry import drawings, words
from tests.page.html.chart_samples import many_gpus, recorded_timeline

from unslow.page.html.timeline import joined_spans, render_timeline, rows_of
from unslow.page.view import PhaseSpan, TimelineView, Track


def count(html: str, class_: str) -> int:
    return sum(shape.attrib.get("class") == class_ for shape in drawings(html)[0])


def test_a_recorded_run_has_a_row_for_each_quantity_and_its_limits():
    html = render_timeline(recorded_timeline(), 1)
    said = words(drawings(html)[0])
    assert {"clock, MHz", "power, W", "temperature, °C", "busy, %", "limit 700 W", "limit 140 GiB"} <= set(said)
    assert count(html, "line series-1") == 7
    assert count(html, "phase phase-prefill") >= 20
    assert "<td>1,980 MHz</td>" in html
    assert 'id="timeline-1-figure"' in html


def test_of_eight_gpus_the_one_that_differs_stands_out():
    html = render_timeline(many_gpus(), 0)
    assert [sorted(row.odd) for row in rows_of(many_gpus().tracks)] == [[3], [3], [], [3], []]
    assert count(html, "line odd") == 3
    assert count(html, "line other") == 8 * 5 - 3
    said = words(drawings(html)[0])
    assert said.count("GPU 3") == 3
    assert said.count("all 8 alike") == 2


def test_two_gpus_have_a_line_each_and_a_legend():
    html = render_timeline(many_gpus(2, 50), 0)
    assert count(html, "line series-1") == count(html, "line series-2") == 5
    assert "<span>GPU 0</span>" in html
    assert "<span>GPU 1</span>" in html


def test_reasons_have_a_pattern_and_words_and_the_clocks_are_marked(wording):
    html = render_timeline(many_gpus(), 0)
    for svg in drawings(html):
        wording([said for said in words(svg) if ": GPU" in said], tells=("hw thermal slowdown", "gpu idle"))
        fills = [shape.attrib["fill"] for shape in svg if shape.attrib.get("class") == "pattern"]
        patterns = [shape.attrib["id"] for shape in svg if shape.tag == "pattern"]
        assert len(fills) == 2
        assert {fill[5:-1] for fill in fills} == set(patterns)
    assert count(html, "held-back") == 1


def test_requests_at_once_are_one_stretch_of_their_phase():
    spans = [PhaseSpan(phase="decode", start_s=s, end_s=s + 3) for s in (0, 1, 5, 8)]
    assert joined_spans(spans, 0) == {"decode": [(0, 4), (5, 11)]}
    assert joined_spans(spans, 1) == {"decode": [(0, 11)]}


def one_track(*values: float | None, name: str = "power_w", limit: float | None = None) -> TimelineView:
    track = Track(name=name, label="", device="GPU", values=values, limit=limit)
    return TimelineView(times_s=tuple(float(n) for n in range(len(values))), tracks=(track,))


def path(part: TimelineView) -> str:
    svg = drawings(render_timeline(part, 0))[0]
    return next(shape.attrib["d"] for shape in svg if shape.attrib.get("class") == "line series-1")


def test_a_line_breaks_where_there_is_no_sample_and_one_alone_is_a_dot():
    assert re.fullmatch(r"M[^ML]+L[^ML]+M[^MLh]+h0", path(one_track(1, 2, None, 3, None)))
    assert path(one_track(1, 2, 3)).count("M") == 1


def test_higher_is_higher_and_zero_is_the_foot():
    heights = [float(y) for y in re.findall(r",([\d.]+)", path(one_track(0, 5, 10, limit=20)))]
    assert heights[0] > heights[1] > heights[2]
    assert heights[0] - heights[2] == pytest.approx(2 * (heights[0] - heights[1]), abs=0.2)


def test_a_limit_that_is_far_away_does_not_press_the_lines_down():
    assert rows_of(one_track(1, 2, limit=1e6).tracks)[0].limit is None
    assert rows_of(one_track(1, 2, limit=20).tracks)[0].limit == 20


def test_a_degree_more_is_no_mountain():
    row = rows_of(one_track(50, 51, name="temperature_c").tracks)[0]
    assert row.high - row.low >= 40


def test_what_was_nothing_all_the_time_is_only_in_the_table():
    html = render_timeline(one_track(0, 0, name="swap_in_bytes_per_s"), 0)
    assert "<td>0 MB/s</td>" in html
    assert count(html, "line series-1") == 0


def test_nothing_sampled_is_said(wording):
    (said,) = wording(words(drawings(render_timeline(TimelineView(times_s=(), tracks=()), 0))[0]))
    without = msgspec.structs.replace(recorded_timeline(), times_s=(), spans=())
    assert said in render_timeline(without, 0)
