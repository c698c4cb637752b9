"""Which backend computes each node, as ggml's scheduler decides, and what is copied.

An operation goes where its weight lies; a GPU takes the neighbours of its own operations; what is left goes to whoever
has its operands. Where the backend changes, a split begins, and operands that lie elsewhere are copied: the copies are
tensors too, and weights that a GPU borrows from the host for a long prompt are the largest of them.
"""

from collections.abc import Hashable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from unslow.think.memory.llama_cpp.graph import IN_PLACE_OPS, VIEW_OPS, Node
from unslow.think.memory.llama_cpp.places import Backend, wants_offload

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


_ENDLESS = 2**62


class Buffer:
    """The gaps of one buffer by offset, one without an end; the last, as a rule that one, is taken if no other fits."""

    def __init__(self, alignment: int) -> None:
        self._alignment = alignment
        self.gaps: list[list[int]] = [[0, _ENDLESS]]
        self.size = 0

    def align(self, size: int) -> int:
        """The size up to the next aligned one."""
        return -(-size // self._alignment) * self._alignment

    def take(self, size: int) -> int:
        """The offset of the smallest gap that has room; of equal ones, of the last."""
        size = self.align(size)
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
        size = self.align(size)
        gaps = self.gaps
        for n, gap in enumerate(gaps):
            if gap[0] + gap[1] == offset:
                gap[1] += size
                first = n
                break
            if offset + size == gap[0]:
                gap[0] = offset
                gap[1] += size
                first = n - 1
                break
        else:
            place = next((n for n, gap in enumerate(gaps) if gap[0] >= offset), len(gaps))
            gaps.insert(place, [offset, size])
            return
        if 0 <= first < len(gaps) - 1 and gaps[first][0] + gaps[first][1] == gaps[first + 1][0]:
            gaps[first][1] += gaps[first + 1][1]
            del gaps[first + 1]


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
        for leaf in leaves:
            self._allocate(leaf, leaf.backend)
        for node in nodes:  # uses are counted, and inputs placed first, so that nothing overwrites them
            if node.view_of is not None and node.op != "none":
                node.view_of.views += 1
            if node.is_input:
                self._allocate(node, node.backend)
            for source in node.sources:
                source.children += 1
                if source.is_input:
                    self._allocate(source, node.backend)
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

    def _allocate(self, node: Node, buffer: int) -> None:
        if node.owned or node.is_view or node.home is not None:
            return
        node.owned = True
        if node.op in IN_PLACE_OPS and self._reuse(node):
            return
        node.size = self._backends[buffer].bytes_of(node)
        node.place = (buffer, self.buffers[buffer].take(node.size))

    def _reuse(self, node: Node) -> bool:
        """Write over an operand of the same layout that nothing else needs; a view of one does not count."""
        for parent in node.sources:
            is_spare = parent.children == 1 and not parent.views and parent.owned and not parent.is_output
            if is_spare and (node.kind, node.shape, node.strides) == (parent.kind, parent.shape, parent.strides):
                buffer = parent.place[0]
                node.place, parent.owned = parent.place, False
                node.size = self._backends[buffer].bytes_of(node)
                pool = self.buffers[buffer]
                kept, had = pool.align(node.size), pool.align(parent.size)
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


_NOWHERE = -1
_MOST_INPUTS = 30  # copies that a split begins with at most
_MOST_SOURCES = 10  # of a node
_NO_CHOICE = frozenset({"rope", "flash_attn"})  # their weights are too small to decide where they run


class Schedule(NamedTuple):
    """The nodes in the order in which they are allocated, with their copies, and the number of splits."""

    nodes: list[Node]
    leaves: list[Node]
    splits: int


class Rules(NamedTuple):
    """What llama.cpp allows the scheduler."""

    offload: bool = True  # Whether GPUs borrow weights from the host for long prompts
    in_flight: int = 1  # Batches that several GPUs work on at once: each has its own inputs and copies
    fuses: bool = True  # Whether GPUs keep what their fused kernels read


class _Split(NamedTuple):
    """Nodes that one backend computes in a row, and what is copied to it first."""

    inputs: list[Node]
    nodes: list[Node]

    @property
    def backend(self) -> int:
        """That of any node but views, which may have another."""
        return next((node.backend for node in self.nodes if node.op not in VIEW_OPS), _NOWHERE)


class Scheduler:
    """What decides where the nodes of one graph are computed."""

    def __init__(self, backends: Sequence[Backend], rules: Rules) -> None:
        self._backends, self._rules = backends, rules
        self._twins: dict[int, list[Node]] = {}  # By node: what each batch in flight has of it; allocated first
        self._cpu = len(backends) - 1

    def assign(self, nodes: Sequence[Node], leaves: Sequence[Node]) -> None:
        for node in (*leaves, *nodes):
            if node.backend == _NOWHERE:
                node.backend = self._by_memory(node)
        real = [n for n in nodes if n.op not in VIEW_OPS]
        for order, with_cpu in ((real, False), (real[::-1], False), (real, True), (real[::-1], True)):
            current = _NOWHERE  # each backend takes the nodes next to its own
            for node in order:
                if node.backend != _NOWHERE:
                    current = node.backend if with_cpu or node.backend != self._cpu else _NOWHERE
                elif current != _NOWHERE and self._backends[current].supports(node):
                    node.backend = current
        for node in real:
            if node.backend == _NOWHERE:
                # The backend that already has most of the operands
                able = [n for n, backend in enumerate(self._backends) if backend.supports(node)]
                node.backend = max(able, key=lambda n: (sum(self._has(n, s) for s in node.sources), -n))
        for node in nodes:  # views go with what they view, leaves with their first user
            if node.backend == _NOWHERE and node.view_of is not None:
                node.backend = node.view_of.backend
            for source in node.sources:
                if source.backend == _NOWHERE:
                    source.backend = node.backend if source.view_of is None else source.view_of.backend
            if node.backend == _NOWHERE:
                node.backend = next(n for n, backend in enumerate(self._backends) if backend.supports(node))

    def _by_memory(self, node: Node) -> int:
        """Where its own memory is, or that of its weight; inputs come from the host."""
        if node.home is not None:
            return node.home
        if node.is_input:
            return self._cpu
        if node.op in _NO_CHOICE:
            return _NOWHERE
        weights = [source for source in node.sources if source.is_weight]
        home = weights[0].home if weights else None
        if home is None:
            return _NOWHERE
        if self._rules.offload and home == self._cpu and wants_offload(node):
            return next((n for n in range(self._cpu) if self._backends[n].supports(node)), self._cpu)
        return home if self._backends[home].supports(node) else _NOWHERE

    def _has(self, backend: int, node: Node) -> bool:
        if node.home is not None:
            return node.home == backend
        place = node.backend
        if place == _NOWHERE and node.view_of is not None:
            place = node.view_of.backend
        return place == backend

    def schedule(self, nodes: Sequence[Node], leaves: Sequence[Node]) -> Schedule:
        """The graph, cut where the backend changes and before each borrowed weight; what lies elsewhere is copied."""
        self.assign(nodes, leaves)
        copies: dict[tuple[int, int], Node] = {}
        splits = [_Split([], [])]
        current = _NOWHERE
        for node in nodes:
            if node.op not in VIEW_OPS:
                if current not in (_NOWHERE, node.backend) or self._needs_split(node, splits[-1].inputs, copies):
                    splits.append(_Split([], []))
                current = node.backend
                self._redirect(node, copies, splits[-1].inputs)
            splits[-1].nodes.append(node)
        twins = [twin for group in self._twins.values() for twin in group]
        # All splits one after the other: their copies, their nodes, and what keeps operands of fused kernels
        keepers: dict[int, list[Node]] = {}  # by node after which they come
        for split, after in pairwise([*splits, None]) if self._rules.fuses else ():
            if split is None or not split.nodes or split.backend == self._cpu:
                continue
            for until, kept in kept_by_fused(split.nodes, after.nodes[0] if after and after.nodes else None):
                parts = [kept[n : n + _MOST_SOURCES] for n in range(0, len(kept), _MOST_SOURCES)]
                keepers.setdefault(id(until), []).extend(_keeper(part, split.backend) for part in parts)
        done: list[Node] = []
        for split in splits:
            done += split.inputs
            for node in split.nodes:
                done += [node, *keepers.get(id(node), ())]
        return Schedule(done, [*twins, *leaves], len(splits))

    def _needs_split(self, node: Node, inputs: list[Node], copies: dict[tuple[int, int], Node]) -> bool:
        """Whether a split with copies ends here: so that borrowed weights share memory, or at a limit."""
        if not inputs:
            return False
        foreign = [s for s in node.sources if s.backend != node.backend and not self._has(node.backend, s)]
        full = len(inputs) // 2 >= _MOST_INPUTS and any((id(s), node.backend) not in copies for s in foreign)
        return full or any(s.is_weight for s in foreign)

    def _redirect(self, node: Node, copies: dict[tuple[int, int], Node], inputs: list[Node]) -> None:
        """Let a node read copies of the operands that lie elsewhere."""
        sources = list(node.sources)
        for n, source in enumerate(sources):
            if source.is_input:
                self._keep_for_others(source)
            if source.backend == node.backend or self._has(node.backend, source):
                continue
            key = id(source), node.backend
            if key not in copies:
                copies[key] = _copy(source, node.backend)
                self._keep_for_others(copies[key])
                # A node that only keeps the original until it is copied
                inputs += [_keeper([source], source.backend), copies[key]]
            sources[n] = copies[key]
        node.sources = tuple(sources)

    def _keep_for_others(self, node: Node) -> None:
        """With several batches in flight, each has its own, and none is written over."""
        others = self._rules.in_flight - 1
        if others and id(node) not in self._twins:
            node.is_output = True
            self._twins[id(node)] = [node, *(_copy(node, node.backend) for _ in range(others))]
            for twin in self._twins[id(node)]:
                twin.is_output = True


def _copy(source: Node, backend: int) -> Node:
    copy = Node("none", source.kind, source.shape, strides=source.strides, name=source.name)
    copy.backend = backend
    return copy


def _keeper(nodes: Sequence[Node], backend: int) -> Node:
    """A node that does nothing: what it reads stays until here."""
    first = nodes[0]
    node = Node("none", first.kind, first.shape, tuple(nodes), strides=first.strides, view_of=first)
    node.backend = backend
    return node
