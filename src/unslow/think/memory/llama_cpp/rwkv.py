"""RWKV 6 and 7: layers that mix each token with the one before it, and keep a matrix for each head."""

from unslow.think.memory.llama_cpp import recurrent
from unslow.think.memory.llama_cpp.cache import Build
from unslow.think.memory.llama_cpp.feed_forward import feed_forward
from unslow.think.memory.llama_cpp.graph import Node, UnknownLayoutError, row_bytes

_MIXES = "wkvrg"  # what a token and its predecessor are mixed for: decay, key, value, receptance, gate
_MIXES_OF_7 = (5, 6)  # of a token and its predecessor, for each layer: without a gate, and with one


class Rwkv:
    """The layers of an RWKV model, in their order."""

    def __init__(self, build: Build, rows: recurrent.StateRows) -> None:
        self._build, self._rows = build, rows
        self._first_value: Node | None = None  # The values of the first layer, which later ones mix in (RWKV 7)

    def layer(self, layer: int, x: Node) -> Node:
        """A whole layer: over time, then over channels."""
        build, name = self._build, self._build.block(layer)
        x = recurrent.by_sequence(build, x)
        cache = recurrent.convolution_cache(build, layer)
        before = recurrent.load_state(build, cache, self._rows)
        before = build.graph.reshape(before, x.shape[0], build.hyper.token_shifts, x.shape[2])
        normed = build.norm(x, f"{name}.attn_norm")
        neighbours = normed, _shift_tokens(build, before, normed)
        if build.has(f"{name}.time_mix_decay.weight"):
            mixed = time_mixed_6(build, layer, *neighbours, self._rows)
        else:
            mixed, self._first_value = time_mixed_7(build, layer, *neighbours, self._rows, self._first_value)
        if not build.has(f"{name}.channel_mix_key.weight"):  # the second half is as in a transformer (QRWKV)
            recurrent.store_state(build, cache, _last(build, normed))
            middle = self._output_tokens(layer, build.graph.add(mixed, x))
            return build.graph.add(feed_forward(build, layer, build.norm(middle, f"{name}.ffn_norm")), middle)
        middle = build.graph.add(mixed, x)
        normed_2 = build.norm(middle, f"{name}.attn_norm_2")
        recurrent.store_state(build, cache, build.graph.concat(_last(build, normed), _last(build, normed_2), 1))
        return self._channel_mixed(layer, middle, normed_2, _shift_tokens(build, before, normed_2))

    def _channel_mixed(self, layer: int, middle: Node, token: Node, before: Node) -> Node:
        """The second half, in which a token is mixed with the one before it once more."""
        build, graph, name = self._build, self._build.graph, f"{self._build.block(layer)}.channel_mix"
        middle, token, before = (self._output_tokens(layer, n) for n in (middle, token, before))
        change = graph.binary("sub", before, token)

        def mix(letter: str) -> Node:
            return graph.add(graph.mul(change, build.weight(f"{name}_lerp_{letter}.weight")), token)

        inner = graph.unary(graph.unary(build.linear(mix("k"), f"{name}_key")), "sqr")
        result = build.linear(inner, f"{name}_value")
        if build.has(f"{name}_receptance.weight"):
            result = graph.mul(graph.unary(build.linear(mix("r"), f"{name}_receptance")), result)
        result = graph.add(result, middle)
        period = build.hyper.blueprint.count("rescale_every_n_layers")
        return graph.scale(result) if period and (layer + 1) % period == 0 else result

    def _output_tokens(self, layer: int, x: Node) -> Node:
        """Without its sequences; in the last layer, only the tokens whose outputs are wanted."""
        build = self._build
        x = build.graph.reshape(x, x.shape[0], build.tokens)
        return build.graph.get_rows(x, build.wanted) if layer == build.hyper.layers - 1 else x


def _shift_tokens(build: Build, before: Node, x: Node) -> Node:
    """Each token's predecessor: the last one of the batch before, then all but the last one of this batch."""
    graph = build.graph
    width, tokens, sequences = x.shape[:3]
    first = before if before.shape[1] == 1 else graph.view(before, (width, 1, sequences), before.strides[1:3])
    return graph.concat(first, graph.view(x, (width, tokens - 1, sequences), x.strides[1:3]), 1)


