"""Pastes about memory placement: which cause triage names, and what it must not claim."""

from unslow.commands.triage.pasted_text import triage
from unslow.think.report import SubjectReport


def told(text: str) -> SubjectReport:
    return triage([text.encode()], "paste").report.subjects[0]


def first(text: str) -> str:
    return next((finding.cause for finding in told(text).findings), "")


def suspected(text: str) -> set[str]:
    return {untold.cause for untold in told(text).cannot_tell if untold.suspected}


EXPERTS = """llama-server -m Qwen3-30B-A3B-Q4_K_M.gguf --cpu-moe -ngl 99 -c 16384
llama_model_load_from_file_impl: using device CUDA0 (NVIDIA GeForce RTX 3060) - 11210 MiB free
load_tensors: offloaded 49/49 layers to GPU
load_tensors:        CUDA0 model buffer size =   1005.43 MiB
load_tensors:   CPU_Mapped model buffer size = 17524.42 MiB
eval time =   12340.40 ms /   310 tokens (   39.81 ms per token,    25.12 tokens per second)
"""
HOT = """ollama, llama3.1 8b falls to 9 t/s after 2 min
==============NVSMI LOG==============
Driver Version                            : 550.120
Attached GPUs                             : 1
GPU 00000000:01:00.0
    Product Name                          : NVIDIA GeForce RTX 3080 Ti Laptop GPU
    Performance State                     : P0
    Clocks Event Reasons
        Idle                              : Not Active
        HW Slowdown                       : Active
            HW Thermal Slowdown           : Active
        SW Thermal Slowdown               : Active
    Temperature
        GPU Current Temp                  : 94 C
    Clocks
        Graphics                          : 510 MHz
        SM                                : 510 MHz
    Max Clocks
        Graphics                          : 2100 MHz
        SM                                : 2100 MHz
"""
METAL = """MacBook Pro M3 Max 36GB, llama.cpp
load_tensors: offloaded 81/81 layers to GPU
load_tensors: Metal_Mapped model buffer size = 40543.11 MiB
ggml_metal_log_allocated_size: warning: current allocated size is greater than the recommended max working set size
eval time =  129120.11 ms /    63 runs   ( 2049.52 ms per token,     0.49 tokens per second)
"""


def test_experts_on_cpu_count_as_weights(wording):
    finding = told(EXPERTS).findings[0]
    assert finding.cause == "experts_on_cpu"
    wording(finding.because, tells="17")


def test_empty_cuda_visible_devices_hides_the_gpus():
    unit = (
        'Environment="CUDA_VISIBLE_DEVICES="\nExecStart=/bin/llama-server -m Llama-3.3-70B-Instruct-Q4_K_M.gguf -ngl 99'
    )
    assert first(f"{unit}\nit makes 0.4 tokens per second. 2x RTX 3090 inside.") == "gpu_backend_not_loaded"


def test_unobserved_free_vram_is_not_claimed():
    log = "llm_load_print_meta: model size = 7.33 GiB (4.83 BPW)\nllm_load_tensors: offloaded 20/41 layers to GPU\n"
    report = told(f"{log}RTX 3090, ./main -m llama-2-13b-chat.Q4_K_M.gguf -ngl 20 -c 4096, 8.5 tokens per second")
    assert report.findings[0].cause == "gpu_layers_set_too_low"
    assert "free" not in report.findings[0].because


def test_failed_cuda_library_means_no_gpu_backend():
    log = (
        'level=WARN msg="cuda driver library init failure: 999"\nlevel=INFO msg="no compatible GPUs were discovered"\n'
    )
    assert first(f"{log}after suspend ollama is super slow. GTX 1080 Ti") == "gpu_backend_not_loaded"


def test_missing_flash_attention_is_not_type_without_gpu_kernel():
    log = 'time=2025-03-02T10:00:00.000Z level=WARN msg="flash attention enabled but not supported by gpu"'
    assert first(f"{log}\nGTX 1070, ollama, llama3.1 8b, 6.5 tok/s") != "type_without_gpu_kernel"


def test_one_slow_load_is_not_suspected_to_repeat():
    spoken = "total duration: 34.2s\nload duration: 31.9s\neval count: 120 token(s)\neval duration: 2.1s\n"
    assert "model_reloads_between_requests" not in suspected(f"{spoken}eval rate: 57.14 tokens/s")


def test_throttle_reason_listed_by_the_driver_is_thermal_throttling():
    assert first(HOT) == "gpu_thermal_throttling"


def test_metal_overallocation_is_unified_memory_pressure():
    assert first(METAL) == "unified_memory_pressure"


def test_device_map_with_cpu_is_a_spill():
    text = "{'model.embed_tokens': 0, 'model.layers.0': 0, 'model.layers.1': 'cpu', 'model.layers.2': 'disk'}"
    assert first(f"{text}\ntransformers, Tesla T4, 0.4 tokens per second") == "weights_spill_to_ram"


def test_flags_of_the_ollama_runner_are_not_user_settings():
    line = "ollama runner --ollama-engine --ctx-size 40960 --n-gpu-layers 17 --threads 20 --parallel 5"
    assert first(f"{line}\n2x RTX 5060 Ti 16GB, gpt-oss:20b is slow") != "gpu_layers_set_too_low"


def test_shared_gpu_memory_in_prose_is_a_driver_spill():
    text = "LM Studio, Intel Arc B580 12GB, Windows 11, Qwen2.5 14B Q4_K_M, 3.3 tok/s\nGPU offload 48/48\n"
    assert first(f"{text}GPU memory tab says: dedicated 0.8 GB, shared 9.6 GB") == "driver_spills_to_shared_memory"
