import msgspec
import pytest
from cases import cpu_case, gpu_case, r, with_facts
from told import pasted, says

from unslow.facts.account import Topic
from unslow.facts.machine import Gpu, Memory
from unslow.facts.values import GIB
from unslow.think.case.device import is_integrated
from unslow.think.case.engine import NEWEST, build_number, dotted_version
from unslow.think.case.view import CaseView


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
def test_integrated_gpus_are_recognized_by_name(name, integrated):
    assert is_integrated(Gpu(index=0, name=r(name))) is integrated


def test_mac_is_recognized_by_gpu_system_or_engine():
    assert CaseView(pasted(gpus=["Apple M4 Pro"])).gpus.is_apple
    assert CaseView(pasted(system="macOS 15.3")).gpus.is_apple
    assert CaseView(pasted(runtime={"name": "MLX"})).gpus.is_apple
    assert not CaseView(pasted(gpus=["RTX 4090"], system="Windows 11")).gpus.is_apple
    assert not CaseView(gpu_case()).gpus.is_apple


@pytest.mark.parametrize("name", ["Tesla M4", "Tesla M10", "Tesla M40 24GB", "Tesla M60", "M40", "Radeon R9 M395"])
def test_tesla_m_names_are_not_apple_chips(name):
    assert not CaseView(pasted(gpus=[name])).gpus.is_apple
    assert not CaseView(pasted(gpus=[name], system="Linux")).gpus.is_unified


def test_bare_chip_name_is_apple_unless_vendor_or_system_differs():
    assert CaseView(pasted(gpus=["M2 Max"])).gpus.is_apple
    assert not CaseView(pasted(gpus=["M4"], system="Ubuntu 24.04")).gpus.is_apple
    assert not CaseView(pasted(gpus=["M4"], gpu_facts={"vendor": r("NVIDIA")})).gpus.is_apple
    assert CaseView(with_facts(cpu_case(), {"machine.cpu.model": "M1 Pro"})).gpus.is_apple
    assert not CaseView(
        with_facts(cpu_case(), {"machine.cpu.model": "Intel(R) Core(TM) m7-6Y75 CPU @ 1.20GHz"})
    ).gpus.is_apple


def test_unified_memory_limit_is_a_share_unless_set():
    case = pasted(gpus=["Apple M4 Pro"])
    machine = msgspec.structs.replace(case.machine, memory=Memory(total_bytes=r(64 * GIB)))
    case = msgspec.structs.replace(case, machine=machine)
    assert CaseView(case).gpus.is_unified
    assert CaseView(case).vram.unified_limit_bytes == 48 * GIB
    assert (
        CaseView(with_facts(case, {"machine.memory.wired_limit_bytes": 56 * GIB})).vram.unified_limit_bytes == 56 * GIB
    )


def test_vram_of_named_gpus_comes_from_their_names():
    assert CaseView(pasted(gpus=["RTX 3090", "RTX 3060 12GB"])).vram.total_bytes == 36 * GIB
    assert CaseView(pasted(gpus=["RTX 3090", "some card"])).vram.total_bytes is None


def test_no_gpu_is_known_from_facts_or_prose():
    assert CaseView(cpu_case()).gpus.has_none
    assert CaseView(pasted(says(Topic.GPU_ABSENT, "no GPU"))).gpus.has_none
    assert not CaseView(pasted()).gpus.has_none


def test_runtime_names_imply_their_engine():
    assert CaseView(pasted(runtime={"name": "LM Studio"})).engine.runs_ggml
    assert CaseView(pasted(runtime={"name": "vLLM"})).engine.runs_paged
    assert CaseView(pasted()).engine.runs_ggml is None
    assert CaseView(pasted(runtime={"name": "exllamav2"})).engine.computes_in_half
    assert not CaseView(pasted(runtime={"name": "Ollama"}, model={"quant": "Q4_K_M"})).engine.computes_in_half


def test_build_numbers_and_dotted_versions_are_parsed():
    assert build_number("b3556") == 3556
    assert build_number("b1-0c1e570") == build_number("b100-0c1e570") == NEWEST  # of a shallow clone
    assert build_number("b9999-0c1e570") == 9999
    assert build_number("0.30.6") == NEWEST
    assert build_number("4567 (3edfa7d)") == 4567
    assert build_number("2024-05-01") == NEWEST  # a day
    assert build_number("2024.5.1") == NEWEST
    assert dotted_version("v0.9.2") == (0, 9, 2)
    assert dotted_version("main") == ()
