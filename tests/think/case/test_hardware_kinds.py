import msgspec
import pytest
from cases import cpu_case, gpu_case, r, with_facts
from told import pasted, says

from unslow.facts.account import Topic
from unslow.facts.machine import Gpu, Memory
from unslow.facts.values import GIB
from unslow.think.case.gpus import (
    has_no_gpu,
    is_apple,
    is_integrated,
    is_unified,
    unified_limit_bytes,
    vram_total_bytes,
)
from unslow.think.case.runtime import NEWEST, build_number, computes_in_half, dotted_version, runs_ggml, runs_paged


@pytest.mark.parametrize(
    ("name", "integrated"),
    [
        ("Intel(R) UHD Graphics 770", True),
        ("AMD Radeon(TM) Graphics", True),
        ("Intel(R) Iris(R) Xe Graphics", True),
        ("Radeon 780M", True),
        ("NVIDIA GeForce RTX 4070", False),
        ("AMD Radeon RX 7900 XTX", False),
        ("Intel(R) Arc(TM) A770 Graphics", False),
        ("NVIDIA GeForce GTX 860M", False),
        ("NVIDIA GeForce 840M", False),
        ("NVIDIA GeForce GT 750M", False),
        ("Radeon Pro Vega 48", False),
    ],
)
def test_whose_memory_a_gpu_uses_by_its_name(name, integrated):
    assert is_integrated(Gpu(index=0, name=r(name))) is integrated


def test_a_mac_by_its_names_its_limit_or_its_engine():
    assert is_apple(pasted(gpus=["Apple M4 Pro"]))
    assert is_apple(pasted(system="macOS 15.3"))
    assert is_apple(pasted(runtime={"name": "MLX"}))
    assert not is_apple(pasted(gpus=["RTX 4090"], system="Windows 11"))
    assert not is_apple(gpu_case())


@pytest.mark.parametrize("name", ["Tesla M4", "Tesla M10", "Tesla M40 24GB", "Tesla M60", "M40", "Radeon R9 M395"])
def test_cards_whose_names_begin_like_those_of_apples_chips(name):
    assert not is_apple(pasted(gpus=[name]))
    assert not is_unified(pasted(gpus=[name], system="Linux"))


def test_the_bare_name_of_a_chip_counts_where_nothing_names_another_maker_or_system():
    assert is_apple(pasted(gpus=["M2 Max"]))
    assert not is_apple(pasted(gpus=["M4"], system="Ubuntu 24.04"))
    assert not is_apple(pasted(gpus=["M4"], gpu_facts={"vendor": r("NVIDIA")}))
    assert is_apple(with_facts(cpu_case(), {"machine.cpu.model": "M1 Pro"}))
    assert not is_apple(with_facts(cpu_case(), {"machine.cpu.model": "Intel(R) Core(TM) m7-6Y75 CPU @ 1.20GHz"}))


def test_the_limit_of_a_mac_is_a_share_of_its_memory_unless_set():
    case = pasted(gpus=["Apple M4 Pro"])
    machine = msgspec.structs.replace(case.machine, memory=Memory(total_bytes=r(64 * GIB)))
    case = msgspec.structs.replace(case, machine=machine)
    assert is_unified(case)
    assert unified_limit_bytes(case) == 48 * GIB
    assert unified_limit_bytes(with_facts(case, {"machine.memory.wired_limit_bytes": 56 * GIB})) == 56 * GIB


def test_the_memory_of_cards_that_are_only_named():
    assert vram_total_bytes(pasted(gpus=["RTX 3090", "RTX 3060 12GB"])) == 36 * GIB
    assert vram_total_bytes(pasted(gpus=["RTX 3090", "some card"])) is None


def test_no_gpu_as_seen_or_as_told():
    assert has_no_gpu(cpu_case())
    assert has_no_gpu(pasted(says(Topic.GPU_ABSENT, "no GPU")))
    assert not has_no_gpu(pasted())


def test_engines_behind_names():
    assert runs_ggml(pasted(runtime={"name": "LM Studio"}))
    assert runs_paged(pasted(runtime={"name": "vLLM"}))
    assert runs_ggml(pasted()) is None
    assert computes_in_half(pasted(runtime={"name": "exllamav2"}))
    assert not computes_in_half(pasted(runtime={"name": "Ollama"}, model={"quant": "Q4_K_M"}))


def test_versions_that_can_be_compared():
    assert build_number("b3556") == 3556
    assert build_number("b1-0c1e570") == build_number("b100-0c1e570") == NEWEST  # of a shallow clone
    assert build_number("b9999-0c1e570") == 9999
    assert build_number("0.30.6") == NEWEST
    assert build_number("4567 (3edfa7d)") == 4567
    assert build_number("2024-05-01") == NEWEST  # a day
    assert build_number("2024.5.1") == NEWEST
    assert dotted_version("v0.9.2") == (0, 9, 2)
    assert dotted_version("main") == ()
