"""Whether a GPU is reached, and by which kernels, by what reports tell."""

from answers import ask
from told import compares, pasted, says

from unslow.facts.account import Topic
from unslow.facts.runtime import Runtime
from unslow.facts.values import GB, GIB, told_fact
from unslow.think.causes._cause import CannotTell, Found

CARD = ["RTX 3090"]
IDLE = says(Topic.GPU_UNUSED, "no GPU offload to be seen")


def test_layers_were_asked_for_and_none_came():
    asked = {"name": "llama-cpp-python", "gpu_layers_set": 20}
    assert isinstance(ask("gpu_backend_not_loaded", pasted(IDLE, gpus=CARD, runtime=asked)), Found)
    assert isinstance(ask("gpu_backend_not_loaded", pasted(IDLE, gpus=CARD)), CannotTell)
    since = pasted(IDLE, gpus=CARD, runtime=asked, version_since="0.3.0")
    assert isinstance(ask("gpu_backend_not_loaded", since), CannotTell)


def test_a_library_that_is_not_there():
    absent = says(Topic.GPU_LIBRARY_ABSENT, "ls: cannot access libggml-cuda.so: No such file or directory")
    assert isinstance(ask("gpu_backend_not_loaded", pasted(absent, gpus=CARD)), Found)
    assert isinstance(ask("gpu_backend_not_loaded", pasted(absent)), CannotTell)


def test_a_gpu_that_went_away():
    lost = says(Topic.GPU_LOST, "driver upgraded while it was running")
    assert isinstance(ask("gpu_backend_not_loaded", pasted(lost, IDLE, gpus=CARD)), Found)
    assert isinstance(ask("gpu_backend_not_loaded", pasted(lost, gpus=CARD)), CannotTell)


def test_a_container_without_its_gpu():
    closed = says(Topic.GPU_NOT_PASSED, "docker run -d ollama/ollama")
    assert isinstance(ask("gpu_backend_not_loaded", pasted(closed, IDLE, gpus=CARD)), Found)
    assert isinstance(ask("gpu_backend_not_loaded", pasted(closed, gpus=CARD)), CannotTell)


def test_the_backend_of_the_cpu_is_loaded_last():
    backends = {"name": "llama.cpp", "backends": ["RPC", "CPU"]}
    assert isinstance(ask("gpu_backend_not_loaded", pasted(IDLE, gpus=CARD, runtime=backends)), Found)
    assert isinstance(ask("gpu_backend_not_loaded", pasted(gpus=CARD, runtime=backends)), CannotTell)


def test_a_card_without_code_and_a_cpu_at_work():
    old = {"name": "Ollama", "version": "0.4.7", "vram_share": 0.0}
    assert isinstance(ask("gpu_architecture_unsupported", pasted(gpus=["Tesla K80"], runtime=old)), Found)
    assert not isinstance(ask("gpu_architecture_unsupported", pasted(gpus=CARD, runtime=old)), Found)


def test_a_drivers_own_words():
    printed = says(Topic.GPU_NOT_SUPPORTED, "CUDA error: no kernel image is available for execution on the device")
    guess = says(Topic.GPU_NOT_SUPPORTED, "maybe my GPU is not supported")
    assert isinstance(ask("gpu_architecture_unsupported", pasted(printed, gpus=CARD)), Found)
    assert isinstance(ask("gpu_architecture_unsupported", pasted(guess, gpus=CARD)), CannotTell)


def test_an_operation_that_the_backend_lacks():
    said = says(Topic.OPERATION_ON_CPU, "list of unsupported ops (backend=SYCL0): UPSCALE")
    assert isinstance(ask("type_without_gpu_kernel", pasted(said, gpus=["Arc A770"])), Found)


def test_flash_attention_of_an_early_vulkan():
    trial = compares(Topic.FLASH_ATTENTION, 30, 60, "-fa halves it")
    early = {"name": "llama.cpp", "version": "b3772", "backends": ["Vulkan"], "flash_attention": True}
    case = pasted(trial, gpus=["RX 6800 XT"], runtime=early)
    assert isinstance(ask("type_without_gpu_kernel", case), Found)
    later = early | {"version": "b6000"}
    assert not isinstance(ask("type_without_gpu_kernel", pasted(trial, gpus=["RX 6800 XT"], runtime=later)), Found)


