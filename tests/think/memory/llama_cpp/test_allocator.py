from hypothesis import given
from hypothesis import strategies as st

from unslow.think.memory.llama_cpp.graph import Graph, Node, four
from unslow.think.memory.llama_cpp.places import CPU, CUDA
from unslow.think.memory.llama_cpp.scheduler import Buffer, watched_sizes

MIB = 1024**2


def weight(*shape: int, kind: str = "F32", home: int = 0) -> Node:
    node = Node("none", kind, four(shape))
    node.home, node.is_weight = home, True
    return node


def sizes(graph: Graph) -> int:
    for node in (*graph.leaves, *graph.nodes):
        node.backend = 0
    return watched_sizes(graph.nodes, graph.leaves, [CPU], ())[0][0]


def test_smallest_fitting_gap_is_taken_and_adjacent_gaps_merge() -> None:
    buffer = Buffer(32)
    places = [buffer.take(n) for n in (64, 32, 128, 32)]
    assert places == [0, 64, 96, 224]
    buffer.give_back(0, 64)
    buffer.give_back(96, 128)
    assert buffer.take(60) == 0
    assert buffer.take(60) == 96
    buffer.give_back(64, 32)
    buffer.give_back(0, 60)
    assert buffer.gaps[0] == [0, 96]
    assert buffer.size == 256


def test_empty_tensor_freed_late_hides_a_gap_as_in_ggml() -> None:
    buffer = Buffer(32)
    assert [buffer.take(64), buffer.take(0)] == [0, 64]
    buffer.give_back(0, 64)
    buffer.give_back(64, 0)  # lies in no gap's reach now, and becomes the last one
    assert [buffer.take(64), buffer.take(96)] == [0, 64]
    buffer.give_back(0, 64)
    assert buffer.take(64) == 160


def test_chain_of_products_needs_two_tensors_at_a_time() -> None:
    graph = Graph()
    x = graph.input("F32", 1024, 256)
    for _ in range(5):
        x = graph.mul_mat(weight(1024, 1024), x)
    graph.expand(x)
    assert sizes(graph) == 2 * MIB


def test_addition_reuses_an_operand_without_other_uses() -> None:
    graph = Graph()
    x = graph.input("F32", 1024, 256)
    product = graph.mul_mat(weight(1024, 1024), x)
    graph.expand(graph.unary(graph.add(product, x)))
    assert sizes(graph) == 2 * MIB


def test_norm_does_not_overwrite_memory_that_a_view_uses() -> None:
    graph = Graph()
    x = graph.input("F32", 1024, 256)
    product = graph.mul_mat(weight(1024, 1024), x)
    view = graph.view(product, (512, 256), (product.strides[1],))
    graph.expand(graph.norm(product))
    graph.expand(graph.cont(view))
    assert sizes(graph) == 2 * MIB + MIB // 2  # the norm has the place of the input, the copy of the view its own


def test_outputs_are_kept_to_the_end() -> None:
    graph = Graph()
    x = graph.input("F32", 1024, 256)
    kept = graph.mul_mat(weight(1024, 1024), x)
    kept.is_output = True
    y = graph.mul_mat(weight(1024, 1024), kept)
    graph.expand(graph.mul_mat(weight(1024, 1024), y))
    assert sizes(graph) == 3 * MIB


def test_quantized_rows_are_padded_on_cuda_only() -> None:
    table = Node("none", "Q4_0", four((576, 10)))
    assert CPU.bytes_of(table) == 576 // 32 * 18 * 10
    assert CUDA.bytes_of(table) == 576 // 32 * 18 * 10 + (1024 - 576) // 32 * 18


@given(st.lists(st.tuples(st.integers(1, 4096), st.booleans()), max_size=60))
def test_live_tensors_never_overlap_and_fit_the_buffer(steps: list[tuple[int, bool]]) -> None:
    buffer, live = Buffer(32), list[tuple[int, int]]()
    for size, free_one in steps:
        offset = buffer.take(size)
        assert all(offset + size <= o or o + s <= offset for o, s in live)
        assert offset + size <= buffer.size
        live.append((offset, size))
        if free_one:
            buffer.give_back(*live.pop(0))
    for place in live:
        buffer.give_back(*place)
    assert len(buffer.gaps) == 1
    assert buffer.gaps[0][0] == 0
