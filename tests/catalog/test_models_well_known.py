"""Model entries are consistent; wrong numbers show in the resulting parameter counts."""

import msgspec
import pytest

from unslow.catalog import entries
from unslow.catalog.architectures import layouts
from unslow.catalog.models import Shape, _complete_entry, _Entry, well_known
from unslow.think.blueprints import names_in


def asked_by(layout):
    texts = [*layout.numbers.values(), *(s for s in layout.metadata.values() if isinstance(s, str))]
    texts += [group.when for group in layout.groups if group.when]
    texts += [part for group in layout.groups for shape in group.tensors.values() for part in shape.split(",")]
    return frozenset().union(*(names_in(text) for text in texts))


@pytest.mark.parametrize("stem", well_known())
def test_a_model_entry_is_complete(stem):
    model = well_known()[stem]
    assert model.architecture in layouts()
    assert model.source
    assert model.parameters > 1e8
    for value in (model.shape.kv_heads, model.shape.feed_forward, model.shape.windowed):
        if isinstance(value, list):
            assert len(value) == model.shape.layers or model.shape.layers % len(value) == 0


@pytest.mark.parametrize("stem", well_known())
def test_every_number_of_an_entry_is_used_by_its_architecture(stem):
    model = well_known()[stem]
    stated = {name for name, value in msgspec.structs.asdict(model.shape).items() if value is not None}
    assert stated <= asked_by(layouts()[model.architecture])


def test_an_entry_based_on_another_overrides_its_numbers():
    shape = {"layers": 2, "width": 4, "vocabulary": 8, "context_trained": 16}
    base = _Entry(("Base",), "somewhere", 7, architecture="llama", shape=shape)
    other = _Entry(("Other",), "elsewhere", like="base", shape={"context_trained": 32})
    model = _complete_entry(other, base)
    assert model.shape == Shape(layers=2, width=4, vocabulary=8, context_trained=32)
    assert (model.architecture, model.parameters, model.name) == ("llama", 7, "Other")


def test_entries_are_based_on_another_at_most_once():
    found = entries("models", _Entry)
    for entry in found.values():
        assert not entry.like or not found[entry.like].like
