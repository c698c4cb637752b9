"""Shapes hang together and have the parameters that their sources state."""

import re

import pytest

from unslow.catalog.quants import mix
from unslow.catalog.shapes import shapes
from unslow.look.engine.layout import tensors


@pytest.mark.parametrize("name", shapes())
def test_a_shape_hangs_together(name):
    shape = shapes()[name]
    assert shape.heads % shape.kv_heads == 0
    assert shape.experts_used <= shape.experts
    assert mix(shape.quant)[0].output
    assert shape.vocabulary > 259  # the byte tokens and the special ones
    assert shape.source


@pytest.mark.parametrize("name", [n for n, s in shapes().items() if "parameters" in s.source])
def test_a_published_shape_has_its_published_parameters(name):
    shape = shapes()[name]
    stated = int(re.search(r"([\d,]+) parameters", shape.source)[1].replace(",", ""))
    elements = 0
    for tensor in tensors(shape, "Q8_0"):
        size = 1
        for dimension in tensor.dimensions:
            size *= dimension
        elements += size
    assert elements == stated
