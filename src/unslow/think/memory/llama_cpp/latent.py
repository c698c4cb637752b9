"""Multi-head latent attention (DeepSeek): keys and values kept as one compressed row for all heads."""

from unslow.think.memory.llama_cpp.attention import CacheInputs, Heads, attended
from unslow.think.memory.llama_cpp.build import Build
from unslow.think.memory.llama_cpp.node import Node


def latent_attention(build: Build, layer: int, x: Node, inputs: CacheInputs) -> Node:
    """Queries are brought into the compressed space, so that all heads share one row of the cache."""
    name, graph, number = f"blk.{layer}", build.graph, build.hyper.blueprint.count
    heads, tokens = build.hyper.heads[layer], build.tokens
    rank, rope = number("attention.kv_lora_rank"), number("rope.dimension_count")
    length = number("attention.key_length_mla")
    query = _queries(build, layer, x)
    query = graph.reshape(query, length, heads, tokens)
    compressed = build.linear(x, f"{name}.attn_kv_a_mqa")
    row = compressed.strides[1]
    key_turned = graph.rope(graph.view(compressed, (rope, 1, tokens), (row, row)), build.positions)
    latent = build.norm(graph.view(compressed, (rank, tokens), (row,)), f"{name}.attn_kv_a_norm")
    plain = graph.view(query, (length - rope, heads, tokens), query.strides[1:3])
    turned = graph.rope(graph.view(query, (rope, heads, tokens), query.strides[1:3]), build.positions)
    absorbed = graph.mul_mat(build.weight(f"{name}.attn_k_b.weight"), graph.permute(plain, 0, 2, 1, 3))
    query = graph.concat(graph.permute(absorbed, 0, 2, 1, 3), turned, 0)
    value = graph.reshape(latent, rank, 1, tokens)
    key = graph.concat(value, key_turned, 0)
    matrix = build.weight(f"{name}.attn_v_b.weight")
    return attended(build, layer, Heads(query, key, value), inputs, matrix)


def _queries(build: Build, layer: int, x: Node) -> Node:
    name = f"blk.{layer}"
    if build.has(f"{name}.attn_q.weight"):
        return build.linear(x, f"{name}.attn_q")
    return build.linear(build.norm(build.linear(x, f"{name}.attn_q_a"), f"{name}.attn_q_a_norm"), f"{name}.attn_q_b")
