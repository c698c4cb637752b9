from hypothesis import given, settings
from hypothesis import strategies as st

from unslow.page.html.svg import (
    NARROW,
    Box,
    Drawing,
    LabelSpace,
    fit_text,
    marker,
    number,
    polyline,
    spots_around,
    width,
    wrap_pieces,
)


@settings(max_examples=30)
@given(st.text(max_size=80), st.floats(0, 400), st.booleans())
def test_text_is_cut_to_the_given_width(said, room, bold):
    assert width(fit_text(said, room, bold=bold), bold=bold) <= room + 1e-6


def test_text_that_fits_is_not_cut():
    assert fit_text("NVIDIA H200", 200) == "NVIDIA H200"
    assert fit_text("a very long name of a device", 60).endswith("…")
    assert fit_text("one\ntwo   three", 200) == "one two three"


@settings(max_examples=30)
@given(st.lists(st.text(min_size=1, max_size=30), max_size=8), st.floats(20, 300))
def test_wrapped_lines_are_never_wider_than_the_given_width(pieces, room):
    assert all(width(line) <= room + 1e-6 for line in wrap_pieces(pieces, room))


def test_wrapping_keeps_the_order_of_the_pieces():
    assert wrap_pieces(["a 1 GiB", "b 2 GiB", "c 3 GiB"], 110) == ["a 1 GiB · b 2 GiB", "c 3 GiB"]


def test_second_label_takes_the_next_free_place():
    room = LabelSpace(Box(0, 0, 300, 100))
    first = room.first_free(spots_around(100, 50, 40, 12, 6))
    second = room.first_free(spots_around(100, 50, 40, 12, 6))
    assert first.left == 106
    assert not first.meets(second)
    assert room.first_free([Box(0, 0, 301, 10)]) is None


def test_text_beyond_the_edge_is_moved_inside():
    drawing = Drawing(NARROW, "x")
    drawing.words(339, 10, "at the edge")
    drawing.words(-5, 10, "before it", "middle")
    drawing.words(0, 10, "")
    first, second = drawing.parts
    assert float(first.split('x="')[1].split('"')[0]) + width("at the edge") <= 340.1
    assert float(second.split('x="')[1].split('"')[0]) >= width("before it") / 2 - 0.1


def test_polyline_number_and_marker_are_svg_paths():
    assert polyline([(0, 1), (2, 3)]) == "M0,1h0L2,3"
    assert polyline([(4, 5)]) == "M4,5h0"
    assert number(2.04) == "2"
    assert number(float("inf")) == "1000000000000000000"
    assert marker(5, 5, "square", 2) == "M3,3L7,3L7,7L3,7Z"
