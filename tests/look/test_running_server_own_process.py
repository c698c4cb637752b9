from cases import r
from doubles import FakeSystem

from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import Unknown
from unslow.look.running_server import with_own_process

NODES = "/sys/devices/system/node"
FILES = {
    "/proc/77/maps": "7f00-7f10 r-xp 0 08:01 9 /opt/llama/libggml-cpu-x64.so\n",
    "/proc/77/numa_maps": "7f0000000000 default file=/m.gguf mapped=30 N0=20 N1=10 kernelpagesize_kB=4\n",
    f"{NODES}/has_cpu": "0-1\n",
    f"{NODES}/has_memory": "0-1\n",
}


def seen(runtime: Runtime, **files: str) -> Runtime:
    return with_own_process(FakeSystem(files=FILES | files), Subject(runtime=runtime)).runtime


def test_disabled_cuda_graphs_variable_means_eager():
    off = seen(Runtime().with_facts(pid=r(77), environment=r({"GGML_CUDA_DISABLE_GRAPHS": "1"})))
    assert off.compute.eager.value is True
    assert "GGML_CUDA_DISABLE_GRAPHS" in off.compute.eager.source
    assert isinstance(seen(Runtime().with_facts(pid=r(77), environment=r({}))).compute.eager, Unknown)
    assert seen(Runtime().with_facts(pid=r(77), eager=r(False), environment=r({}))).compute.eager.value is False


def test_build_features_fall_back_to_the_mapped_library():
    assert seen(Runtime().with_facts(pid=r(77))).build.features.value == []
    assert seen(Runtime().with_facts(pid=r(77), build_features=r(["AVX2"]))).build.features.value == ["AVX2"]


def test_memory_per_numa_node_is_read_if_there_are_several(wording):
    assert seen(Runtime().with_facts(pid=r(77))).process.bytes_by_node.value == {"0": 81920, "1": 40960}
    alone = FakeSystem(files=FILES | {f"{NODES}/has_memory": "0\n"})
    of_one = with_own_process(alone, Subject(runtime=Runtime().with_facts(pid=r(77)))).runtime.process.bytes_by_node
    wording(of_one.why)


def test_disk_reads_of_the_servers_process_are_read():
    # /proc/PID/io of a server that was started twice: the second time its model lay in memory
    io = "rchar: 105430318\nwchar: 4096\nsyscr: 377\nsyscw: 12\nread_bytes: 98304\nwrite_bytes: 4096\n"
    server = Runtime().with_facts(pid=r(77), name=r("llama.cpp"))
    assert seen(server, **{"/proc/77/io": io}).process.disk_read_bytes.value == 98304
    assert isinstance(seen(server).process.disk_read_bytes, Unknown)
    in_a_child = Runtime().with_facts(pid=r(77), name=r("vLLM"))
    assert isinstance(seen(in_a_child, **{"/proc/77/io": io}).process.disk_read_bytes, Unknown)


def test_an_invisible_process_has_unknown_build_features():
    assert with_own_process(FakeSystem(), Subject()) == Subject()
    hidden = with_own_process(FakeSystem(), Subject(runtime=Runtime().with_facts(pid=r(77)))).runtime
    assert isinstance(hidden.build.features, Unknown)
    assert isinstance(hidden.process.bytes_by_node, Unknown)


def test_build_features_fall_back_to_the_machine_code():
    maps = {"/proc/77/maps": "7f00-7f10 r-xp 0 08:01 9 /opt/llama/llama-server\n"}
    counts = {"AVX": 134, "AVX2": 1053, "FMA": 659, "F16C": 114}
    asks = {"machine code /proc/77/root/opt/llama/llama-server": counts}
    runtime = Subject(runtime=Runtime().with_facts(pid=r(77)))
    told = with_own_process(FakeSystem(files=FILES | maps, asks=asks), runtime).runtime.build.features
    assert told.value == ["AVX", "AVX2", "FMA", "F16C"]
    asks = dict.fromkeys(asks)
    silent = with_own_process(FakeSystem(files=FILES | maps, asks=asks), runtime).runtime.build.features
    assert "name or code" in silent.why


def test_a_software_renderer_is_known_by_its_threads_not_by_its_library():
    maps = {"/proc/77/maps": "7f00-7f10 r-xp 0 08:01 9 /usr/lib/x86_64-linux-gnu/libvulkan_lvp.so\n"}
    threads = {"/proc/77/task/77/comm": "llama-server\n", "/proc/77/task/78/comm": "llvmpipe-0\n"}

    def renderer(files: dict[str, str]) -> object:
        system = FakeSystem(files=FILES | files, folders={"/proc/77/task": ["77", "78"]})
        runtime = with_own_process(system, Subject(runtime=Runtime().with_facts(pid=r(77)))).runtime
        return runtime.placement.software_renderer.value_or(None)

    assert renderer(maps | threads) == "llvmpipe"
    assert renderer(maps) is None, "every Vulkan program maps it"
    assert renderer(threads) is None