def _last(build: Build, x: Node) -> Node:
    return build.graph.view(x, (x.shape[0], 1, x.shape[2]), x.strides[1:3])


def time_mixed_6(build: Build, layer: int, token: Node, before: Node, rows: recurrent.StateRows) -> Node:
    """The first half of a layer, of tokens and their predecessors: (width, tokens, sequences)."""
    graph, name, shape = build.graph, f"{build.block(layer)}.time_mix", head_shape(build)
    mixes = dict(zip(_MIXES, _mixes(build, layer, token, before), strict=True))
    receptance = build.linear(mixes["r"], f"{name}_receptance")
    key, value = (build.linear(mixes[part[0]], f"{name}_{part}") for part in ("key", "value"))
    (size, heads, tokens), kv_heads = shape, build.hyper.kv_heads[layer]
    if kv_heads not in (0, heads):
        apart = (graph.reshape(n, size, 1, kv_heads, tokens) for n in (key, value))
        key, value = (graph.repeat(n, size, heads // kv_heads, kv_heads, tokens) for n in apart)
    gate = graph.unary(build.linear(mixes["g"], f"{name}_gate"))
    key, value, receptance = (graph.reshape(n, *shape) for n in (key, value, receptance))
    decay = graph.unary(build.linear(mixes["w"], f"{name}_decay_w1"))
    decay = graph.add(build.linear(decay, f"{name}_decay_w2"), build.weight(f"{name}_decay.weight"))
    decay = graph.reshape(graph.unary(graph.unary(graph.unary(decay))), *shape)
    if build.has(f"{name}_first.weight"):
        first = build.weight(f"{name}_first.weight")
        y = heard(build, layer, rows, "rwkv_wkv6", key, value, receptance, first, decay)
    else:
        key = graph.binary("sub", key, graph.mul(key, decay))
        y = heard(build, layer, rows, "gated_linear_attn", key, value, receptance, decay)
    y = graph.mul(normed_heads(build, layer, y), gate)
    y = build.linear(y, f"{name}_output")
    return graph.reshape(y, y.shape[0], build.sequence_tokens, build.settings.slots)


def _mixes(build: Build, layer: int, token: Node, before: Node) -> list[Node]:
    """The five mixes of a token and its predecessor, whose shares depend on both."""
    graph, name = build.graph, f"{build.block(layer)}.time_mix"
    width, tokens = build.hyper.width, build.tokens
    change, token = (graph.reshape(n, width, tokens) for n in (graph.binary("sub", before, token), token))
    mixed = graph.add(graph.mul(change, build.weight(f"{name}_lerp_x.weight")), token)
    # How much of its predecessor each token takes for each mix
    shares = graph.unary(build.linear(mixed, f"{name}_w1"))
    shares = graph.reshape(shares, shares.shape[0] // len(_MIXES), 1, len(_MIXES), tokens)
    shares = graph.cont(graph.permute(shares, 0, 1, 3, 2))
    wide = build.weight(f"{name}_w2.weight")
    shares = graph.mul_mat(graph.reshape(wide, *wide.shape[:2], 1, len(_MIXES)), shares)
    fused = build.has(f"{name}_lerp_fused.weight")
    if fused:
        change, token = (graph.reshape(n, width, 1, tokens) for n in (change, token))
        shares = graph.add(graph.mul(graph.add(shares, build.weight(f"{name}_lerp_fused.weight")), change), token)
    parts = [graph.view(shares, (width, tokens), (row_bytes("F32", width),)) for _ in _MIXES]
    if fused:
        return parts
    return [
        graph.add(graph.mul(graph.add(part, build.weight(f"{name}_lerp_{letter}.weight")), change), token)
        for letter, part in zip(_MIXES, parts, strict=True)
    ]


def time_mixed_7(
    build: Build, layer: int, token: Node, before: Node, rows: recurrent.StateRows, first_value: Node | None
) -> tuple[Node, Node]:
    """The first half of a layer, (width, tokens, sequences), and the first layer's values."""
    graph, name, shape = build.graph, f"{build.block(layer)}.time_mix", head_shape(build)
    for_receptance, for_decay, for_key, for_value, for_rate, *for_gate = _mixes_of_7(build, layer, token, before)
    receptance = build.linear(for_receptance, f"{name}_receptance")
    decay = graph.unary(graph.scale(graph.unary(_narrow(build, f"{name}_w", for_decay, activated=True))))
    key, value = build.linear(for_key, f"{name}_key"), build.linear(for_value, f"{name}_value")
    if first_value is None:
        first_value = value
    else:
        share = graph.unary(_narrow(build, f"{name}_v", for_value))
        value = graph.add(value, graph.mul(graph.binary("sub", first_value, value), share))
    rate = graph.unary(_narrow(build, f"{name}_a", for_rate))
    removed = graph.reshape(graph.mul(key, build.weight(f"{name}_k_k.weight")), *shape)
    removed = graph.norm(removed, "l2_norm")
    weighted = graph.mul(key, build.weight(f"{name}_k_a.weight"))
    key = graph.add(key, graph.binary("sub", graph.mul(rate, weighted), weighted))
    receptance, decay, key, value, rate = (graph.reshape(n, *shape) for n in (receptance, decay, key, value, rate))
    replaced = graph.unary(removed), graph.mul(removed, rate)
    y = heard(build, layer, rows, "rwkv_wkv7", receptance, decay, key, value, *replaced)
    y = normed_heads(build, layer, y)
    bonus = graph.reshape(build.weight(f"{name}_r_k.weight"), *shape[:2])
    bonus = graph.sum_rows(graph.mul(graph.mul(key, receptance), bonus))
    y = graph.add(y, graph.reshape(graph.mul(value, bonus), *y.shape))
    if for_gate:
        y = graph.mul(y, _narrow(build, f"{name}_g", for_gate[0], activated=True))
    y = build.linear(y, f"{name}_output")
    return graph.reshape(y, y.shape[0], build.sequence_tokens, build.settings.slots), first_value


def _mixes_of_7(build: Build, layer: int, token: Node, before: Node) -> list[Node]:
    """A token and its predecessor in fixed shares."""
    graph = build.graph
    width, tokens = build.hyper.width, build.tokens
    shares = build.weight(f"{build.block(layer)}.time_mix_lerp_fused.weight")
    if shares.shape[3] not in _MIXES_OF_7:
        raise UnknownLayoutError(f"the layers of RWKV 7 have 5 or 6 mixes, and not {shares.shape[3]}")
    change = graph.binary("sub", before, token)
    change = graph.repeat(change, *change.shape[:3], shares.shape[3])
    mixes = graph.add(graph.mul(change, shares), token)
    return [graph.view(mixes, (width, tokens), (row_bytes("F32", width),)) for _ in range(shares.shape[3])]


def _narrow(build: Build, name: str, x: Node, *, activated: bool = False) -> Node:
    """Two products with a narrow middle, and a bias where it has one."""
    inner = build.linear(x, f"{name}1")
    y = build.linear(build.graph.unary(inner) if activated else inner, f"{name}2")
    return build.graph.add(y, build.weight(f"{name}0.weight")) if build.has(f"{name}0.weight") else y


def head_shape(build: Build) -> tuple[int, int, int]:
    """The shape of all heads."""
    size = build.size("wkv.head_size")
    return size, build.hyper.width // size, build.tokens


def heard(build: Build, layer: int, rows: recurrent.StateRows, op: str, *operands: Node) -> Node:
    """What all tokens hear through the memory by one kernel; the memory after the last one is written back."""
    graph, cache = build.graph, recurrent.memory_cache(build, layer)
    size, heads, tokens = head_shape(build)
    state = recurrent.load_state(build, cache, rows)
    result = graph.special(op, (size * heads, tokens + size * build.settings.slots, 1, 1), *operands, state)
    recurrent.store_state(build, cache, graph.view(result, (cache.elements,)))
    return graph.view(result, (size * heads * tokens,))


def normed_heads(build: Build, layer: int, y: Node) -> Node:
    """Each head brought to one length, where the layer has a norm for it."""
    graph, name, width = build.graph, f"{build.block(layer)}.time_mix_ln", build.hyper.width
    if not build.has(f"{name}.weight"):
        return graph.reshape(y, width, build.tokens)
    y = graph.norm(graph.reshape(y, *head_shape(build)), "norm")
    y = graph.mul(graph.reshape(y, width, build.tokens), build.weight(f"{name}.weight"))
    return graph.add(y, build.weight(f"{name}.bias"))
