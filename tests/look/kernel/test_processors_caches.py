import pytest
from doubles import FakeSystem

from unslow.facts.values import MIB
from unslow.look.kernel.processors import CPUS, read_last_level_cache_bytes
from unslow.look.system import LookError


def test_a_shared_last_level_cache_is_counted_once():
    files = {f"{CPUS}/online": "0-3"}
    for cpu, shared in ((0, "0-1"), (1, "0-1"), (2, "2-3"), (3, "2-3")):
        files[f"{CPUS}/cpu{cpu}/cache/index3/size"] = "32768K\n"
        files[f"{CPUS}/cpu{cpu}/cache/index3/shared_cpu_list"] = shared
    system = FakeSystem(files=files, folders={f"{CPUS}/cpu0/cache": ["index0", "index3", "index2", "uevent"]})
    assert read_last_level_cache_bytes(system) == 64 * MIB


def test_a_missing_cache_folder_is_a_look_error():
    with pytest.raises(LookError):
        read_last_level_cache_bytes(FakeSystem(folders={f"{CPUS}/cpu0/cache": []}))
    with pytest.raises(LookError):
        read_last_level_cache_bytes(FakeSystem())


@pytest.mark.parametrize(("size", "size_bytes"), [("49152K\n", 48 * MIB), ("300M", 300 * MIB), ("?", 0)])
def test_cache_sizes_in_k_and_m_are_parsed(size: str, size_bytes: int):
    cache = f"{CPUS}/cpu0/cache"
    files = {f"{CPUS}/online": "0", f"{cache}/index3/size": size, f"{cache}/index3/shared_cpu_list": "0"}
    assert read_last_level_cache_bytes(FakeSystem(files=files, folders={cache: ["index3"]})) == size_bytes
