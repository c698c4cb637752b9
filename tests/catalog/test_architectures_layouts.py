"""Architecture layouts are sound: every name they use is defined, and every part exists."""

import msgspec
import pytest

from unslow.catalog import entries
from unslow.catalog.architectures import Group, Layout, _merge_parts, layouts
from unslow.catalog.models import Shape
from unslow.think.blueprints import names_in

SHAPE = {field.name for field in msgspec.structs.fields(Shape)}


def expressions_of(layout):
    yield from layout.numbers.values()
    yield from (setting for setting in layout.metadata.values() if isinstance(setting, str))
    for group in layout.groups:
        yield from filter(None, [group.when])
        yield from (part for shape in group.tensors.values() for part in shape.split(","))


@pytest.mark.parametrize("architecture", layouts())
def test_layout_expressions_use_only_names_of_the_shape_or_the_layout(architecture):
    layout = layouts()[architecture]
    asked = {name for text in expressions_of(layout) for name in names_in(text)}
    # `recurrent` and `routed` are the layout's to define; where it does not, no layer is
    assert asked - SHAPE - set(layout.numbers) <= {"layer", "recurrent", "routed"}


@pytest.mark.parametrize("architecture", layouts())
def test_a_layout_names_its_source_and_has_token_table_and_block_count(architecture):
    layout = layouts()[architecture]
    assert layout.source.startswith("src/models/")
    assert "token_embd.weight" in {name for group in layout.groups for name in group.tensors}
    assert layout.metadata["block_count"] == "layers"


def test_every_layout_part_is_used():
    used = {
        part
        for folder in ("layouts", "layouts/parts")
        for one in entries(folder, Layout).values()
        for part in one.parts
    }
    assert set(entries("layouts/parts", Layout)) == used


def test_a_layout_overrides_its_parts():
    part = Layout(
        numbers={"a": "1", "b": "2"},
        metadata={"key": 1, "other": 2},
        groups=(Group({"kept": "a", "changed": "a", "dropped": "a"}), Group({"changed": "a + 1"}, "b")),
    )
    own = Layout(
        parts=("part",),
        without=("dropped",),
        numbers={"b": "3"},
        metadata={"key": 5},
        groups=(Group({"changed": "b"}, "a"),),
    )
    whole = _merge_parts(own, {"part": part})
    assert whole.numbers == {"a": "1", "b": "3"}
    assert whole.metadata == {"key": 5, "other": 2}
    assert whole.groups == (Group({"kept": "a"}), Group({"changed": "b"}, "a"))
