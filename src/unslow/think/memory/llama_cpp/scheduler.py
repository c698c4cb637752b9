"""Which backend computes each node, as ggml's scheduler decides, and what is copied.

An operation goes where its weight lies; a GPU takes the neighbours of its own operations; what is left goes to whoever
has its operands. Where the backend changes, a split begins, and operands that lie elsewhere are copied: the copies are
tensors too, and weights that a GPU borrows from the host for a long prompt are the largest of them.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from unslow.think.memory.llama_cpp.backends import Backend, wants_offload
from unslow.think.memory.llama_cpp.fused_kernels import kept_by_fused
from unslow.think.memory.llama_cpp.graph import VIEW_OPS, Node

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
        self._twins: dict[int, list[Node]] = {}
        """By node: what each batch in flight has of it; all of that is allocated first."""
        self._cpu = len(backends) - 1

    def assign(self, nodes: Sequence[Node], leaves: Sequence[Node]) -> None:
        """Give every node and leaf its backend."""
        for node in (*leaves, *nodes):
            if node.backend == _NOWHERE:
                node.backend = self._by_memory(node)
        real = [n for n in nodes if n.op not in VIEW_OPS]
        for order, with_cpu in ((real, False), (real[::-1], False), (real, True), (real[::-1], True)):
            self._expand(order, with_cpu=with_cpu)
        for node in real:
            if node.backend == _NOWHERE:
                # The backend that already has most of the operands
                able = [n for n, backend in enumerate(self._backends) if backend.supports(node)]
                node.backend = max(able, key=lambda n: (sum(self._has(n, s) for s in node.sources), -n))
        self._assign_rest(nodes)

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

    def _expand(self, nodes: Iterable[Node], *, with_cpu: bool) -> None:
        """Let each backend take the nodes next to its own."""
        current = _NOWHERE
        for node in nodes:
            if node.backend != _NOWHERE:
                current = node.backend if with_cpu or node.backend != self._cpu else _NOWHERE
            elif current != _NOWHERE and self._backends[current].supports(node):
                node.backend = current

    def _has(self, backend: int, node: Node) -> bool:
        if node.home is not None:
            return node.home == backend
        place = node.backend
        if place == _NOWHERE and node.view_of is not None:
            place = node.view_of.backend
        return place == backend

    def _assign_rest(self, nodes: Iterable[Node]) -> None:
        for node in nodes:  # views go with what they view, leaves with their first user
            if node.backend == _NOWHERE and node.view_of is not None:
                node.backend = node.view_of.backend
            for source in node.sources:
                if source.backend == _NOWHERE:
                    source.backend = node.backend if source.view_of is None else source.view_of.backend
            if node.backend == _NOWHERE:
                node.backend = next(n for n, backend in enumerate(self._backends) if backend.supports(node))

    def scheduled(self, nodes: Sequence[Node], leaves: Sequence[Node]) -> Schedule:
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
        keepers = self._keepers(splits) if self._rules.fuses else {}
        done: list[Node] = []
        for split in splits:
            done += split.inputs
            for node in split.nodes:
                done += [node, *keepers.get(id(node), ())]
        return Schedule(done, [*twins, *leaves], len(splits))

    def _keepers(self, splits: list["_Split"]) -> dict[int, list[Node]]:
        """By node after which they come."""
        found: dict[int, list[Node]] = {}
        for split, after in pairwise([*splits, None]):
            if split is None or not split.nodes or split.backend == self._cpu:
                continue
            for until, nodes in kept_by_fused(split.nodes, after.nodes[0] if after and after.nodes else None):
                parts = [nodes[n : n + _MOST_SOURCES] for n in range(0, len(nodes), _MOST_SOURCES)]
                found.setdefault(id(until), []).extend(_keeper(part, split.backend) for part in parts)
        return found

    def _needs_split(self, node: Node, inputs: list[Node], copies: dict[tuple[int, int], Node]) -> bool:
        """Whether a split with copies ends here: so that borrowed weights share memory, or at a limit."""
        if not inputs:
            return False
        foreign = [s for s in node.sources if self._is_foreign(s, node.backend)]
        full = len(inputs) // 2 >= _MOST_INPUTS and any((id(s), node.backend) not in copies for s in foreign)
        return full or any(s.is_weight for s in foreign)

    def _is_foreign(self, source: Node, backend: int) -> bool:
        return source.backend != backend and not self._has(backend, source)

    def _redirect(self, node: Node, copies: dict[tuple[int, int], Node], inputs: list[Node]) -> None:
        """Let a node read copies of the operands that lie elsewhere."""
        sources = list(node.sources)
        for n, source in enumerate(sources):
            if source.is_input:
                self._keep_for_others(source)
            if not self._is_foreign(source, node.backend):
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
