"""The numbers of a model as its layout's expressions see them: for the model as a whole, or for one layer."""

from collections.abc import Mapping

from unslow.think.blueprints.expressions import Value, expression

Stated = Mapping[str, Value | list[int]]


class Numbers:
    """What the shape states, else what the layout works out, once it is asked for.

    A list has one number for each layer and is repeated where it is shorter; the model as a whole sees the largest.
    """

    def __init__(self, stated: Stated, derived: Mapping[str, str], layer: int | None = None) -> None:
        self._stated = stated
        self._derived = derived
        self._layer = layer
        self._known: dict[str, Value] = {"layer": layer}

    def number(self, name: str) -> Value:
        """The number of that name; None where nothing tells."""
        if name not in self._known:
            self._known[name] = self._found(name)
        return self._known[name]

    def _found(self, name: str) -> Value:
        stated = self._stated.get(name)
        if isinstance(stated, list):
            return max(stated) if self._layer is None else stated[self._layer % len(stated)]
        if stated is None and name in self._derived:
            return expression(self._derived[name])(self)
        return stated

    @property
    def layers(self) -> int:
        """How many layers there are."""
        return int(self.number("layers") or 0)
