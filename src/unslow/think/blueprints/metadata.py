"""The GGUF metadata of a model, from the numbers of its shape and the layout of its architecture."""

from unslow.catalog.layouts import Layout, Setting
from unslow.facts.blueprint import Value
from unslow.think.blueprints.expressions import expression, names_in
from unslow.think.blueprints.numbers import Numbers, Stated


def metadata(architecture: str, layout: Layout, stated: Stated) -> dict[str, Value]:
    """Every key that the layout has a value for, under the architecture's name."""
    whole = Numbers(stated, layout.numbers)
    each = [Numbers(stated, layout.numbers, layer) for layer in range(whole.layers)]
    varying = _varying(layout, stated)
    found = {key: _value(setting, whole, each, varying) for key, setting in layout.metadata.items()}
    return {f"{architecture}.{key}": value for key, value in found.items() if value is not None}


def _varying(layout: Layout, stated: Stated) -> set[str]:
    """The names that differ from layer to layer: those given as lists, and all that are worked out from one."""
    varying = {"layer", *(name for name, value in stated.items() if isinstance(value, list))}
    derived = {name: names_in(text) for name, text in layout.numbers.items() if stated.get(name) is None}
    while more := {name for name, used in derived.items() if used & varying} - varying:
        varying |= more
    return varying


def _value(setting: Setting, whole: Numbers, each: list[Numbers], varying: set[str]) -> Value | None:
    if not isinstance(setting, str):
        return setting
    value = expression(setting)
    if names_in(setting) & varying:
        return [int(value(numbers) or 0) for numbers in each]
    return value(whole)
