"""Wordings for an unreachable GPU, layers that are left out, and whose memory is meant."""

import pytest

from unslow.facts.account import Topic
from unslow.facts.values import GB, GIB, MIB
from unslow.think.text.prose import read_words


def topics(line: str) -> set[Topic]:
    return {
        remark.topic for remark in read_words([line], "r").subject.account.remarks.value_or(()) if not remark.denied
    }


@pytest.mark.parametrize(
    "line",
    [
        'msg="no nvidia devices detected" library=/usr/lib/libcuda.so.550',
        "Mission control: 0 GPUs detected, 0 VRAM",
        "runtime: Vulkan llama.cpp v1.12.0 [Error surveying hardware]",
        "Available devices:  (none)",
        'after: msg="Dynamic LLM libraries" runners=[cpu]',
        'msg="Dynamic LLM libraries [cpu cpu_avx cpu_avx2]"',
        "docker: Error response: could not select device driver with capabilities: [[gpu]]",
        "Failed to initialize NVML: Driver/library version mismatch",
        "AssertionError: Torch not compiled with CUDA enabled",
        "RuntimeError: No HIP GPUs are available",
        "warning: no usable GPU found, --gpu-layers option will be ignored",
        "libcuda.so.1: cannot open shared object file: No such file or directory",
        "cuda available: False",
        "ERROR: nvidia-smi has failed because it couldn't communicate with the driver",
    ],
)
def test_refused_gpu_is_recognized(line):
    assert read_words([line], "r").subject.runtime.placement.gpu_refused.value_or("")


@pytest.mark.parametrize(
    "line",
    [
        'msg="Dynamic LLM libraries [cpu cpu_avx cuda_v11 cuda_v12 rocm_v60102]"',
        "2 GPUs detected, 48 GB VRAM",
        "10 GPUs detected",
        "cuda available: True",
        "2025-01-01 10:00:00 DEBUG no nvidia devices detected",
    ],
)
def test_working_gpu_is_not_recognized_as_refused(line):
    assert not read_words([line], "r").subject.runtime.placement.gpu_refused.value_or("")


@pytest.mark.parametrize(
    ("line", "topic"),
    [
        ("started without --n-gpu-layers", Topic.LAYERS_UNSET),
        ("./koboldcpp --usecublas (no --gpulayers)", Topic.LAYERS_UNSET),
        ("LlamaCpp(model_path=path, n_gpu_layer=-1)", Topic.LAYERS_UNSET),
        ("num_gpu 256 in Open WebUI loads everything into VRAM", Topic.LAYERS_FIT_BY_HAND),
        ("manually forcing num_gpu 99 fits everything", Topic.LAYERS_FIT_BY_HAND),
        ("llama-server loads 94/94 at the same context", Topic.LAYERS_FIT_BY_HAND),
        ("list of unsupported ops (backend=SYCL0): UPSCALE", Topic.OPERATION_ON_CPU),
        (
            "WARNING: Some parameters are on the meta device because they were offloaded to the cpu",
            Topic.WEIGHTS_ON_HOST,
        ),
        ("docker run -d -p 11434:11434 ollama/ollama", Topic.GPU_NOT_PASSED),
        ("nvidia-container-toolkit was not installed", Topic.GPU_NOT_PASSED),
        ("two services share the same GPUs", Topic.GPU_SHARED),
        ("GPU util about 100%, memory bandwidth about 2%", Topic.MEMORY_BUS_IDLE),
        ("it loads on the wrong GPU", Topic.WRONG_GPU),
        ("GPU 0 (Intel) at 100% and GPU 1 (NVIDIA) at 0%", Topic.WRONG_GPU),
        ("Vulkan0: llvmpipe (LLVM 15.0.7, 256 bits)", Topic.WRONG_GPU),
        ("the driver was upgraded while ollama was running", Topic.GPU_LOST),
        ("quantized dispatch has kernels for affine only", Topic.NO_FAST_KERNEL),
        ("9300MiB used by python (ComfyUI)", Topic.OTHER_VRAM_USER),
        ("library compiled without Arm dot-product extensions", Topic.MISSING_INSTRUCTIONS),
        ("python is x86_64 and runs under Rosetta", Topic.MISSING_INSTRUCTIONS),
        ("disk reads 40 MB/s all through inference", Topic.DISK_BUSY_WHILE_GENERATING),
    ],
)
def test_gpu_observations_give_their_topic(line, topic):
    assert topic in topics(line)


