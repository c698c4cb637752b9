"""DeepSeek: latent attention, the indexer of its sparse attention, compressed tokens and hyper-connections."""

from unslow.think.memory.llama_cpp import attention, cache
from unslow.think.memory.llama_cpp.cache import Build, CacheInputs
from unslow.think.memory.llama_cpp.feed_forward import feed_forward
from unslow.think.memory.llama_cpp.graph import Node, row_bytes
from unslow.think.memory.llama_cpp.hyperparameters import HIGH_RATIO, LOW_RATIO
from unslow.think.memory.llama_cpp.transformer import Mixer


class Indexer:
    """The inputs that all layers with an indexer share, and the tokens that the last one picked."""

    def __init__(self, build: Build) -> None:
        graph, length = build.graph, build.hyper.index_length
        self._build = build
        self._key_rows = graph.input("I64", build.tokens, name="index rows")
        self._mask = cache.mask_input(build, 0, "F16" if build.kernels.indexer else "F32")
        self._rotation = graph.input("F32", length, length, name="index rotation")
        self._picked: Node | None = None

    def picked_places(self, layer: int, x: Node, ranks: Node) -> Node | None:
        """The places in the cache that a layer's queries look at; a layer without an indexer takes the last one's."""
        build = self._build
        if build.hyper.layer_windows[layer]:
            return None
        if build.hyper.has_indexer(layer):
            graph, name = build.graph, f"{build.block(layer)}.indexer"
            key = build.norm(build.linear(x, f"{name}.attn_k"), f"{name}.k_norm", "norm")
            key = graph.rope(graph.reshape(key, build.hyper.index_length, 1, build.tokens), build.positions)
            cells = cache.cells_of(build.hyper, build.settings, layer)
            keys = cache.store_single_head(build, layer, graph.mul_mat(self._rotation, key), self._key_rows, cells)
            # Queries of several heads for each token, and a weight for each head
            query = graph.mul_mat(self._rotation, index_queries(build, layer, ranks))
            query, weights = by_stream(build, query, build.linear(x, f"{name}.proj"))
            weights = graph.scale(weights)
            self._picked = best_places(build, layer, query, keys, weights, self._mask)
        return self._picked


