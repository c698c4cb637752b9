"""A compute graph of ggml: tensors as shapes and bytes, the operations that make them, and the order of computing.

Shapes and strides count as ggml's do: four of each, the length of a row first, strides in bytes; there are no values.
"""

from collections.abc import Sequence
from functools import cache, lru_cache

from unslow.catalog.quants import quants
from unslow.facts.errors import UserError

Shape = tuple[int, int, int, int]
VIEW_OPS = frozenset({"view", "reshape", "permute", "transpose"})
IN_PLACE_OPS = frozenset(
    {"fill", "scale", "add", "add_id", "sub", "mul", "div", "sqr", "sqrt", "log", "unary", "rope", "rms_norm",
     "clamp", "soft_max"}
)  # fmt: skip
"""Whose result ggml may write over an operand."""


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
        self.is_listed = False  # Whether its graph has it already, and all that it needs
        self.home: int | None = self.view_of.home if self.view_of is not None else None
        """The backend whose memory holds it since the model was loaded; None where the graph allocates it."""
        self.backend = -1  # Where it is computed
        self.children = self.views = self.size = 0
        self.owned = False
        self.place: tuple[int, int] = (-1, 0)  # The buffer and the offset that the allocator gave it

    @property
    def elements(self) -> int:
        a, b, c, d = self.shape
        return a * b * c * d

    @property
    def bytes(self) -> int:
        """From the first to the last byte, as ggml counts a tensor with strides."""
        return _extent(self.kind, self.shape, self.strides)

    @property
    def is_contiguous(self) -> bool:
        return self.strides == packed_strides(self.kind, self.shape)

    def __repr__(self) -> str:
        """What it is, for a debugger."""
        return f"{self.op} {self.name} {self.kind} {self.shape}"


def four(shape: Sequence[int]) -> Shape:
    """A shape filled up with ones."""
    a, b, c, d = (*shape, 1, 1, 1, 1)[:4]
    return a, b, c, d


MOST_NODES = 400_000  # ten times what the largest model has; a file may claim anything


class UnknownLayoutError(Exception):
    """A model can't be laid out: its layers are unknown, or its numbers are inconsistent."""


