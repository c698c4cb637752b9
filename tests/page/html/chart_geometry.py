"""Reads the drawings of a panel back: every coordinate, and where words stand."""

import re
from collections.abc import Iterator
from xml.etree import ElementTree as ET

from unslow.page.html.svg import BOLD_WORDS, Box, width

_DRAWING = re.compile(r'<svg class="drawing .*?</svg>', re.DOTALL)
_POINT = re.compile(r"(?:[ML]|0 1 1 )(-?[\d.]+|-?nan|-?inf),(-?[\d.]+|-?nan|-?inf)")


def drawings(html: str) -> list[ET.Element]:
    """Every drawing, parsed as strictly as XML is."""
    found = [ET.fromstring(text) for text in _DRAWING.findall(html)]
    assert found
    return found


def size(svg: ET.Element) -> tuple[float, float]:
    left, top, wide, high = map(float, svg.attrib["viewBox"].split())
    assert (left, top) == (0, 0)
    return wide, high


def _shapes(svg: ET.Element) -> Iterator[ET.Element]:
    for child in svg:
        if child.tag not in {"title", "desc", "pattern"}:
            yield child


def points(svg: ET.Element) -> Iterator[tuple[float, float]]:
    """Every place that is drawn at."""
    for shape in _shapes(svg):
        at = {name: float(value) for name, value in shape.attrib.items() if name in _PLACES}
        if shape.tag == "line":
            yield from ((at["x1"], at["y1"]), (at["x2"], at["y2"]))
        elif shape.tag == "rect":
            yield from ((at["x"], at["y"]), (at["x"] + at["width"], at["y"] + at["height"]))
        elif shape.tag == "text":
            yield at["x"], at["y"]
        else:
            found = _POINT.findall(shape.attrib["d"])
            assert found, shape.attrib["d"]
            yield from ((float(x), float(y)) for x, y in found)


_PLACES = frozenset({"x", "y", "x1", "y1", "x2", "y2", "width", "height"})


def outside(svg: ET.Element) -> list[tuple[float, float]]:
    """Coordinates outside the picture, or not numbers."""
    wide, high = size(svg)
    return [(x, y) for x, y in points(svg) if not (-0.1 <= x <= wide + 0.1 and -0.1 <= y <= high + 0.1)]


def words(svg: ET.Element) -> list[str]:
    return [shape.text or "" for shape in _shapes(svg) if shape.tag == "text"]


def overlaps(svg: ET.Element) -> list[tuple[str, str]]:
    """Pairs of overlapping labels, by their estimated width; rotated ones are left out."""
    boxes = [
        (shape.text or "", _box(shape))
        for shape in _shapes(svg)
        if shape.tag == "text" and "transform" not in shape.attrib
    ]
    return [(a, b) for n, (a, box) in enumerate(boxes) for b, other in boxes[n + 1 :] if box.meets(other)]  # fmt: skip


def _box(shape: ET.Element) -> Box:
    wide = width(shape.text or "", bold=shape.attrib.get("class") in BOLD_WORDS) * 0.97
    x, y = float(shape.attrib["x"]), float(shape.attrib["y"])
    left = x - {"middle": wide / 2, "end": wide}.get(shape.attrib.get("text-anchor", ""), 0)
    return Box(left, y - 9, left + wide, y + 2)
