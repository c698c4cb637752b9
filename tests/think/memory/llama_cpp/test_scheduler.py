from unslow.think.memory.llama_cpp.graph import Graph, Node, four
from unslow.think.memory.llama_cpp.need import backends_of
from unslow.think.memory.llama_cpp.places import Backend
from unslow.think.memory.llama_cpp.scheduler import Rules, Scheduler, watched_sizes

MIB = 1024**2
GPU, CPU = 0, 1


def backends() -> list[Backend]:
    return backends_of(1)


def weight(home: int, *shape: int) -> Node:
    node = Node("none", "F32", four(shape))
    node.home, node.is_weight = home, True
    return node


def chain(homes: list[int], tokens: int) -> tuple[Graph, list[Node]]:
    graph = Graph()
    x = graph.input("F32", 1024, tokens)
    products = []
    for home in homes:
        x = graph.mul_mat(weight(home, 1024, 1024), x)
        products.append(x)
    graph.expand(x)
    return graph, products


def test_products_run_where_their_weights_are() -> None:
    graph, products = chain([CPU, GPU], 8)
    schedule = Scheduler(backends(), Rules()).schedule(graph.nodes, graph.leaves)
    assert [p.backend for p in products] == [CPU, GPU]
    assert schedule.splits == 2


def test_long_prompt_is_computed_on_the_gpu_with_copied_weights() -> None:
    graph, products = chain([CPU, CPU, GPU], 512)
    schedule = Scheduler(backends(), Rules()).schedule(graph.nodes, graph.leaves)
    assert [p.backend for p in products] == [GPU, GPU, GPU]
    assert schedule.splits == 2  # the second borrowed weight begins one, so that it can take the place of the first
    on_gpu, on_host = watched_sizes(schedule.nodes, schedule.leaves, backends(), ())[0]
    assert on_gpu == 4 * MIB + 2 * MIB + 2 * MIB  # one weight at a time, what it reads, what it writes
    assert on_host == 2 * MIB


def test_op_offload_can_be_disabled() -> None:
    graph, products = chain([CPU, GPU], 512)
    Scheduler(backends(), Rules(offload=False)).schedule(graph.nodes, graph.leaves)
    assert [p.backend for p in products] == [CPU, GPU]


def test_unsupported_operation_moves_to_the_host() -> None:
    graph = Graph()
    x = graph.mul_mat(weight(GPU, 1024, 1024), graph.input("F32", 1024, 8))
    halves = graph.unary(graph.permute(x, 1, 0, 2, 3))  # CUDA takes no gaps here
    graph.expand(graph.mul_mat(weight(GPU, 8, 8), halves))
    Scheduler(backends(), Rules()).schedule(graph.nodes, graph.leaves)
    assert halves.backend == CPU


def test_pipelined_batches_have_their_own_inputs_and_copies() -> None:
    sizes = []
    for in_flight in (1, 4):
        graph, _ = chain([GPU, GPU], 512)
        schedule = Scheduler(backends(), Rules(in_flight=in_flight)).schedule(graph.nodes, graph.leaves)
        sizes.append(watched_sizes(schedule.nodes, schedule.leaves, backends(), ())[0])
    assert sizes[1][CPU] == 4 * sizes[0][CPU]
    assert sizes[1][GPU] >= sizes[0][GPU] + 3 * 2 * MIB
