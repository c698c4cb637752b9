"""Where ggml's graph allocator puts the tensors of a graph, and how large each backend's buffer grows.

Tensors are placed in the order of the computation: into the smallest gap that takes them, at the end where none does,
and over an operand where the operation allows it and nobody else needs the operand. A tensor's bytes are free again
after its last use. The order and the rules decide the size of the buffer, so they are followed to the letter.
"""

from collections.abc import Hashable, Sequence

from unslow.think.memory.llama_cpp.backends import Backend
from unslow.think.memory.llama_cpp.graph import IN_PLACE_OPS, Node

_ENDLESS = 2**62


class Buffer:
    """The gaps of one buffer by offset, one without an end; the last, as a rule that one, is taken if no other fits."""

    def __init__(self, alignment: int) -> None:
        self._alignment = alignment
        self.gaps: list[list[int]] = [[0, _ENDLESS]]
        self.size = 0

    def aligned(self, size: int) -> int:
        """The size up to the next aligned one."""
        return -(-size // self._alignment) * self._alignment

    def take(self, size: int) -> int:
        """The offset of the smallest gap that has room; of equal ones, of the last."""
        size = self.aligned(size)
        gaps, best, best_size = self.gaps, -1, _ENDLESS
        for n in range(len(gaps) - 1):
            if size <= gaps[n][1] <= best_size:
                best, best_size = n, gaps[n][1]
        gap = gaps[best]
        offset = gap[0]
        gap[0] += size
        gap[1] -= size
        if not gap[1]:
            del gaps[best]
        self.size = max(self.size, offset + size)
        return offset

    def give_back(self, offset: int, size: int) -> None:
        """Free these bytes, and join them with the gaps beside them.

        A tensor of no bytes leaves a gap of none, which can keep its neighbours apart and end up out of order.
        """
        size = self.aligned(size)
        gaps = self.gaps
        for n, gap in enumerate(gaps):
            if gap[0] + gap[1] == offset:
                gap[1] += size
                self._join(n)
                return
            if offset + size == gap[0]:
                gap[0] = offset
                gap[1] += size
                self._join(n - 1)
                return
        place = next((n for n, gap in enumerate(gaps) if gap[0] >= offset), len(gaps))
        gaps.insert(place, [offset, size])

    def _join(self, n: int) -> None:
        """Make one gap of the n-th and the next where nothing lies between them."""
        gaps = self.gaps
        if 0 <= n < len(gaps) - 1 and gaps[n][0] + gaps[n][1] == gaps[n + 1][0]:
            gaps[n][1] += gaps[n + 1][1]
            del gaps[n + 1]


def watched_sizes(
    nodes: Sequence[Node], leaves: Sequence[Node], backends: Sequence[Backend], watched: Sequence[Node]
) -> tuple[list[int], list[Hashable]]:
    """The compute buffer of each backend, and the gaps after each node that is watched, with its own place."""
    allocation = _Allocation(backends, watched)
    allocation.walk(nodes, leaves)
    return [buffer.size for buffer in allocation.buffers], [allocation.states.get(node) for node in watched]


class _Allocation:
    def __init__(self, backends: Sequence[Backend], watched: Sequence[Node]) -> None:
        self._backends, self._watched = backends, frozenset(watched)
        self.states: dict[Node, Hashable] = {}
        self.buffers = [Buffer(b.alignment) for b in backends]

    def walk(self, nodes: Sequence[Node], leaves: Sequence[Node]) -> None:
        """As a computation would."""
        for leaf in leaves:
            self._allocate(leaf, leaf.backend)
        self._count_uses(nodes)
        for node in nodes:
            for source in node.sources:
                if not source.owned:
                    self._allocate(source, node.backend)
            if not node.is_view:
                self._allocate(node, node.backend)
            for source in node.sources:
                self._release(source)
            if node in self._watched:
                # All gaps, and where the node itself lies, or what it is a view of
                owner = node if node.view_of is None else node.view_of
                self.states[node] = (
                    tuple(tuple(map(tuple, buffer.gaps)) for buffer in self.buffers),
                    owner.place,
                    owner.owned,
                )

    def _count_uses(self, nodes: Sequence[Node]) -> None:
        """Count them, and place the inputs first, so that nothing overwrites them."""
        for node in nodes:
            if node.view_of is not None and node.op != "none":
                node.view_of.views += 1
            if node.is_input:
                self._allocate(node, node.backend)
            for source in node.sources:
                source.children += 1
                if source.is_input:
                    self._allocate(source, node.backend)

    def _allocate(self, node: Node, buffer: int) -> None:
        if node.owned or node.is_view or node.home is not None:
            return
        node.owned = True
        if node.op in IN_PLACE_OPS and self._reuse(node):
            return
        node.size = self._backends[buffer].bytes_of(node)
        node.place = (buffer, self.buffers[buffer].take(node.size))

    def _reuse(self, node: Node) -> bool:
        """Write over an operand of the same layout that nobody else needs; a view of one does not count."""
        for parent in node.sources:
            is_spare = parent.children == 1 and not parent.views and parent.owned and not parent.is_output
            if is_spare and (node.kind, node.shape, node.strides) == (parent.kind, parent.shape, parent.strides):
                buffer = parent.place[0]
                node.place, parent.owned = parent.place, False
                node.size = self._backends[buffer].bytes_of(node)
                pool = self.buffers[buffer]
                kept, had = pool.aligned(node.size), pool.aligned(parent.size)
                if had > kept:
                    pool.give_back(node.place[1] + kept, had - kept)
                return True
        return False

    def _release(self, node: Node) -> None:
        node.children -= 1
        if node.children or node.views:
            return
        owner = node
        if node.view_of is not None:
            owner = node.view_of
            owner.views -= 1
            if owner.views or owner.children:
                return
        if owner.owned and not owner.is_output:
            self.buffers[owner.place[0]].give_back(owner.place[1], owner.size)
            owner.owned = False
