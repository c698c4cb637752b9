"""Shapes are consistent and have the parameters that their sources state."""

import re

import pytest

from unslow.catalog.architectures import made_up_shapes
from unslow.catalog.quants import file_type_of_mix
from unslow.look.engine.made_up_models import planned_tensors


@pytest.mark.parametrize("name", made_up_shapes())
def test_a_shape_is_consistent(name):
    shape = made_up_shapes()[name]
    assert shape.heads % shape.kv_heads == 0
    assert shape.experts_used <= shape.experts
    assert file_type_of_mix(shape.quant)[0].output
    assert shape.vocabulary > 259  # the byte tokens and the special ones
    assert shape.source


@pytest.mark.parametrize("name", [n for n, s in made_up_shapes().items() if "parameters" in s.source])
def test_a_published_shape_has_its_published_parameters(name):
    shape = made_up_shapes()[name]
    stated = int(re.search(r"([\d,]+) parameters", shape.source)[1].replace(",", ""))
    elements = 0
    for tensor in planned_tensors(shape, "Q8_0"):
        size = 1
        for dimension in tensor.dimensions:
            size *= dimension
        elements += size
    assert elements == stated
