"""MiniMax: lightning attention (01) and block-sparse attention (M3)."""

from unslow.facts.values import pad_to
from unslow.think.memory.llama_cpp.attention import Heads, hadamard, rotated_for_cache, turned_by_rope
from unslow.think.memory.llama_cpp.cache import Build, CacheInputs, cells_of, store_in_cache, store_single_head
from unslow.think.memory.llama_cpp.graph import Node
from unslow.think.memory.llama_cpp.recurrent import StateRows, convolution_cache, load_state, memory_cache, store_state

_RESERVED_POSITIONS = 256  # so many positions llama.cpp reserves memory for, however long the context is


class BlockSparse:
    """The inputs that all such layers share."""

    def __init__(self, build: Build, mask: Node) -> None:
        graph, number = build.graph, build.hyper.blueprint.count
        self._build = build
        self._size = number("attention.indexer.block_size")
        self._places = pad_to(_RESERVED_POSITIONS, self._size)
        self._blocks = self._places // self._size
        self._used = min(number("attention.indexer.top_k"), self._blocks)
        self._streams = build.settings.streams
        self._cells = cells_of(build.hyper, build.settings, 0)
        self._rows = graph.input("I64", build.tokens, name="index rows")
        self._bias = graph.input("F32", self._blocks, build.tokens, name="local blocks")
        self._place_mask = graph.input("F32", self._places, build.tokens, name="places")
        self._cell_of_place = graph.input("I32", self._places, self._streams, name="cells of places")
        self._block_of_cell = graph.input("I32", self._cells, self._streams, name="blocks of cells")
        self._mask = graph.cast(mask, "F32")

    def attend(self, layer: int, x: Node, heads: Heads, inputs: CacheInputs) -> Node:
        """Attention of the tokens of each slot on its own."""
        build, graph = self._build, self._build.graph
        index_keys = store_single_head(build, layer, self._index_projection(layer, x, "k"), self._rows, self._cells)
        query, key, value, _ = rotated_for_cache(build, heads, inputs)
        for node in (query, key, value):
            if node is not None:
                graph.expand(node)
        keys, values = store_in_cache(build, layer, key, value, inputs)
        index = self._index_projection(layer, x, "q")
        result, *others = (self._of_stream(query, keys, values, index, index_keys) for _ in range(self._streams))
        for other in others:
            result = graph.concat(result, other, 1)
        return result if inputs.value_rotation is None else hadamard(build, result, inputs.value_rotation)

    def _index_projection(self, layer: int, x: Node, part: str) -> Node:
        build, name = self._build, f"{self._build.block(layer)}.indexer.{part}"
        length = build.hyper.index_length
        product = build.linear(x, f"{name}_proj")
        product = build.graph.reshape(product, length, product.shape[0] // length, build.tokens)
        return turned_by_rope(build, layer, build.norm(product, f"{name}_norm"))

    def _of_stream(self, query: Node, keys: Node, values: Node, index: Node, index_keys: Node) -> Node:
        """Attention of one slot: (heads x length, tokens), with the groups of heads in the last dimension."""
        graph, tokens = self._build.graph, self._build.tokens // self._streams
        query, keys, values = (
            graph.view(n, (*n.shape[:2], count), n.strides[1:3])
            for n, count in ((query, tokens), (keys, self._cells), (values, self._cells))
        )
        length, heads = query.shape[:2]
        groups = keys.shape[1]
        query = graph.permute(graph.reshape(query, length, heads // groups, groups, tokens), 0, 2, 3, 1)
        keys, values = (graph.permute(n, 0, 3, 1, 2) for n in (keys, values))
        mask = self._block_mask(index, index_keys, tokens)
        result = graph.permute(graph.flash_attn(query, keys, values, mask), 0, 1, 3, 2)
        return graph.reshape(result if result.is_contiguous else graph.cont(result), length * heads, tokens)

    def _block_mask(self, index: Node, index_keys: Node, tokens: int) -> Node:
        """A mask for each group of heads that hides all blocks but the best: (cells, tokens, 1, groups)."""
        graph, (length, groups) = self._build.graph, index.shape[:2]
        own = graph.view(index, (length, groups, tokens), index.strides[1:3])
        keys = graph.view(index_keys, (length, self._cells), (index_keys.strides[2],))
        keys = graph.get_rows(keys, graph.view(self._cell_of_place, (self._places,)))
        scores = graph.mul_mat(keys, graph.reshape(own, length, groups * tokens))
        scores = graph.reshape(scores, self._places, groups, tokens)
        row = self._place_mask.strides[1]
        mask = graph.view(self._place_mask, (self._places, 1, tokens), (row, row))
        scores = graph.write_over("add", scores, scores, mask)
        pooled = graph.special("pool_2d", (self._blocks, groups, tokens, 1), scores)
        row = self._bias.strides[1]
        bias = graph.view(self._bias, (self._blocks, 1, tokens), (row, row))  # puts the nearest blocks first
        best = graph.special("top_k", (self._used, groups, tokens, 1), graph.add(pooled, bias), kind="I32")
        hidden = graph.repeat(graph.cast(graph.scale(bias), "F16"), self._blocks, groups, tokens)
        shown = graph.scale(graph.cast(best, "F32"))
        rows = groups * tokens
        mask = graph.set_rows(
            graph.reshape(hidden, 1, self._blocks, rows),
            graph.reshape(shown, 1, self._used, rows),
            graph.reshape(best, self._used, rows),
        )
        mask = graph.cont(graph.permute(graph.reshape(mask, self._blocks, groups, tokens), 0, 2, 1, 3))
        mask = graph.cont(graph.transpose(graph.reshape(mask, self._blocks, rows)))
        by_cell = graph.get_rows(mask, graph.view(self._block_of_cell, (self._cells,)))
        by_cell = graph.reshape(graph.cont(graph.transpose(by_cell)), self._cells, tokens, groups)
        causal = graph.view(self._mask, (self._cells, tokens, 1), (self._mask.strides[1], self._mask.strides[3]))
        masked = graph.write_over("add", by_cell, by_cell, causal)
        return graph.cast(graph.reshape(masked, self._cells, tokens, 1, groups), "F16")


def lightning_attention(build: Build, layer: int, x: Node, rows: StateRows) -> Node:
    """A whole layer, with its projections."""
    graph, name = build.graph, build.block(layer)
    load_state(build, convolution_cache(build, layer), rows)  # of no bytes: a layer here has no convolution
    x = graph.reshape(x, x.shape[0], build.sequence_tokens, 1, build.settings.slots)
    # Queries, keys and values, (length, heads, tokens, sequences), by one product, those of a head side by side
    joined = graph.unary(build.linear(x, f"{name}.attn_qkv"))
    length = build.hyper.key_length(layer)
    joined = graph.reshape(joined, 3 * length, build.hyper.heads[layer], x.shape[1], x.shape[3])
    query, key, value = (graph.view(joined, (length, *joined.shape[1:]), joined.strides[1:]) for _ in range(3))
    count, tokens, sequences = joined.shape[1:]
    cache = memory_cache(build, layer)
    memory = graph.reshape(load_state(build, cache, rows), length, length, count, sequences)
    rates = graph.scale(graph.scale(build.shared_input("F32", count, name="fading of each head")))
    faded = graph.mul(memory, graph.reshape(graph.unary(rates), 1, 1, count))  # what is left of each head's memory
    if tokens == 1:  # for each sequence
        value, key = (graph.cont(graph.permute(n, 1, 2, 0, 3)) for n in (value, key))
        memory = graph.add(faded, graph.mul_mat(key, value))
        output = graph.mul_mat(memory, graph.permute(query, 0, 2, 1, 3))
    else:
        output, memory = _chunk(build, query, key, value, memory, faded)
    store_state(build, cache, memory)
    output = graph.cont(graph.permute(output, 0, 2, 1, 3))
    output = build.norm(graph.reshape(output, length * count, tokens, 1, sequences), f"{name}.attn_norm_2")
    output = graph.mul(graph.unary(build.linear(x, f"{name}.attn_gate")), output)
    output = build.linear(output, f"{name}.attn_output")
    return graph.reshape(output, output.shape[0], build.tokens)


def _chunk(build: Build, query: Node, key: Node, value: Node, memory: Node, faded: Node) -> tuple[Node, Node]:
    """A prompt: what its tokens say to each other, and what the memory says to them."""
    graph = build.graph
    _, count, tokens, sequences = query.shape
    by_token = 1, count, tokens, sequences
    since, until, between = (
        graph.unary(graph.scale(build.shared_input("F32", *shape, name=f"fading {when}")))
        for when, shape in (
            ("since the start", by_token),
            ("until the end", by_token),
            ("between tokens", (tokens, tokens, count, sequences)),
        )
    )
    before = graph.mul_mat(memory, graph.permute(graph.mul(query, since), 0, 2, 1, 3))
    products = graph.mul_mat(*(graph.permute(n, 0, 2, 1, 3) for n in (key, query)))
    scores = graph.mul(products, between)
    value = graph.cont(graph.permute(value, 1, 2, 0, 3))
    output = graph.expand(graph.add(before, graph.mul_mat(value, scores)))
    written = graph.cont(graph.permute(graph.mul(key, until), 1, 2, 0, 3))
    return output, graph.add(faded, graph.mul_mat(written, value))