def index_queries(build: Build, layer: int, ranks: Node) -> Node:
    """Queries of an indexer's heads, turned by the positions: (length, heads, tokens)."""
    query, length = build.linear(ranks, f"{build.block(layer)}.indexer.attn_q_b"), build.hyper.index_length
    heads = build.graph.reshape(query, length, query.shape[0] // length, build.tokens)
    return build.graph.rope(heads, build.positions)


def by_stream(build: Build, query: Node, weights: Node) -> tuple[Node, Node]:
    """Queries (length, heads, tokens, streams) and weights (heads, tokens, 1, streams) of each slot's tokens."""
    streams = build.settings.streams
    graph, (length, heads), tokens = build.graph, query.shape[:2], build.tokens // streams
    query = graph.view(query, (length, heads, tokens, streams), (*query.strides[1:3], query.strides[2] * tokens))
    row = weights.strides[1]
    return query, graph.view(weights, (heads, tokens, 1, streams), (row, row * tokens, row * tokens))


def best_places(build: Build, layer: int, query: Node, keys: Node, weights: Node, mask: Node) -> Node:
    """The places of the keys that each query wants most, by scores of (cells, tokens, 1, streams)."""
    graph = build.graph
    if build.kernels.indexer:
        shape = (keys.shape[2], query.shape[2], 1, query.shape[3])
        scores = graph.special("lightning_indexer", shape, query, keys, weights, mask)
        build.fused.append((layer, scores))
    else:
        products = graph.mul_mat(graph.permute(keys, 0, 2, 1, 3), graph.permute(query, 0, 2, 1, 3))
        products = graph.unary(graph.cont(graph.permute(products, 2, 1, 0, 3)))
        total = graph.sum_rows(graph.mul(products, weights))
        scores = graph.add(graph.cont(graph.permute(total, 2, 1, 0, 3)), mask)
    count = min(scores.shape[0], build.hyper.blueprint.count("attention.indexer.top_k"))
    return graph.cont(graph.special("top_k", (count, *scores.shape[1:]), scores, kind="I32"))


def latent_attention(build: Build, layer: int, x: Node, inputs: CacheInputs, indexer: Indexer | None) -> Node:
    """Queries are brought into the compressed space, so that all heads share one row of the cache."""
    name, graph = build.block(layer), build.graph
    heads, tokens = build.hyper.heads[layer], build.tokens
    length = _number(build, layer, "key_length_mla")
    ranks, matrix = _ranks(build, layer, x)
    picked = indexer.picked_places(layer, x, ranks) if indexer else None
    query = graph.reshape(build.linear(ranks, matrix), length, heads, tokens)
    latent, key_turned = _compress_rows(build, layer, x)
    rope = key_turned.shape[0]
    plain = graph.view(query, (length - rope, heads, tokens), query.strides[1:3])
    turned_part = _rotate(build, layer, graph.view(query, (rope, heads, tokens), query.strides[1:3]))
    absorbed = graph.mul_mat(build.weight(f"{name}.attn_k_b.weight"), graph.permute(plain, 0, 2, 1, 3))
    query = graph.concat(graph.permute(absorbed, 0, 2, 1, 3), turned_part, 0)
    value = graph.reshape(latent, latent.shape[0], 1, tokens)
    key = graph.concat(value, key_turned, 0)
    extras = attention.Extras(value_matrix=build.weight(f"{name}.attn_v_b.weight"), picked=picked)
    made = attention.Heads(attention.temper_queries(build, layer, query), key, value)
    return attention.attend(build, layer, made, inputs, extras)


def expanded_heads(build: Build, layer: int, x: Node) -> attention.Heads:
    """The same for a cache of whole heads: keys and values are brought back to their full lengths first."""
    name, graph = build.block(layer), build.graph
    heads, tokens = build.hyper.heads[layer], build.tokens
    length, value_length = build.hyper.key_length(layer), build.hyper.value_length(layer)
    query = graph.reshape(build.linear(*_ranks(build, layer, x)), length, heads, tokens)
    latent, key_turned = _compress_rows(build, layer, x)
    rope = key_turned.shape[0]
    both = build.linear(latent, f"{name}.attn_kv_b")
    step = row_bytes("F32", length - rope + value_length)
    plain = graph.view(both, (length - rope, heads, tokens), (step, step * heads))
    value = graph.cont(graph.view(both, (value_length, heads, tokens), (step, step * heads)))
    key = graph.concat(plain, graph.repeat(key_turned, rope, heads, tokens), 0)
    return attention.Heads(attention.temper_queries(build, layer, _rotate(build, layer, query)), key, value)


def _compress_rows(build: Build, layer: int, x: Node) -> tuple[Node, Node]:
    """The compressed row of each token, and the part of its key that is turned."""
    name, graph, tokens = build.block(layer), build.graph, build.tokens
    joined = build.linear(x, f"{name}.attn_kv_a_mqa")
    row = joined.strides[1]
    rank = _number(build, layer, "kv_lora_rank")
    key = graph.view(joined, (joined.shape[0] - rank, 1, tokens), (row, row))
    if build.has(f"{name}.attn_k_norm.weight"):
        key = build.norm(key, f"{name}.attn_k_norm")
    latent = graph.view(joined, (rank, tokens), (row,))
    return build.norm(latent, f"{name}.attn_kv_a_norm"), _rotate(build, layer, key)


def _number(build: Build, layer: int, key: str) -> int:
    """A length, which layers with a window may have another one of."""
    full = build.hyper.blueprint.count(f"attention.{key}")
    return build.hyper.blueprint.count(f"attention.{key}_swa", full) if build.hyper.layer_windows[layer] else full


def _rotate(build: Build, layer: int, x: Node) -> Node:
    return attention.turned_by_rope(build, layer, x) if attention.has_rope(build.hyper, layer) else x


def _ranks(build: Build, layer: int, x: Node) -> tuple[Node, str]:
    """What queries are made of, the input or few numbers that it is compressed to; and the matrix that makes them."""
    name = build.block(layer)
    if build.has(f"{name}.attn_q.weight"):
        return x, f"{name}.attn_q"
    return build.norm(build.linear(x, f"{name}.attn_q_a"), f"{name}.attn_q_a_norm"), f"{name}.attn_q_b"


class CompressedAttention:
    """The attention of all layers over compressed tokens (DeepSeek 4), whatever their ratio.

    The last tokens are looked at as they are, older ones some to a row. A compressor keeps the tokens that do not fill
    a row yet as a state. With a low ratio, an indexer picks the rows that are looked at; with a high one, all are.
    """

    def __init__(self, build: Build) -> None:
        self._build = build
        self._inputs: CacheInputs = cache.cache_inputs(build, 0)
        build.graph.expand(self._inputs.mask)
        kind, length = self._inputs.mask.kind, build.hyper.key_length(0)
        self._low = Compressor(build, LOW_RATIO, length, kind)
        self._high = Compressor(build, HIGH_RATIO, length, kind)
        index_kind = "F16" if build.kernels.indexer else "F32"
        self._index = Compressor(build, LOW_RATIO, build.hyper.index_length, index_kind, rotates=True)

    def attend(self, layer: int, x: Node) -> Node:
        """A whole attention, with its projections."""
        build, graph, name = self._build, self._build.graph, self._build.block(layer)
        length, heads, tokens = build.hyper.key_length(layer), build.hyper.heads[layer], build.tokens
        ranks = build.norm(build.linear(x, f"{name}.attn_q_a"), f"{name}.attn_q_a_norm")
        query = graph.norm(graph.reshape(build.linear(ranks, f"{name}.attn_q_b"), length, heads, tokens))
        key = build.norm(build.linear(x, f"{name}.attn_kv"), f"{name}.attn_kv_a_norm")
        query, key = (graph.rope(n, build.positions) for n in (query, graph.reshape(key, length, 1, tokens)))
        rows, mask = self._compress_rows(layer, x, ranks)
        # Attention over the last tokens and the compressed rows, whose keys are their values
        rotation, seen = self._inputs.key_rotation, self._inputs.mask
        if rotation is not None:
            query, key = attention.hadamard(build, query, rotation), attention.hadamard(build, key, rotation)
        graph.expand(query)
        graph.expand(key)
        cells = cache.cells_of(build.hyper, build.settings, layer)
        keys = cache.store_single_head(build, layer, key, self._inputs.key_rows, cells)
        if rows is not None and mask is not None:
            keys, seen = graph.concat(keys, rows, 2), graph.concat(seen, mask, 0)
        result = attention.attention_product(build, layer, query, keys, keys, seen)
        if rotation is not None:
            result = attention.hadamard(build, result, rotation)
        result = graph.rope(graph.reshape(result, length, heads, tokens), build.positions)
        # To the width of the model, by groups of heads first
        matrix = build.weight(f"{name}.attn_output_a.weight")
        width, rank, groups = matrix.shape[:3]
        grouped = graph.permute(graph.reshape(result, width, groups, build.tokens), 0, 2, 1, 3)
        small = graph.permute(graph.mul_mat(matrix, grouped), 0, 2, 1, 3)
        return build.linear(graph.cont(small, rank * groups, build.tokens), f"{name}.attn_output_b")

    def _compress_rows(self, layer: int, x: Node, ranks: Node) -> tuple[Node | None, Node | None]:
        """The compressed rows that a layer sees beside the last tokens, and their mask."""
        build, ratio = self._build, self._build.hyper.compressions[layer]
        if ratio == HIGH_RATIO:
            return self._high.store_rows(layer, x, "attn_compressor"), self._high.mask
        if ratio != LOW_RATIO:
            return None, None
        rows = self._low.store_rows(layer, x, "attn_compressor")
        index_rows = self._index.store_rows(layer, x, "indexer_compressor")
        query = index_queries(build, layer, ranks)
        if self._index.rotation is not None:
            query = attention.hadamard(build, query, self._index.rotation)
        weights = build.graph.scale(build.linear(x, f"{build.block(layer)}.indexer.proj"))
        query, weights = by_stream(build, query, weights)
        picked = best_places(build, layer, query, index_rows, weights, self._index.mask)
        return rows, attention.mask_of_picked(build, picked, self._low.mask, self._low.mask.kind)


class Compressor:
    """A kind of compression, with the inputs that all layers which have it share."""

    def __init__(self, build: Build, ratio: int, length: int, mask_kind: str, *, rotates: bool = False) -> None:
        graph, slots, tokens = build.graph, build.settings.slots, build.tokens
        self._build, self._ratio, self._length = build, ratio, length
        self._parts = 2 if ratio == LOW_RATIO else 1
        """Rows of a low ratio overlap: each is made of its own tokens, and of those before."""
        self._cells = cache.compressed_cells(build.settings, ratio)
        self._blocks = slots * max(1, -(-build.sequence_tokens // ratio))
        kept = min(tokens, self._parts * ratio * slots)
        self._places = graph.input("I32", tokens, name="places in a row")
        self._kept_from = graph.input("I32", kept, name="kept tokens")
        self._kept_to = graph.input("I32", kept, name="rows of kept tokens")
        self._read = graph.input("I32", self._parts * ratio * self._blocks, name="tokens of rows")
        self._rows = graph.input("I64", self._blocks, name="new rows")
        self._positions = graph.input("I32", self._blocks, name="positions of rows")
        self.mask = graph.input(mask_kind, self._cells, tokens // slots, 1, slots, name="mask of rows")
        self.rotation = cache.rotation_input(build, length, always=rotates)

    def store_rows(self, layer: int, x: Node, name: str) -> Node:
        """The rows of the whole cache, after the new ones were written; what is left over is kept for later."""
        build, graph = self._build, self._build.graph
        name = f"{build.block(layer)}.{name}"
        values, scores = build.linear(x, f"{name}_kv"), build.linear(x, f"{name}_gate")
        scores = graph.add(scores, graph.get_rows(build.weight(f"{name}_ape.weight"), self._places))
        # The tokens that do not fill a row yet
        states = [
            build.cache_tensor("F32", layer, values.shape[0], self._parts * self._ratio, build.settings.slots)
            for _ in range(2)
        ]
        # The weighted mean of the tokens that make up each row: (length, 1, rows)
        by_token = [
            graph.cont(graph.permute(self._gather_tokens(graph.concat(self._whole_state(state), part, 1)), 1, 0, 2, 3))
            for state, part in zip(states, (values, scores), strict=True)
        ]
        total = graph.sum_rows(graph.mul(by_token[0], graph.soft_max(by_token[1])))
        rows = build.norm(graph.cont(graph.permute(total, 1, 0, 2, 3)), f"{name}_norm")
        rows = graph.rope(rows, self._positions)
        if self.rotation is not None:
            rows = attention.hadamard(build, rows, self.rotation)
        stored = cache.store_single_head(build, layer, rows, self._rows, self._cells)
        for state, part in zip(states, (values, scores), strict=True):
            kept = graph.get_rows(part, self._kept_from)
            graph.expand(graph.set_rows(self._whole_state(state), kept, self._kept_to))
        return stored

    def _whole_state(self, state: Node) -> Node:
        return self._build.graph.view(state, (state.shape[0], state.shape[1] * state.shape[2]), (state.strides[1],))

    def _gather_tokens(self, tokens: Node) -> Node:
        graph, length, ratio, blocks = self._build.graph, self._length, self._ratio, self._blocks
        if self._parts == 1:
            return graph.reshape(graph.get_rows(tokens, self._read), length, ratio, blocks)
        nothing = graph.scale(graph.view(tokens, (tokens.shape[0],)))
        tokens = graph.concat(tokens, graph.reshape(nothing, tokens.shape[0], 1), 1)
        found = graph.get_rows(tokens, self._read)
        views = (graph.view(found, (length, ratio * blocks), (found.strides[1],)) for _ in range(self._parts))
        before, own = (graph.reshape(graph.cont(view), length, ratio, blocks) for view in views)
        return graph.concat(before, own, 1)


class HyperConnections:
    """The layers of a model with several streams: (width, streams, tokens)."""

    def __init__(self, build: Build) -> None:
        self._build = build
        self._count = build.hyper.blueprint.count("hyper_connection.count")
        self._rounds = build.hyper.blueprint.count("hyper_connection.sinkhorn_iterations")

    def begin(self, x: Node) -> Node:
        """All streams begin with the embeddings."""
        graph, (width, tokens) = self._build.graph, x.shape[:2]
        return graph.repeat(graph.reshape(x, width, 1, tokens), width, self._count, tokens)

    def layer(self, layer: int, x: Node, mix: Mixer) -> Node:
        build, name = self._build, self._build.block(layer)
        read, *weights = self._mixture(layer, "attn", x)
        x = self._write_streams(layer, mix(build.norm(read, f"{name}.attn_norm")), x, *weights)
        read, *weights = self._mixture(layer, "ffn", x)
        for node in (x, *weights):
            build.graph.expand(node)
        fed = feed_forward(build, layer, build.norm(read, f"{name}.ffn_norm"))
        result = self._write_streams(layer, fed, x, *weights)
        if build.is_trial:  # llama.cpp keeps the last node of a layer on the layer's device in small batches
            result.backend = build.places.layers[layer]
        return result

    def end(self, x: Node) -> Node:
        """One mixture of all streams, for the wanted tokens."""
        build, graph, width = self._build, self._build.graph, x.shape[0]
        flat = graph.get_rows(graph.reshape(x, width * self._count, x.shape[2]), build.wanted)
        x = graph.reshape(flat, width, self._count, flat.shape[1])
        scale, base = build.weight("output_hc_scale.weight"), build.weight("output_hc_base.weight")
        weights = graph.add(graph.mul(self._scores("output_hc_fn.weight", x), scale), base)
        return self._summed_by_hand(x, graph.scale(graph.unary(weights)))

    def _scores(self, name: str, x: Node) -> Node:
        graph = self._build.graph
        flat = graph.norm(graph.reshape(x, x.shape[0] * x.shape[1], x.shape[2]))
        return graph.mul_mat(self._build.weight(name), flat)

    def _mixture(self, layer: int, half: str, x: Node) -> tuple[Node, Node, Node]:
        """What a half reads, and by which weights its answer and the streams are mixed into the new ones."""
        build, graph, count = self._build, self._build.graph, self._count
        name = f"{build.block(layer)}.hc_{half}"
        scores = self._scores(f"{name}_fn.weight", x)
        reading = graph.scale(graph.unary(self._part(scores, name, count)))
        answers = graph.scale(graph.unary(self._part(scores, name, count)))
        streams = self._stream_weights(layer, name, scores)
        if not build.kernels.stream_sums:
            return self._summed_by_hand(x, reading), answers, streams
        read = self._fuse(layer, graph.special("hc_pre", (x.shape[0], x.shape[2], 1, 1), x, reading))
        return read, answers, streams

    def _part(self, scores: Node, name: str, length: int) -> Node:
        """Some of the scores, with a scale and a base of their own."""
        build, graph = self._build, self._build.graph
        part = graph.view(scores, (length, scores.shape[1]), (scores.strides[1],))
        part = graph.mul(part, graph.view(build.weight(f"{name}_scale.weight"), (1,)))
        return graph.add(part, graph.view(build.weight(f"{name}_base.weight"), (length,)))

    def _stream_weights(self, layer: int, name: str, scores: Node) -> Node:
        """How much of each stream goes into each: rows and columns that add up to one."""
        build, graph, count, tokens = self._build, self._build.graph, self._count, scores.shape[1]
        if build.kernels.stream_weights:
            scale, base = build.weight(f"{name}_scale.weight"), build.weight(f"{name}_base.weight")
            return self._fuse(layer, graph.special("hc_comb", (count, count, tokens, 1), scores, scale, base))
        weights = graph.reshape(self._part(scores, name, count * count), count, count, tokens)
        epsilon = graph.unary(graph.empty("F32", 1), "fill")
        weights = graph.add(graph.soft_max(weights), epsilon)
        for turn in range(max(1, self._rounds)):
            if turn:  # by rows; those of the first turn add up to one already
                weights = graph.binary("div", weights, graph.add(graph.sum_rows(weights), epsilon))
            totals = graph.add(graph.sum_rows(graph.cont(graph.permute(weights, 1, 0, 2, 3))), epsilon)
            weights = graph.binary("div", weights, graph.permute(totals, 1, 0, 2, 3))
        return weights

    def _summed_by_hand(self, x: Node, weights: Node) -> Node:
        graph = self._build.graph
        total: Node | None = None
        for _ in range(self._count):
            weight = graph.view(weights, (1, x.shape[2]), (weights.strides[1],))
            part = graph.mul(graph.view(x, x.shape[:3:2], (x.strides[2],)), weight)
            total = part if total is None else graph.add(total, part)
        return total or x

    def _write_streams(self, layer: int, answer: Node, streams: Node, answer_weights: Node, weights: Node) -> Node:
        """The new streams: a share of the answer, and of each stream."""
        graph = self._build.graph
        if self._build.kernels.stream_writes:
            sources = (answer, streams, answer_weights, weights)
            return self._fuse(layer, graph.special("hc_post", streams.shape, *sources))
        width, tokens = answer.shape[:2]
        result: Node | None = None
        for _ in range(self._count):
            share = graph.view(answer_weights, (1, tokens), (answer_weights.strides[1],))
            new = graph.mul(answer, share)
            for _ in range(self._count):
                share = graph.view(weights, (1, tokens), (weights.strides[2],))
                stream = graph.view(streams, streams.shape[:3:2], (streams.strides[2],))
                new = graph.add(new, graph.mul(stream, share))
            new = graph.reshape(new, width, 1, tokens)
            result = new if result is None else graph.concat(result, new, 1)
        return result or streams

    def _fuse(self, layer: int, node: Node) -> Node:
        self._build.fused.append((layer, node))
        return node