def test_packed_weights_that_are_slower_than_plain_ones():
    trial = compares(Topic.QUANT_TYPE, 5, 22, "load_in_8bit=True: 5 tok/s, fp16: 22 tok/s")
    engine = {"name": "Transformers"}
    assert isinstance(ask("slow_kernel_for_architecture", pasted(trial, gpus=CARD, runtime=engine)), Found)
    usual = compares(Topic.QUANT_TYPE, 5, 22, "fp16: 5 tok/s, load_in_4bit: 22 tok/s")
    assert not isinstance(ask("slow_kernel_for_architecture", pasted(usual, gpus=CARD, runtime=engine)), Found)


def test_a_format_without_a_kernel_and_a_fraction_of_the_speed():
    said = says(Topic.NO_FAST_KERNEL, "kernels for affine only")
    far = compares(Topic.DEVICE, 0.9, 15, "0.9 tok/s, roofline 15")
    assert isinstance(ask("slow_kernel_for_architecture", pasted(said, far, gpus=["NVIDIA GB10"])), Found)
    assert not isinstance(ask("slow_kernel_for_architecture", pasted(said, gpus=["NVIDIA GB10"])), Found)


def test_a_renderer_in_software():
    said = says(Topic.WRONG_GPU, "Vulkan0: llvmpipe (LLVM 15.0.7, 256 bits)")
    assert isinstance(ask("wrong_device_selected", pasted(said, gpus=["Quadro K2000M"])), Found)
    warned = {"warnings": ["Device type is CPU. This is probably not the device you want."]}
    assert isinstance(ask("wrong_device_selected", pasted(gpus=["Quadro K2000M"], runtime=warned)), Found)


def test_the_wrong_one_of_several():
    said = says(Topic.WRONG_GPU, "the model loads on the wrong GPU")
    assert isinstance(ask("wrong_device_selected", pasted(said, gpus=["NVIDIA GPU", "NVIDIA GPU"])), Found)
    assert isinstance(ask("wrong_device_selected", pasted(said, gpus=["NVIDIA GPU"])), CannotTell)


def test_an_integrated_gpu_by_intels_long_name():
    used = {"device_used": "Intel(R) RaptorLake-S Mobile Graphics Controller"}
    assert isinstance(ask("wrong_device_selected", pasted(gpus=["RTX 5070"], runtime=used)), Found)


def mac(name: str, *said, total: int = 0, **memory):
    case = pasted(
        *said, gpus=[name], system="macOS", runtime={"name": "MLX-LM"}, model={"weights_bytes": 13_480_000_000}
    )
    known = {key: told_fact(value, "p") for key, value in (memory | ({"total_bytes": total} if total else {})).items()}
    machine = case.machine.__class__(
        system=case.machine.system, gpus=case.machine.gpus, memory=case.machine.memory.__class__(**known)
    )
    return case.__class__(machine=machine, runtime=case.runtime, model=case.model, account=case.account)


def test_more_than_a_chip_was_ever_sold_with():
    assert isinstance(ask("unified_memory_pressure", mac("Apple M1")), Found)
    assert not isinstance(ask("unified_memory_pressure", mac("Apple M1 Max")), Found)


def test_gigabytes_in_the_compressor():
    packed = mac("Apple M4 Max", total=128 * GIB, compressed_bytes=65 * GIB)
    assert isinstance(ask("unified_memory_pressure", packed), Found)
    usual = mac("Apple M4 Max", total=128 * GIB, compressed_bytes=2 * GIB)
    assert not isinstance(ask("unified_memory_pressure", usual), Found)


def test_swap_that_a_growing_process_fills():
    swap = says(Topic.SWAPPING, "swap in use")
    assert isinstance(ask("unified_memory_pressure", mac("Apple M1", swap, total=16 * GB)), Found)
    assert not isinstance(ask("unified_memory_pressure", mac("Apple M1 Max", swap, total=64 * GIB)), Found)


def test_a_build_for_another_processor():
    case = mac("Apple M1 Max", total=64 * GIB)
    lacking = case.__class__(
        machine=case.machine,
        runtime=Runtime().with_facts(build_features=told_fact(["SSE3"], "p"), gpu_layers_set=told_fact(0, "p")),
        account=case.account,
    )
    assert isinstance(ask("generic_cpu_build", lacking), Found)


def test_a_disk_that_was_watched_beats_a_sum():
    seen = says(Topic.DISK_BUSY_WHILE_GENERATING, "reading from disk at 140 MB/s during generation")
    case = mac("Apple M1 Max", seen, total=64 * GIB)
    assert isinstance(ask("weights_streamed_from_disk", case), Found)
