from unslow.think.memory.llama_cpp.allocator import watched_sizes
from unslow.think.memory.llama_cpp.backends import Backend
from unslow.think.memory.llama_cpp.graph import Graph, Node, four
from unslow.think.memory.llama_cpp.need import backends_of
from unslow.think.memory.llama_cpp.scheduler import Rules, Scheduler

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


def test_products_run_where_their_weights_lie() -> None:
    graph, products = chain([CPU, GPU], 8)
    schedule = Scheduler(backends(), Rules()).scheduled(graph.nodes, graph.leaves)
    assert [p.backend for p in products] == [CPU, GPU]
    assert schedule.splits == 2


def test_a_long_prompt_is_computed_on_the_gpu_with_borrowed_weights() -> None:
    graph, products = chain([CPU, CPU, GPU], 512)
    schedule = Scheduler(backends(), Rules()).scheduled(graph.nodes, graph.leaves)
    assert [p.backend for p in products] == [GPU, GPU, GPU]
    assert schedule.splits == 2  # the second borrowed weight begins one, so that it can take the place of the first
    on_gpu, on_host = watched_sizes(schedule.nodes, schedule.leaves, backends(), ())[0]
    assert on_gpu == 4 * MIB + 2 * MIB + 2 * MIB  # one weight at a time, what it reads, what it writes
    assert on_host == 2 * MIB


def test_borrowing_can_be_forbidden() -> None:
    graph, products = chain([CPU, GPU], 512)
    Scheduler(backends(), Rules(offload=False)).scheduled(graph.nodes, graph.leaves)
    assert [p.backend for p in products] == [CPU, GPU]


def test_an_operation_that_the_gpu_can_not_do_goes_to_the_host() -> None:
    graph = Graph()
    x = graph.mul_mat(weight(GPU, 1024, 1024), graph.input("F32", 1024, 8))
    halves = graph.unary(graph.permute(x, 1, 0, 2, 3))  # CUDA takes no gaps here
    graph.expand(graph.mul_mat(weight(GPU, 8, 8), halves))
    Scheduler(backends(), Rules()).scheduled(graph.nodes, graph.leaves)
    assert halves.backend == CPU


def test_batches_in_flight_have_inputs_and_copies_of_their_own() -> None:
    sizes = []
    for in_flight in (1, 4):
        graph, _ = chain([GPU, GPU], 512)
        schedule = Scheduler(backends(), Rules(in_flight=in_flight)).scheduled(graph.nodes, graph.leaves)
        sizes.append(watched_sizes(schedule.nodes, schedule.leaves, backends(), ())[0])
    assert sizes[1][CPU] == 4 * sizes[0][CPU]
    assert sizes[1][GPU] >= sizes[0][GPU] + 3 * 2 * MIB
