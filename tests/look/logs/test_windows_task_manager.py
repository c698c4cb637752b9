import pytest

from unslow.facts.values import NOT_LOOKED, Unknown
from unslow.look.logs.dialect import Text
from unslow.look.logs.windows import parse_task_manager, parse_task_manager_text

GIB = 1024**3

# as people paste it: with tabs and blank lines, in a country of decimal commas, and typed from the screen
COPIED = """\
GPU 0

\tNVIDIA GeForce GTX 1660 SUPER

\tDriver version:\t30.0.14.7121
\tDriver date:\t6/29/2021
\tDirectX version:\t12 (FL 12.1)
\tPhysical location:\tPCI bus 10, device 0, function 0

\tUtilization\t2%
\tDedicated GPU memory\t1.2/6.0 GB
\tShared GPU memory\t0.1/16.0 GB
\tGPU Memory\t1.3/22.0 GB
"""
COMMAS = """\
GPU 0

\tNVIDIA GeForce RTX 3060 Laptop GPU

\tPhysical location:\tPCI bus 1, device 0, function 0

\tDedicated GPU memory\t0,1/6,0 GB
\tShared GPU memory\t0,0/6,9 GB
\tGPU Memory\t0,1/12,9 GB

GPU 1

\tAMD Radeon(TM) Graphics

\tPhysical location:\tPCI bus 6, device 0, function 0

\tDedicated GPU memory\t0,5/2,0 GB
\tShared GPU memory\t0,1/6,9 GB
"""
BUILT_IN = """\
GPU 0
\tIntel(R) Iris(R) Xe Graphics
\tUtilization\t2%
\tDedicated GPU memory\t
\tShared GPU memory\t0.8/31.8 GB
\tGPU Memory\t0.8/31.8 GB

GPU 1
\tNVIDIA RTX 4000 Ada Generation Laptop GPU
\tUtilization\t0%
\tDedicated GPU memory\t0.0/12.0 GB
\tShared GPU memory\t0.0/31.8 GB
"""
TYPED = "data:RTX3070 Utilization:7% Dedicated GPU memory: 5.5/8.0G Shared GPU memory: 0.1/8.0G\nGPU memory: 5.6/16G"
IN_A_SENTENCE = "Task Manager shows Dedicated GPU memory 7.8/8.0 GB  Shared GPU memory 3.1/15.9 GB while it runs"


def test_a_copied_task_manager_page_is_parsed():
    (gpu,) = parse_task_manager(COPIED)
    assert (gpu.index, gpu.name.need(), gpu.vendor.need()) == (0, "NVIDIA GeForce GTX 1660 SUPER", "NVIDIA")
    assert (gpu.driver.need(), gpu.bus_id.need(), gpu.busy.need()) == ("30.0.14.7121", "0000:0a:00.0", 0.02)
    assert (gpu.vram_used_bytes.need(), gpu.vram_total_bytes.need()) == (round(1.2 * GIB), 6 * GIB)
    assert (gpu.shared_used_bytes.need(), gpu.shared_total_bytes.need()) == (round(0.1 * GIB), 16 * GIB)
    assert gpu.shared_used_bytes.source == "Task Manager:12"


def test_task_manager_pages_with_decimal_commas_are_parsed():
    first, second = parse_task_manager(COMMAS)
    assert (first.vram_total_bytes.need(), first.shared_total_bytes.need()) == (6 * GIB, round(6.9 * GIB))
    assert (second.index, second.vendor.need(), second.bus_id.need()) == (1, "AMD", "0000:06:00.0")
    assert second.vram_used_bytes.need() == round(0.5 * GIB)


def test_an_integrated_gpu_in_task_manager_has_no_vram_total():
    built_in, card = parse_task_manager(BUILT_IN)
    assert (built_in.kind.need(), built_in.shared_used_bytes.need()) == ("integrated", round(0.8 * GIB))
    assert isinstance(built_in.vram_total_bytes, Unknown)
    assert (card.index, card.vram_total_bytes.need()) == (1, 12 * GIB)


@pytest.mark.parametrize(("text", "dedicated", "shared"), [(TYPED, 5.5, 0.1), (IN_A_SENTENCE, 7.8, 3.1)])
def test_typed_task_manager_values_are_parsed(text: str, dedicated: float, shared: float):
    (gpu,) = parse_task_manager(text)
    assert gpu.vram_used_bytes.need() == round(dedicated * GIB)
    assert gpu.shared_used_bytes.need() == round(shared * GIB)
    assert gpu.vendor == NOT_LOOKED


@pytest.mark.parametrize(
    ("sentence", "gib"),
    [("when I run it, it is still using 20+ GB of shared GPU memory", 20), ("it used 3.5 GB of the shared VRAM", 3.5)],
)
def test_shared_gpu_memory_in_a_sentence_is_parsed(sentence: str, gib: float):
    (gpu,) = parse_task_manager_text(Text([sentence], "post.md")).machine.gpus.need()
    assert gpu.shared_used_bytes.need() == round(gib * GIB)


@pytest.mark.parametrize("sentence", ["I have 16 GB of shared memory", "using 8 GB VRAM, shared GPU memory is empty"])
def test_sentences_without_shared_gpu_memory_in_use_are_ignored(sentence: str):
    assert parse_task_manager_text(Text([sentence], "post.md")).lines == 0


def test_task_manager_is_found_amid_prose():
    lines = ["llama-server is slow on Windows.", *COPIED.splitlines(), "", "Is that normal?"]
    seen = parse_task_manager_text(Text(lines, "post.md"))
    (gpu,) = seen.machine.gpus.need()
    assert (gpu.name.need(), gpu.shared_used_bytes.source) == ("NVIDIA GeForce GTX 1660 SUPER", "post.md:13")
    assert seen.spans == ()


@pytest.mark.parametrize(
    "text", ["", "GPU 0", "Dedicated GPU memory", "Shared GPU memory 1/", "Dedicated GPU memory " * 10**4]
)
def test_garbage_and_truncated_task_manager_text_gives_no_vram(text: str):
    for gpu in parse_task_manager(text):
        assert isinstance(gpu.vram_used_bytes, Unknown)
