"""Memory kept by fused kernels, against a CUDA server newer than b10586."""

import pytest
from lab.plan_gpu.cases import MOE, shape_of

from unslow.facts.values import MIB
from unslow.think.blueprints import made_up
from unslow.think.memory.llama_cpp.graph import Graph, Node
from unslow.think.memory.llama_cpp.hyperparameters import Settings
from unslow.think.memory.llama_cpp.need import memory_of
from unslow.think.memory.llama_cpp.scheduler import kept_by_fused

TOKENS, WIDTH = 40, 16
PRINTED_MIB = 0.006


@pytest.mark.parametrize(
    ("micro_batch", "gpu", "host"),
    [(1024, 214.85, 32.10), (1536, 354.11, 48.11), (2048, 478.87, 64.13), (4096, 736.16, 128.17)],
)
def test_compute_buffers_match_a_recorded_server(micro_batch: int, gpu: float, host: float) -> None:
    asked = Settings(
        context=8192, micro_batch=micro_batch, batch=max(2048, micro_batch), key_type="Q8_0", value_type="Q8_0",
        flash_attention=True, outputs=1, gpu_layers=25, experts_on_cpu=16, fuses=True,
    )  # fmt: skip
    needs = memory_of(made_up(*shape_of(MOE)), asked, (1.0,)).needs
    assert [need.compute / MIB for need in needs] == pytest.approx([gpu, host], abs=PRINTED_MIB)


def routing(experts: int, used: int, *, normalised: bool = True) -> tuple[Graph, Node, Node]:
    """A router's nodes, its scores and the weights that it ends with."""
    graph = Graph()
    scores = graph.mul_mat(graph.empty("F32", WIDTH, experts), graph.empty("F32", WIDTH, TOKENS))
    shares = graph.soft_max(scores)
    weights = graph.get_rows(graph.reshape(shares, 1, experts, TOKENS), graph.top_rows(shares, used))
    if normalised:
        flat = graph.reshape(weights, used, TOKENS)
        weights = graph.reshape(graph.binary("div", flat, graph.clamp(graph.sum_rows(flat))), 1, used, TOKENS)
    graph.expand(weights)
    return graph, scores, weights


@pytest.mark.parametrize("normalised", [True, False])
def test_router_tensors_are_kept_until_the_next_node(*, normalised: bool) -> None:
    graph, scores, weights = routing(64, 8, normalised=normalised)
    after = graph.unary(graph.empty("F32", 1))
    (found,) = kept_by_fused(graph.nodes, after)
    assert found.until is after
    assert scores in found.nodes
    assert weights in found.nodes
    (same,) = kept_by_fused([*graph.nodes, after], None)
    assert same.until is after


@pytest.mark.parametrize(("experts", "is_kept"), [(64, True), (512, True), (576, True), (60, False), (1024, False)])
def test_only_expert_counts_with_a_kernel_are_fused(experts: int, *, is_kept: bool) -> None:
    graph, *_ = routing(experts, 8)
    assert bool(list(kept_by_fused(graph.nodes, graph.empty("F32", 1)))) is is_kept


def summed(used: int) -> tuple[Graph, Node, Node]:
    """What experts say, and its weighted sum."""
    graph = Graph()
    said = graph.mul_mat_id(
        graph.empty("F32", WIDTH, WIDTH, 64), graph.empty("F32", WIDTH, 1, TOKENS), graph.empty("I32", used, TOKENS)
    )
    weighed = graph.expand(graph.mul(said, graph.empty("F32", 1, used, TOKENS)))
    parts = [graph.expand(graph.view(weighed, (WIDTH, TOKENS), (weighed.strides[2],))) for _ in range(used)]
    total = parts[0]
    for part in parts[1:]:
        total = graph.expand(graph.add(total, part))
    return graph, said, total


@pytest.mark.parametrize(("used", "is_kept"), [(1, False), (2, True), (15, True), (16, False)])
def test_expert_outputs_are_kept_until_they_are_summed(used: int, *, is_kept: bool) -> None:
    graph, said, total = summed(used)
    found = list(kept_by_fused(graph.nodes, None))
    assert bool(found) is is_kept
    assert all(each.until is total and said in each.nodes for each in found)


def test_other_products_are_not_kept() -> None:
    graph = Graph()
    x = graph.empty("F32", WIDTH, TOKENS)
    graph.expand(graph.soft_max(graph.mul(x, graph.empty("F32", WIDTH))))
    assert not list(kept_by_fused(graph.nodes, None))
