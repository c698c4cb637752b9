"""What CUDA keeps in memory for kernels that do the work of several operations.

A fused kernel reads the operands of all its operations while it writes, so these must not be written over before its
end. Since some build after b10586 two chains of layers with experts are kept so: from the router's scores to the
weights of the experts, and from what the experts say to its weighted sum. Of a long prompt that can be much: what all
experts say once more.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from unslow.think.memory.llama_cpp.graph import Node

UNFUSED_UNTIL = 10586  # the last build that is known to keep nothing
_FEWEST_SUMMED, _MOST_SUMMED = 2, 15
_LARGEST_POWER = 512
_ODD_COUNTS = frozenset({288, 576})
_AFTER_SCORES = (("reshape", "argsort", "view", "get_rows"), ("reshape", "add", "argsort", "view", "get_rows"))
_NORMALISED = ("reshape", "sum_rows", "clamp", "div", "reshape")


class KeptByFused(NamedTuple):
    """Tensors that stay until a node is computed."""

    until: Node
    nodes: list[Node]


def kept_by_fused(nodes: Sequence[Node], following: Node | None) -> Iterator[KeptByFused]:
    """Of the nodes of a split, and the one after them, in their order."""
    n = 0
    while n < len(nodes):
        op, found, length = nodes[n].op, None, 1
        if op == "mul":
            found, length = _weighted_sum(nodes, n)
        elif op in ("soft_max", "unary"):
            found, length = _routing(nodes, n, following)
        if found:
            yield found
        n += length


def _weighted_sum(nodes: Sequence[Node], start: int) -> tuple[KeptByFused | None, int]:
    """The experts' results times their weights, viewed one by one and added up."""
    product = nodes[start]
    said, weights = product.sources
    used = product.shape[1]
    count = 2 * used
    chain = nodes[start : start + count]
    is_weighing = weights.shape == (1, *product.shape[1:]) and said.shape == product.shape
    if not is_weighing or not _FEWEST_SUMMED <= used <= _MOST_SUMMED or len(chain) < count:
        return None, 1
    views = [node for node in chain if node.op == "view" and node.sources[0] is product]
    sums = [node for node in chain if node.op == "add"]
    if (len(views), len(sums)) != (used, used - 1) or chain[-1].op != "add":
        return None, 1
    return KeptByFused(chain[-1], [said, weights]), count


def _routing(nodes: Sequence[Node], start: int, following: Node | None) -> tuple[KeptByFused | None, int]:
    """Scores, the best of them, and their share in all of the best."""
    first = start + 1 if nodes[start + 1 : start + 2] and nodes[start + 1].op == "sqrt" else start
    ops = tuple(node.op for node in nodes[first + 1 : first + 12])
    matched = next((chain for chain in _AFTER_SCORES if ops[: len(chain)] == chain), None)
    if matched is None:
        return None, 1
    # The kernel was built for some numbers of experts: as many as a row of the sorted ones has
    chosen = nodes[first + len(matched) - 1]
    experts = chosen.strides[1] // chosen.strides[0]
    if experts not in _ODD_COUNTS and (experts > _LARGEST_POWER or experts & (experts - 1)):
        return None, 1
    count = len(matched)
    if ops[count : count + len(_NORMALISED)] == _NORMALISED:
        count += len(_NORMALISED)
    if ops[count : count + 1] == ("scale",) and nodes[first + count + 1].sources[0] is nodes[first + count]:
        count += 1
    end = first + count + 1
    until = nodes[end] if end < len(nodes) else following
    if until is None:
        return None, 1
    together = [each for node in nodes[start:end] for each in (node, *node.sources)]
    return KeptByFused(until, list({id(node): node for node in together}.values())), end - start
