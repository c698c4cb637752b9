"""The tensors of a compute graph: shapes, strides and bytes, no values.

Shapes and strides count as ggml's do: four of each, the length of a row first, strides in bytes.
"""

from collections.abc import Sequence
from functools import cache, lru_cache

from unslow.catalog.quants import quants
from unslow.facts.errors import UserError

Shape = tuple[int, int, int, int]

VIEW_OPS = frozenset({"view", "reshape", "permute", "transpose"})
_IN_PLACE_OPS = frozenset(
    {"fill", "scale", "add", "add_id", "sub", "mul", "div", "sqr", "sqrt", "log", "unary", "rope", "rms_norm",
     "clamp", "soft_max"}
)  # fmt: skip


@cache
def block_of(kind: str) -> tuple[int, int]:
    """Elements and bytes of a block of a ggml type; UserError where there is no such type."""
    quant = quants().get(kind)
    if quant is None:
        raise UserError(f"there is no type {kind[:40]!r} of tensors", "such as F16 or Q8_0")
    return quant.block_elements, quant.block_bytes


def row_bytes(kind: str, elements: int) -> int:
    """The size of a row."""
    block_elements, block_bytes = block_of(kind)
    return elements // block_elements * block_bytes


@cache
def packed_strides(kind: str, shape: Shape) -> Shape:
    """The strides of a tensor without gaps."""
    row = row_bytes(kind, shape[0])
    return block_of(kind)[1], row, row * shape[1], row * shape[1] * shape[2]


@lru_cache(maxsize=8192)  # layers are alike, and a graph is laid out again for each placement that is tried
def _extent(kind: str, shape: Shape, strides: Shape) -> int:
    if 0 in shape:
        return 0
    block_elements, block_bytes = block_of(kind)
    steps = sum((n - 1) * s for n, s in zip(shape[1:], strides[1:], strict=True))
    if block_elements == 1:
        return block_bytes + (shape[0] - 1) * strides[0] + steps
    return shape[0] * strides[0] // block_elements + steps


class Node:
    """A tensor of the graph: an input, a weight, a cache, a result, or a view of one of them."""

    __slots__ = (
        "backend", "children", "home", "is_input", "is_listed", "is_output", "is_view", "is_weight", "kind", "name",
        "op", "owned", "place", "shape", "size", "sources", "strides", "view_of", "views",
    )  # fmt: skip

    def __init__(
        self, op: str, kind: str, shape: Shape, sources: tuple["Node", ...] = (), *, strides: Shape | None = None,
        view_of: "Node | None" = None, name: str = "",
    ) -> None:  # fmt: skip
        self.op, self.kind, self.shape, self.sources, self.name = op, kind, shape, sources, name
        self.strides = strides or packed_strides(kind, shape)
        self.view_of: Node | None = view_of if view_of is None or view_of.view_of is None else view_of.view_of
        self.is_view = view_of is not None
        self.is_input = self.is_output = self.is_weight = False
        self.is_listed = False
        """Whether its graph has it already, and all that it needs."""
        self.home: int | None = self.view_of.home if self.view_of is not None else None
        """The backend whose memory holds it since the model was loaded; None where the graph allocates it."""
        self.backend = -1
        """Where it is computed."""
        self.children = self.views = self.size = 0
        self.owned = False
        self.place: tuple[int, int] = (-1, 0)
        """The buffer and the offset that the allocator gave it."""

    @property
    def elements(self) -> int:
        """The number of elements."""
        a, b, c, d = self.shape
        return a * b * c * d

    @property
    def bytes(self) -> int:
        """From the first to the last byte, as ggml counts a tensor with strides."""
        return _extent(self.kind, self.shape, self.strides)

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements follow each other without gaps."""
        return self.strides == packed_strides(self.kind, self.shape)

    @property
    def can_be_in_place(self) -> bool:
        """Whether ggml may write the result over an operand."""
        return self.op in _IN_PLACE_OPS

    def has_layout_of(self, other: "Node") -> bool:
        """Whether it has the type, shape and strides of another."""
        return self.kind == other.kind and self.shape == other.shape and self.strides == other.strides

    def __repr__(self) -> str:
        """What it is, for a debugger."""
        return f"{self.op} {self.name} {self.kind} {self.shape}"


def four(shape: Sequence[int]) -> Shape:
    """A shape filled up with ones."""
    a, b, c, d = (*shape, 1, 1, 1, 1)[:4]
    return a, b, c, d
