"""The tensors of a model by name and shape, from the numbers of its shape and the layout of its architecture."""

from collections.abc import Iterator
from typing import NamedTuple

from unslow.catalog.layouts import Group, Layout
from unslow.think.blueprints.expressions import expression
from unslow.think.blueprints.numbers import Numbers, Stated


class Named(NamedTuple):
    """A tensor that has no type yet; the length of a row comes first."""

    name: str
    shape: tuple[int, ...]


def tensors(layout: Layout, stated: Stated) -> Iterator[Named]:
    """The tensors of the model as a whole, then those of each layer."""
    whole = Numbers(stated, layout.numbers)
    yield from _of_groups(layout.groups, whole, None)
    for layer in range(whole.layers):
        yield from _of_groups(layout.groups, Numbers(stated, layout.numbers, layer), layer)


def _of_groups(groups: tuple[Group, ...], numbers: Numbers, layer: int | None) -> Iterator[Named]:
    for group in groups:
        wanted = [name for name in group.tensors if ("{}" in name) is (layer is not None)]
        if wanted and (not group.when or expression(group.when)(numbers)):
            yield from (Named(name.format(layer), _shape(group.tensors[name], numbers, name)) for name in wanted)


def _shape(text: str, numbers: Numbers, name: str) -> tuple[int, ...]:
    sizes = [expression(part)(numbers) for part in text.split(",")]
    shape = tuple(size for size in sizes if isinstance(size, int) and size > 0)
    if len(shape) < len(sizes):
        raise ValueError(f"{name} is {text}, which makes {sizes}: the shape lacks a number")
    return shape
