"""Layers that keep a state: reading it, the convolution over the last inputs, and writing it back."""

from collections.abc import Callable
from typing import NamedTuple

from unslow.think.memory.llama_cpp.build import Build
from unslow.think.memory.llama_cpp.node import Node


class StateRows(NamedTuple):
    """Which state belongs to which sequence of the batch, and which states only move."""

    used: Node
    others: Node


def state_rows(build: Build) -> StateRows:
    """The input that all recurrent layers read."""
    slots = build.settings.slots
    rows = build.graph.input("I32", slots, name="state rows")
    return StateRows(build.graph.view(rows, (slots,)), build.graph.view(rows, (0,)))


def by_sequence(build: Build, x: Node) -> Node:
    """The tokens of a batch divided among its sequences: (width, tokens, sequences)."""
    return build.graph.reshape(x, x.shape[0], build.sequence_tokens, build.settings.slots)


def convolution_cache(build: Build, layer: int) -> Node:
    """The last inputs of a layer's convolution, of all sequences."""
    return build.cached("F32", layer, build.hyper.convolution_elements, build.settings.slots)


def memory_cache(build: Build, layer: int) -> Node:
    """What a layer carries from token to token, of all sequences."""
    return build.cached("F32", layer, build.hyper.memory_elements, build.settings.slots)


def loaded(build: Build, cache: Node, rows: StateRows, read: Callable[[Node, Node], Node] | None = None) -> Node:
    """The states of this batch's sequences, copied out of the cache; or what `read` makes of the states and rows."""
    graph = build.graph
    elements, sequences = cache.shape[:2]
    states = graph.reshape(cache, elements, sequences)
    fresh = graph.view(states, (elements,))
    graph.expand(Node("scale", fresh.kind, fresh.shape, (fresh,), strides=fresh.strides, view_of=fresh))
    result = graph.expand((read or graph.get_rows)(states, rows.used))
    others = graph.get_rows(states, rows.others)
    graph.expand(graph.copy_to(others, graph.view(cache, (elements, 0), (cache.strides[1],))))
    return result


def stored(build: Build, cache: Node, state: Node) -> None:
    """Write the states back."""
    target = build.graph.view(cache, cache.shape[:2], (cache.strides[1],))
    build.graph.expand(build.graph.copy_to(state, target))


def with_last_inputs(build: Build, layer: int, rows: StateRows, x: Node, kernel: int) -> Node:
    """The inputs of a convolution, (tokens, channels, sequences), after the last ones of the batch before."""
    graph = build.graph
    channels, sequences = x.shape[0], x.shape[2]
    cache = convolution_cache(build, layer)
    before = graph.reshape(loaded(build, cache, rows), kernel - 1, channels, sequences)
    joined = graph.concat(before, graph.transpose(x), 0)
    last = graph.view(joined, (kernel - 1, channels, sequences), joined.strides[1:3])
    stored(build, cache, last)
    return joined


def convolved(build: Build, inputs: Node, kernel: Node) -> Node:
    """Each channel summed up over as many tokens as the kernel is long: (channels, tokens, sequences)."""
    tokens = inputs.shape[0] - kernel.shape[0] + 1
    return build.graph.special("ssm_conv", (inputs.shape[1], tokens, inputs.shape[2], 1), inputs, kernel)