@pytest.mark.parametrize(
    ("line", "topic"),
    [
        ("the GPU is not fully used with any model", Topic.GPU_UNUSED),
        ("docker run --gpus all -d ollama/ollama", Topic.GPU_NOT_PASSED),
        ("docker run --device /dev/kfd --device /dev/dri -d ollama/ollama:rocm", Topic.GPU_NOT_PASSED),
        ("6000MiB used by ollama", Topic.OTHER_VRAM_USER),
        ("memory bandwidth about 80%", Topic.MEMORY_BUS_IDLE),
    ],
)
def test_near_misses_do_not_give_the_topic(line, topic):
    assert topic not in topics(line)


def test_nvidia_smi_fragments_belong_to_one_gpu_each():
    told = read_words(["Hardware: 2x Tesla P40 24GB", "nvidia-smi: 6097MiB /  24576MiB, 5419MiB /  24576MiB"], "r")
    assert [gpu.vram_used_bytes.need() for gpu in told.machine.gpus.need()] == [6097 * MIB, 5419 * MIB]


def test_missing_fragments_leave_later_gpus_unknown():
    told = read_words(["Hardware: 2x Tesla P40 24GB", "nvidia-smi: 6097MiB /  24576MiB"], "r")
    assert [gpu.vram_used_bytes.value_or(None) for gpu in told.machine.gpus.need()] == [6097 * MIB, None]


def test_free_vram_of_each_gpu_is_read():
    told = read_words(["Hardware: 4 GPUs, 22.0 GiB available each"], "r")
    assert [gpu.vram_free_bytes.need() for gpu in told.machine.gpus.need()] == [22 * GIB] * 4


def test_unnamed_gpu_may_have_a_size():
    gpus = read_words(["Hardware: 24GB GPU"], "r").machine.gpus.need()
    assert [gpu.vram_total_bytes.need() for gpu in gpus] == [24 * GIB]


def test_radeon_780m_is_a_gpu_and_not_a_model():
    told = read_words(["Hardware: Ryzen 7840U with Radeon 780M"], "r")
    assert not told.subject.model.name.value_or("")
    assert len(told.machine.gpus.need()) == 1


def test_free_ram_is_not_total_ram():
    told = read_words(["Hardware: M2 Pro 16GB", "only 5.3 GB of RAM is available"], "r")
    assert told.machine.memory.total_bytes.need() == 16 * GIB


def test_mac_memory_after_the_name_is_read():
    assert read_words(["Hardware: M1 Mac 64GB"], "r").machine.memory.total_bytes.need() == 64 * GIB


def test_ollama_default_quant_gives_the_weight_size():
    weights = read_words(["Runtime: ollama", "Model: llama3.1:8b"], "r").subject.model.weights_bytes.need()
    assert 4.3 * GB < weights < 5.3 * GB
    assert not read_words(["Runtime: llama.cpp", "Model: llama3.1:8b"], "r").subject.model.weights_bytes.value_or(0)


def test_model_split_between_vram_and_ram_is_read():
    runtime = read_words(["32 GB of 40 GB in VRAM", "model has 81 layers"], "r").subject.runtime
    assert (runtime.memory.size_vram_bytes.need(), runtime.memory.size_bytes.need()) == (32 * GB, 40 * GB)
    assert runtime.placement.layers.need() == 81


def test_device_named_as_used_is_read():
    runtime = read_words(["it uses the RX 6400 instead of the RX 7900 XT"], "r").subject.runtime
    assert runtime.placement.device_used.need() == "rx 6400"
