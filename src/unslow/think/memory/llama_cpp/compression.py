"""Attention over compressed tokens (DeepSeek 4): the last ones as they are, older ones some to a row.

A compressor keeps the tokens that do not fill a row yet as a state. With a low ratio, an indexer picks the rows that
are looked at; with a high one, all of them are.
"""

from unslow.think.memory.llama_cpp.attention import hadamard, only
from unslow.think.memory.llama_cpp.build import Build
from unslow.think.memory.llama_cpp.cache import cells_of, compressed_cells
from unslow.think.memory.llama_cpp.cache_inputs import CacheInputs, cache_inputs, rotation_input
from unslow.think.memory.llama_cpp.hyper import HIGH_RATIO, LOW_RATIO
from unslow.think.memory.llama_cpp.indexer import best_places, by_stream, index_scores
from unslow.think.memory.llama_cpp.node import Node, row_bytes
from unslow.think.memory.llama_cpp.product import Operands, product


class Compressor:
    """A kind of compression, with the inputs that all layers which have it share."""

    def __init__(self, build: Build, ratio: int, length: int, mask_kind: str, *, rotates: bool = False) -> None:
        graph, slots, tokens = build.graph, build.settings.slots, build.tokens
        self._build, self._ratio, self._length = build, ratio, length
        self._parts = 2 if ratio == LOW_RATIO else 1
        """Rows of a low ratio overlap: each is made of its own tokens, and of those before."""
        self._cells = compressed_cells(build.settings, ratio)
        self._blocks = slots * max(1, -(-build.sequence_tokens // ratio))
        kept = min(tokens, self._parts * ratio * slots)
        self._places = graph.input("I32", tokens, name="places in a row")
        self._kept_from = graph.input("I32", kept, name="kept tokens")
        self._kept_to = graph.input("I32", kept, name="rows of kept tokens")
        self._read = graph.input("I32", self._parts * ratio * self._blocks, name="tokens of rows")
        self._rows = graph.input("I64", self._blocks, name="new rows")
        self._positions = graph.input("I32", self._blocks, name="positions of rows")
        self.mask = graph.input(mask_kind, self._cells, tokens // slots, 1, slots, name="mask of rows")
        self.rotation = rotation_input(build, length, always=rotates)

    def stored(self, layer: int, x: Node, name: str) -> Node:
        """The rows of the whole cache, after the new ones were written; what is left over is kept for later."""
        build, graph = self._build, self._build.graph
        name = f"{build.block(layer)}.{name}"
        values, scores = build.linear(x, f"{name}_kv"), build.linear(x, f"{name}_gate")
        scores = graph.add(scores, graph.get_rows(build.weight(f"{name}_ape.weight"), self._places))
        states = [self._state(layer, values.shape[0]) for _ in range(2)]
        rows = self._rows_of(states, values, scores, f"{name}_norm")
        if self.rotation is not None:
            rows = hadamard(build, rows, self.rotation)
        kind, slots, cells = build.settings.key_type, build.settings.slots, self._cells
        cache = build.cached(kind, layer, self._length, cells, slots)
        target = cache if slots == 1 else graph.reshape(cache, self._length, cells * slots)
        new = graph.view(rows, (self._length, self._blocks), (rows.strides[2],))
        graph.expand(graph.set_rows(target, new, self._rows))
        writes = [
            graph.set_rows(self._whole(state), graph.get_rows(part, self._kept_from), self._kept_to)
            for state, part in zip(states, (values, scores), strict=True)
        ]
        for write in writes:
            graph.expand(write)
        row = row_bytes(kind, self._length)
        return graph.view(cache, (self._length, 1, cells, slots), (row, row, row * cells))

    def _state(self, layer: int, width: int) -> Node:
        """The tokens that do not fill a row yet."""
        return self._build.cached("F32", layer, width, self._parts * self._ratio, self._build.settings.slots)

    def _whole(self, state: Node) -> Node:
        return self._build.graph.view(state, (state.shape[0], state.shape[1] * state.shape[2]), (state.strides[1],))

    def _rows_of(self, states: list[Node], values: Node, scores: Node, norm: str) -> Node:
        """The weighted mean of the tokens that make up each row: (length, 1, rows)."""
        build, graph = self._build, self._build.graph
        by_token = [
            graph.cont(graph.permute(self._gathered(graph.concat(self._whole(state), part, 1)), 1, 0, 2, 3))
            for state, part in zip(states, (values, scores), strict=True)
        ]
        total = graph.sum_rows(graph.mul(by_token[0], graph.soft_max(by_token[1])))
        rows = build.norm(graph.cont(graph.permute(total, 1, 0, 2, 3)), norm)
        return graph.rope(rows, self._positions)

    def _gathered(self, tokens: Node) -> Node:
        """The tokens of each row: (length, tokens of a row, rows)."""
        graph, length, ratio, blocks = self._build.graph, self._length, self._ratio, self._blocks
        if self._parts == 1:
            return graph.reshape(graph.get_rows(tokens, self._read), length, ratio, blocks)
        nothing = graph.scale(graph.view(tokens, (tokens.shape[0],)))
        tokens = graph.concat(tokens, graph.reshape(nothing, tokens.shape[0], 1), 1)
        found = graph.get_rows(tokens, self._read)
        views = (graph.view(found, (length, ratio * blocks), (found.strides[1],)) for _ in range(self._parts))
        before, own = (graph.reshape(graph.cont(view), length, ratio, blocks) for view in views)
        return graph.concat(before, own, 1)


class CompressedAttention:
    """The attention of all layers, whatever their ratio."""

    def __init__(self, build: Build) -> None:
        self._build = build
        self._inputs: CacheInputs = cache_inputs(build, 0)
        build.graph.expand(self._inputs.mask)
        kind, length = self._inputs.mask.kind, build.hyper.key_length(0)
        self._low = Compressor(build, LOW_RATIO, length, kind)
        self._high = Compressor(build, HIGH_RATIO, length, kind)
        index_kind = "F16" if build.kernels.indexer else "F32"
        self._index = Compressor(build, LOW_RATIO, build.hyper.index_length, index_kind, rotates=True)

    def attended(self, layer: int, x: Node) -> Node:
        """A whole attention, with its projections."""
        build, graph, name = self._build, self._build.graph, self._build.block(layer)
        length, heads, tokens = build.hyper.key_length(layer), build.hyper.heads[layer], build.tokens
        ranks = build.norm(build.linear(x, f"{name}.attn_q_a"), f"{name}.attn_q_a_norm")
        query = graph.norm(graph.reshape(build.linear(ranks, f"{name}.attn_q_b"), length, heads, tokens))
        key = build.norm(build.linear(x, f"{name}.attn_kv"), f"{name}.attn_kv_a_norm")
        query, key = (graph.rope(n, build.positions) for n in (query, graph.reshape(key, length, 1, tokens)))
        rows, mask = self._compressed(layer, x, ranks)
        result = self._product(layer, query, key, rows, mask)
        result = graph.rope(graph.reshape(result, length, heads, tokens), build.positions)
        return self._brought_back(layer, result)

    def _compressed(self, layer: int, x: Node, ranks: Node) -> tuple[Node | None, Node | None]:
        """The compressed rows that a layer sees beside the last tokens, and their mask."""
        match self._build.hyper.compression(layer):
            case ratio if ratio == LOW_RATIO:
                rows = self._low.stored(layer, x, "attn_compressor")
                index_rows = self._index.stored(layer, x, "indexer_compressor")
                return rows, only(
                    self._build, self._picked(layer, x, ranks, index_rows), self._low.mask, self._low.mask.kind
                )
            case ratio if ratio == HIGH_RATIO:
                return self._high.stored(layer, x, "attn_compressor"), self._high.mask
            case _:
                return None, None

    def _picked(self, layer: int, x: Node, ranks: Node, rows: Node) -> Node:
        """The rows that an indexer scores best."""
        build, graph, name = self._build, self._build.graph, f"{self._build.block(layer)}.indexer"
        length, slots = build.hyper.index_length, build.settings.slots
        query = build.linear(ranks, f"{name}.attn_q_b")
        query = graph.rope(graph.reshape(query, length, query.shape[0] // length, build.tokens), build.positions)
        if self._index.rotation is not None:
            query = hadamard(build, query, self._index.rotation)
        weights = graph.scale(build.linear(x, f"{name}.proj"))
        query, weights = by_stream(build, query, weights, slots)
        return best_places(build, index_scores(build, layer, query, rows, weights, self._index.mask))

    def _product(self, layer: int, query: Node, key: Node, rows: Node | None, mask: Node | None) -> Node:
        """Attention over the last tokens and the compressed rows, whose keys are their values."""
        build, graph, rotation = self._build, self._build.graph, self._inputs.key_rotation
        if rotation is not None:
            query, key = hadamard(build, query, rotation), hadamard(build, key, rotation)
        graph.expand(query)
        graph.expand(key)
        keys, seen = self._last(layer, key), self._inputs.mask
        if rows is not None and mask is not None:
            keys, seen = graph.concat(keys, rows, 2), graph.concat(seen, mask, 0)
        result = product(build, layer, Operands(query, keys, keys, seen))
        return result if rotation is None else hadamard(build, result, rotation)

    def _last(self, layer: int, key: Node) -> Node:
        """The cache of the last tokens, after the new ones were written."""
        build, graph, settings = self._build, self._build.graph, self._build.settings
        length, cells, slots = key.shape[0], cells_of(build.hyper, settings, layer), settings.slots
        cache = build.cached(settings.key_type, layer, length, cells, slots)
        if self._inputs.key_rows is not None:
            target = cache if slots == 1 else graph.reshape(cache, length, cells * slots)
            new = graph.view(key, (length, build.tokens), (key.strides[2],))
            graph.expand(graph.set_rows(target, new, self._inputs.key_rows))
        row = row_bytes(settings.key_type, length)
        return graph.view(cache, (length, 1, cells, slots), (row, row, row * cells))

    def _brought_back(self, layer: int, result: Node) -> Node:
        """To the width of the model, by groups of heads first."""
        build, graph, name = self._build, self._build.graph, self._build.block(layer)
        matrix = build.weight(f"{name}.attn_output_a.weight")
        width, rank, groups = matrix.shape[:3]
        grouped = graph.permute(graph.reshape(result, width, groups, build.tokens), 0, 2, 1, 3)
        small = graph.permute(graph.mul_mat(matrix, grouped), 0, 2, 1, 3)
        return build.linear(graph.cont(small, rank * groups, build.tokens), f"{name}.attn_output_b")