class Graph:
    """A graph under construction; every method but `expand` only makes a node."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.leaves: list[Node] = []

    def expand(self, node: Node) -> Node:
        """Add a node after everything that it needs, operand by operand."""
        if node.is_listed:
            return node
        node.is_listed = True
        if len(self.nodes) > MOST_NODES:
            raise UnknownLayoutError(f"its graph has more than {MOST_NODES:,} operations")
        stack = [(node, iter(node.sources))]
        while stack:
            current, sources = stack[-1]
            for source in sources:
                if source.is_listed:
                    continue
                source.is_listed = True
                if source.sources:
                    stack.append((source, iter(source.sources)))
                    break
                (self.leaves if source.op == "none" else self.nodes).append(source)
            else:
                stack.pop()
                (self.leaves if current.op == "none" else self.nodes).append(current)
        return node

    def input(self, kind: str, *shape: int, name: str = "") -> Node:
        """A tensor that the host fills before the computation."""
        node = Node("none", kind, four(shape), name=name)
        node.is_input = True
        return node

    def empty(self, kind: str, *shape: int) -> Node:
        return Node("none", kind, four(shape))

    def mul_mat(self, weight: Node, x: Node) -> Node:
        """A product over the rows of both."""
        return Node("mul_mat", "F32", (weight.shape[1], *x.shape[1:]), (weight, x))

    def mul_mat_id(self, experts: Node, x: Node, chosen: Node) -> Node:
        """A product with those of several matrices that were chosen for each token."""
        return Node("mul_mat_id", "F32", (experts.shape[1], chosen.shape[0], x.shape[2], 1), (experts, x, chosen))

    def get_rows(self, table: Node, rows: Node) -> Node:
        """Rows of a table as 32-bit numbers."""
        kind = "I32" if table.kind == "I32" else "F32"
        return Node("get_rows", kind, (table.shape[0], rows.shape[0], rows.shape[1], rows.shape[2]), (table, rows))

    def set_rows(self, table: Node, values: Node, rows: Node) -> Node:
        """Write rows into a table, such as a cache; the result is the table."""
        return self.write_over("set_rows", table, values, rows, table)

    def write_over(self, op: str, target: Node, *sources: Node) -> Node:
        """An operation that writes into a tensor; the result is that tensor."""
        return Node(op, target.kind, target.shape, sources, strides=target.strides, view_of=target)

    def binary(self, op: str, a: Node, b: Node) -> Node:
        """add, sub, mul or div, with the shape of the first operand."""
        return Node(op, a.kind, a.shape, (a, b))

    def add(self, a: Node, b: Node) -> Node:
        return self.binary("add", a, b)

    def mul(self, a: Node, b: Node) -> Node:
        return self.binary("mul", a, b)

    def unary(self, x: Node, op: str = "unary") -> Node:
        """A function of each element: an activation, a scale, a clamp."""
        return Node(op, x.kind, x.shape, (x,))

    def clamp(self, x: Node) -> Node:
        return self.unary(x, "clamp")

    def scale(self, x: Node) -> Node:
        return self.unary(x, "scale")

    def norm(self, x: Node, op: str = "rms_norm") -> Node:
        """Rows brought to one length."""
        return self.unary(x, op)

    def glu(self, gate: Node, up: Node | None = None) -> Node:
        """A gated activation: of two tensors, or of the halves of one."""
        if up is not None:
            return Node("glu", gate.kind, gate.shape, (gate, up))
        return Node("glu", gate.kind, (gate.shape[0] // 2, *gate.shape[1:]), (gate,))

    def rope(self, x: Node, positions: Node, factors: Node | None = None) -> Node:
        return Node("rope", x.kind, x.shape, (x, positions) if factors is None else (x, positions, factors))

    def soft_max(self, x: Node, mask: Node | None = None, sinks: Node | None = None) -> Node:
        """Rows that add up to one."""
        return Node("soft_max", "F32", x.shape, tuple(n for n in (x, mask, sinks) if n is not None))

    def flash_attn(self, q: Node, k: Node, v: Node, mask: Node, sinks: Node | None = None) -> Node:
        sources = (q, k, v, mask) if sinks is None else (q, k, v, mask, sinks)
        return Node("flash_attn", "F32", (v.shape[0], q.shape[2], q.shape[1], q.shape[3]), sources)

    def reshape(self, x: Node, *shape: int) -> Node:
        return Node("reshape", x.kind, four(shape), (x,), view_of=x)

    def view(self, x: Node, shape: tuple[int, ...], strides: tuple[int, ...] = ()) -> Node:
        """A part of the bytes; `strides` are those after the first, and go on without gaps where they end."""
        full, steps = four(shape), [x.strides[0], *strides]
        if not strides:
            steps.append(row_bytes(x.kind, full[0]))
        while len(steps) < 4:  # noqa: PLR2004 (as many as a tensor has dimensions)
            steps.append(steps[-1] * full[len(steps) - 1])
        a, b, c, d = steps
        return Node("view", x.kind, full, (x,), strides=(a, b, c, d), view_of=x)

    def permute(self, x: Node, *axes: int) -> Node:
        """Dimension n of the operand becomes dimension axes[n]."""
        shape, strides = [0] * 4, [0] * 4
        for n, axis in enumerate(axes):
            shape[axis], strides[axis] = x.shape[n], x.strides[n]
        a, b, c, d = strides
        return Node("permute", x.kind, four(shape), (x,), strides=(a, b, c, d), view_of=x)

    def transpose(self, x: Node) -> Node:
        a, b, c, d = x.shape
        s, t, u, v = x.strides
        return Node("transpose", x.kind, (b, a, c, d), (x,), strides=(t, s, u, v), view_of=x)

    def cont(self, x: Node, *shape: int) -> Node:
        """A copy without gaps."""
        return Node("cont", x.kind, four(shape) if shape else x.shape, (x,))

    def cast(self, x: Node, kind: str) -> Node:
        return Node("cpy", kind, x.shape, (x,))

    def concat(self, a: Node, b: Node, axis: int) -> Node:
        shape = list(a.shape)
        shape[axis] += b.shape[axis]
        return Node("concat", a.kind, four(shape), (a, b))

    def repeat(self, x: Node, *shape: int) -> Node:
        """As many times as fill the shape."""
        return Node("repeat", x.kind, four(shape), (x,))

    def pad(self, x: Node, *more: int) -> Node:
        """Zeros at the end of each dimension."""
        shape = [n + extra for n, extra in zip(x.shape, four((*more, 0, 0, 0, 0)), strict=True)]
        return Node("pad", x.kind, four(shape), (x,))

    def sum_rows(self, x: Node) -> Node:
        """One number for each row."""
        return Node("sum_rows", x.kind, (1, *x.shape[1:]), (x,))

    def top_rows(self, x: Node, count: int) -> Node:
        """The places of the largest numbers of each row: a sorted row, of which the start is kept."""
        order = Node("argsort", "I32", x.shape, (x,))
        return self.view(order, (count, *x.shape[1:]), order.strides[1:])

    def special(self, op: str, shape: Shape, *sources: Node, kind: str = "F32") -> Node:
        """An operation of its own kind, such as a state-space scan."""
        return Node(op, kind, shape, sources)
