"""Multi-head latent attention (DeepSeek): keys and values compressed to one row for all heads."""

from unslow.think.memory.llama_cpp.attention import attended
from unslow.think.memory.llama_cpp.build import Build
from unslow.think.memory.llama_cpp.cache_inputs import CacheInputs
from unslow.think.memory.llama_cpp.heads import Heads
from unslow.think.memory.llama_cpp.indexer import Indexer
from unslow.think.memory.llama_cpp.node import Node, row_bytes
from unslow.think.memory.llama_cpp.product import Extras
from unslow.think.memory.llama_cpp.rope import tempered, turned, turns


def latent_attention(build: Build, layer: int, x: Node, inputs: CacheInputs, indexer: Indexer | None) -> Node:
    """Queries are brought into the compressed space, so that all heads share one row of the cache."""
    name, graph = build.block(layer), build.graph
    heads, tokens = build.hyper.heads[layer], build.tokens
    length = _number(build, layer, "key_length_mla")
    ranks = _ranks(build, layer, x)
    picked = indexer.picked(layer, x, ranks) if indexer else None
    query = graph.reshape(_queries(build, layer, ranks), length, heads, tokens)
    latent, key_turned = _compressed(build, layer, x)
    rope = key_turned.shape[0]
    plain = graph.view(query, (length - rope, heads, tokens), query.strides[1:3])
    turned_part = _turned(build, layer, graph.view(query, (rope, heads, tokens), query.strides[1:3]))
    absorbed = graph.mul_mat(build.weight(f"{name}.attn_k_b.weight"), graph.permute(plain, 0, 2, 1, 3))
    query = graph.concat(graph.permute(absorbed, 0, 2, 1, 3), turned_part, 0)
    value = graph.reshape(latent, latent.shape[0], 1, tokens)
    key = graph.concat(value, key_turned, 0)
    extras = Extras(value_matrix=build.weight(f"{name}.attn_v_b.weight"), picked=picked)
    return attended(build, layer, Heads(tempered(build, layer, query), key, value), inputs, extras)


def expanded_heads(build: Build, layer: int, x: Node) -> Heads:
    """The same for a cache of whole heads: keys and values are brought back to their full lengths first."""
    name, graph = build.block(layer), build.graph
    heads, tokens = build.hyper.heads[layer], build.tokens
    length, value_length = build.hyper.key_length(layer), build.hyper.value_length(layer)
    query = graph.reshape(_queries(build, layer, _ranks(build, layer, x)), length, heads, tokens)
    latent, key_turned = _compressed(build, layer, x)
    rope = key_turned.shape[0]
    both = build.linear(latent, f"{name}.attn_kv_b")
    step = row_bytes("F32", length - rope + value_length)
    plain = graph.view(both, (length - rope, heads, tokens), (step, step * heads))
    value = graph.cont(graph.view(both, (value_length, heads, tokens), (step, step * heads)))
    key = graph.concat(plain, graph.repeat(key_turned, rope, heads, tokens), 0)
    return Heads(tempered(build, layer, _turned(build, layer, query)), key, value)


def _compressed(build: Build, layer: int, x: Node) -> tuple[Node, Node]:
    """The compressed row of each token, and the part of its key that is turned."""
    name, graph, tokens = build.block(layer), build.graph, build.tokens
    joined = build.linear(x, f"{name}.attn_kv_a_mqa")
    row = joined.strides[1]
    rank = _number(build, layer, "kv_lora_rank")
    key = graph.view(joined, (joined.shape[0] - rank, 1, tokens), (row, row))
    if build.has(f"{name}.attn_k_norm.weight"):
        key = build.norm(key, f"{name}.attn_k_norm")
    latent = graph.view(joined, (rank, tokens), (row,))
    return build.norm(latent, f"{name}.attn_kv_a_norm"), _turned(build, layer, key)


def _number(build: Build, layer: int, key: str) -> int:
    """A length, which layers with a window may have another one of."""
    full = build.hyper.blueprint.count(f"attention.{key}")
    return build.hyper.blueprint.count(f"attention.{key}_swa", full) if build.hyper.windowed[layer] else full


def _turned(build: Build, layer: int, x: Node) -> Node:
    return turned(build, layer, x) if turns(build.hyper, layer) else x


def _ranks(build: Build, layer: int, x: Node) -> Node:
    """What queries are made of: the input, or few numbers that it is compressed to."""
    name = build.block(layer)
    if build.has(f"{name}.attn_q.weight"):
        return x
    return build.norm(build.linear(x, f"{name}.attn_q_a"), f"{name}.attn_q_a_norm")


def _queries(build: Build, layer: int, ranks: Node) -> Node:
    name = build.block(layer)
    return build.linear(ranks, f"{name}.attn_q" if build.has(f"{name}.attn_q.weight") else f"{name}.attn_q_b")
