"""The keys and values of a layer's cache: new ones are written, and all of them are seen as one tensor."""

from unslow.think.memory.llama_cpp.build import Build
from unslow.think.memory.llama_cpp.cache import cells_of, value_width
from unslow.think.memory.llama_cpp.cache_inputs import CacheInputs
from unslow.think.memory.llama_cpp.node import Node, row_bytes


def stored(build: Build, layer: int, key: Node | None, value: Node | None, inputs: CacheInputs) -> tuple[Node, Node]:
    """The keys and values of the whole cache as views, after the new ones were written; those given without a cache."""
    hyper, settings, graph = build.hyper, build.settings, build.graph
    if inputs.key_rows is None and key is not None and value is not None:
        return key, value
    owner, streams = hyper.cache_layer(layer), settings.streams
    cells = cells_of(hyper, settings, owner)
    kv_heads, key_length = hyper.kv_heads[owner], hyper.key_length(owner)
    key_width = key_length * kv_heads
    cache = build.cached(settings.key_type, owner, key_width, cells, streams)
    if key is not None and inputs.key_rows is not None:
        _write_rows(build, cache, key, inputs.key_rows)
    row = row_bytes(settings.key_type, key_width)
    strides = (row_bytes(settings.key_type, key_length), row, row * cells)
    keys = graph.view(cache, (key_length, kv_heads, cells, streams), strides)
    if hyper.is_latent:
        length = value.shape[0] if value is not None else key_length
        return keys, graph.view(keys, (length, *keys.shape[1:]), keys.strides[1:])
    return keys, _stored_values(build, owner, cells, value, inputs.value_rows)


def stored_index_keys(build: Build, layer: int, key: Node, rows: Node, cells: int) -> Node:
    """The keys of an indexer's whole cache, one head for all, after the new ones were written."""
    kind, streams, length = build.settings.key_type, build.settings.streams, key.shape[0]
    cache = build.cached(kind, layer, length, cells, streams)
    _write_rows(build, cache, key, rows)
    row = row_bytes(kind, length)
    return build.graph.view(cache, (length, 1, cells, streams), (row, row, row * cells))


def _stored_values(build: Build, owner: int, cells: int, value: Node | None, rows: Node | None) -> Node:
    """The values of the whole cache; where they lie transposed, with a row for each element."""
    hyper, settings, graph = build.hyper, build.settings, build.graph
    streams, kind, transposed = settings.streams, settings.value_type, settings.transposes_values
    kv_heads, length = hyper.kv_heads[owner], hyper.value_length(owner)
    width = value_width(hyper, settings, owner)
    cache = build.cached(kind, owner, width, cells, streams)
    if value is not None and rows is not None:
        write = _write_transposed if transposed else _write_rows
        write(build, cache, value, rows)
    if not transposed:
        row = row_bytes(kind, width)
        return graph.view(cache, (length, kv_heads, cells, streams), (row_bytes(kind, length), row, row * cells))
    row = row_bytes(kind, cells)
    return graph.view(cache, (cells, kv_heads, length, streams), (row * length, row, row * width))


def _write_rows(build: Build, cache: Node, value: Node, rows: Node) -> None:
    """The new tokens' part of a cache, a row for each."""
    graph = build.graph
    width, cells, streams = cache.shape[:3]
    new = graph.view(value, (width, build.tokens), (value.strides[2],))
    target = cache if streams == 1 else graph.reshape(cache, width, cells * streams)
    graph.expand(graph.set_rows(target, new, rows))


def _write_transposed(build: Build, cache: Node, value: Node, rows: Node) -> None:
    """Element by element, filled up to the width of the widest layer."""
    graph, width = build.graph, cache.shape[0]
    own = value.shape[0] * value.shape[1]
    merged = value.strides[2] == row_bytes(value.kind, own)
    new = graph.reshape(value, own, build.tokens) if merged else graph.cont(value, own, build.tokens)
    if own < width:
        new = graph.pad(new, width - own)
    target = graph.reshape(cache, 1, cache.elements)
    graph.expand(graph.set_rows(target, graph.reshape(new, 1, new.elements), rows))
