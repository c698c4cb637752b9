"""llama.cpp log lines of builds since 2023."""

import pytest

from unslow.facts.values import MIB, Absence, Known
from unslow.look.logs.dialect import LogFacts
from unslow.look.logs.llama_cpp import DIALECT
from unslow.look.logs.stream import LogStream


def seen(text: str) -> LogFacts:
    stream = LogStream({"llama_cpp": DIALECT}, "log")
    stream.feed(text.encode())
    return stream.readers["llama_cpp"].log_facts("log")


LLAMA_2023 = """\
main: build = 1428 (abc1234)
ggml_init_cublas: found 2 CUDA devices:
  Device 0: NVIDIA GeForce RTX 3090, compute capability 8.6
  Device 1: NVIDIA GeForce RTX 3090, compute capability 8.6
llama_model_loader: loaded meta data with 19 key-value pairs and 291 tensors from models/7b.gguf (version GGUF V2)
llama_model_loader: - kv   0:                       general.architecture str              = llama
llama_model_loader: - kv   4:                          llama.block_count u32              = 32
llm_load_print_meta: model ftype      = mostly Q4_K - Medium
llm_load_print_meta: model size       = 3.80 GiB (4.84 BPW)
llm_load_tensors: offloading 20 repeating layers to GPU
llm_load_tensors: offloaded 20/33 layers to GPU
llm_load_tensors:        CPU buffer size =  3891.24 MiB
llm_load_tensors:      CUDA0 buffer size =  2000.00 MiB
llama_new_context_with_model: n_ctx      = 2048
llama_kv_cache_init:  CUDA_Host KV buffer size =   384.00 MiB
llama_new_context_with_model: KV self size  = 1024.00 MiB, K (f16):  512.00 MiB, V (f16):  512.00 MiB
llama_new_context_with_model: graph splits = 148
system_info: n_threads = 8 / 16 | AVX = 1 | AVX_VNNI = 0 | AVX2 = 1 | AVX512 = 0 | FMA = 1 | NEON = 0 | BLAS = 1 |
llama_print_timings:        load time =     576.45 ms
llama_print_timings: prompt eval time =     599.83 ms /    19 tokens (   31.57 ms per token,    31.68 tokens per second)
llama_print_timings:        eval time =   24513.59 ms /   399 runs   (   61.44 ms per token,    16.28 tokens per second)
"""


def test_a_llama_cpp_log_of_late_2023_is_parsed():
    told = seen(LLAMA_2023)
    runtime, model, run = told.subject.runtime, told.subject.model, told.subject.run
    assert runtime.name.need() == "llama.cpp"
    assert runtime.version == Known("b1428-abc1234", runtime.version.origin, "log:1")
    assert (runtime.placement.gpu_layers.need(), runtime.placement.layers.need(), runtime.context.length.need()) == (
        20,
        33,
        2048,
    )
    assert {(b.device, b.kind) for b in runtime.memory.buffers.need()} == {
        ("CPU", "model"),
        ("CUDA0", "model"),
        ("CUDA_Host", "kv"),
    }
    assert (runtime.placement.graph_splits.need(), runtime.compute.threads.need()) == (148, 8)
    assert runtime.build.features.need() == ["AVX", "AVX2", "FMA"]
    assert (model.architecture.need(), model.layers.need(), model.quant.need()) == ("llama", 32, "Q4_K_M")
    assert run.decode_tokens_per_s.need() == pytest.approx(16.28, abs=0.01)
    assert run.load_s.need() == pytest.approx(0.576, abs=0.001)
    assert told.machine.cpu.logical_cpus.need() == 16
    assert [gpu.name.need() for gpu in told.machine.gpus.need()] == ["NVIDIA GeForce RTX 3090"] * 2
    assert told.machine.gpus.need()[0].compute_capability.need() == "8.6"
    assert told.machine.gpus.need()[0].vendor.need() == "NVIDIA"


LLAMA_MIDDLE_OF_2023 = """\
ggml_init_cublas: found 1 CUDA devices:
  Device 0: NVIDIA GeForce RTX 3060, compute capability 8.6
{"timestamp":1695789642,"level":"INFO","function":"main","line":1192,"message":"system info","n_threads":6,\
"total_threads":12,"system_info":"AVX = 1 | AVX2 = 1 | AVX512 = 0 | FMA = 1 | NEON = 0 | BLAS = 1 | SSE3 = 1 | "}
llama_model_load_internal: n_ctx      = 4096
llama_model_load_internal: n_layer    = 80
llama_model_load_internal: n_head_kv  = 8
llama_model_load_internal: ftype      = 2 (mostly Q4_0)
llama_model_load_internal: offloading 20 repeating layers to GPU
llama_model_load_internal: offloaded 20/83 layers to GPU
llama_new_context_with_model: kv self size  =  640.00 MB
"""


def test_a_llama_cpp_log_of_mid_2023_is_parsed():
    told = seen(LLAMA_MIDDLE_OF_2023)
    runtime, model = told.subject.runtime, told.subject.model
    assert (runtime.placement.gpu_layers.need(), runtime.placement.layers.need(), runtime.context.length.need()) == (
        20,
        83,
        4096,
    )
    assert (runtime.compute.threads.need(), told.machine.cpu.logical_cpus.need()) == (6, 12)
    assert runtime.build.features.need() == ["AVX", "AVX2", "FMA", "SSE3"]
    assert (model.layers.need(), model.kv_heads.need(), model.quant.need()) == (80, 8, "Q4_0")


def test_a_version_line_after_the_log_keeps_earlier_facts():
    runtime = seen(LLAMA_2023 + "\nbuild: 1500 (fff1234) with cc for x86_64\n").subject.runtime
    assert runtime.version.need() == "b1500-fff1234"
    assert runtime.placement.gpu_layers.need() == 20
    assert len(runtime.history.loads.need()) == 1


def test_a_second_load_keeps_the_first_in_the_history():
    second = LLAMA_2023.replace("20/33", "5/33").replace("2048", "16384")
    runtime = seen(LLAMA_2023 + second).subject.runtime
    assert (runtime.placement.gpu_layers.need(), runtime.context.length.need()) == (5, 16384)
    past = runtime.history.loads.need()
    assert [load.gpu_layers.need() for load in past] == [20, 5]
    assert [load.context_length.need() for load in past] == [2048, 16384]
    assert [load.source for load in past] == ["log:5", "log:26"]


def test_unannounced_loads_are_separated_by_their_model_file():
    load = (
        "llama_model_loader: loaded meta data with 1 key-value pairs and 2 tensors from {} (version GGUF V3)\n"
        "load_tensors: offloaded {}/33 layers to GPU\n"
        "llama_kv_cache: size =  512.00 MiB (  4096 cells,  32 layers,  1/1 seqs), K (f16): 9.0 MiB, V (f16): 1.0 MiB\n"
    )
    done = (
        "print_timing: eval time =     100.00 ms /    10 tokens (   10.00 ms per token,   100.00 tokens per second)\n"
    )
    runtime = seen(load.format("a", 33) + load.format("a", 20) + done + load.format("b", 10)).subject.runtime
    assert [past.gpu_layers.need() for past in runtime.history.loads.need()] == [33, 20, 10]
    draft = seen(load.format("a", 33) + load.format("small", 12).replace("/33", "/13") + done).subject.runtime
    assert len(draft.history.loads.need()) == 1
    assert draft.placement.layers.need() == 33


def test_the_dry_run_of_the_fit_is_not_a_load():
    part = (
        "llama_model_loader: loaded meta data with 1 key-value pairs and 2 tensors from a (version GGUF V3)\n"
        "print_info: no_alloc              = {}\n"
        "load_tensors: offloaded 33/33 layers to GPU\n"
        "llama_kv_cache: size =  512.00 MiB (  4096 cells,  32 layers,  1/1 seqs), K (f16): 9.0 MiB, V (f16): 1.0 MiB\n"
    )
    assert len(seen(part.format(1) + part.format(0)).subject.runtime.history.loads.need()) == 1
    assert len(seen(part.format(0) + part.format(0)).subject.runtime.history.loads.need()) == 2


@pytest.mark.parametrize(
    ("line", "fact", "value"),
    [
        ("load_tensors: offloading output layer to CPU", "output_on_gpu", False),
        ("load_tensors: offloading output layer to GPU", "output_on_gpu", True),
        ("llm_load_tensors: offloading non-repeating layers to GPU", "output_on_gpu", True),
        (
            "load_tensors: loading model tensors, this can take a while... (load_mode = mmap+mlock)",
            "load_mode",
            "mmap+mlock",
        ),
        ("load_tensors: loading model tensors, this can take a while... (mmap = false)", "load_mode", "none"),
        (
            "common_params_fit_impl: projected to use 61807 MiB of device memory vs. 24077 MiB of free device memory",
            "asked_bytes",
            61807 * MIB,
        ),
        (
            "common_params_fit_impl: projected to use 61807 MiB of device memory vs. 24077 MiB of free device memory",
            "available_bytes",
            24077 * MIB,
        ),
        (
            "slot print_timing: id 0 | task 0 | draft acceptance = 0.34320 (  313 accepted /   912 generated), mean",
            "draft_acceptance",
            0.3432,
        ),
        ("draft acceptance rate = 0.57576 (  171 accepted /   297 generated)", "draft_acceptance", 0.5758),
        ("accept    = 34.320%", "draft_acceptance", 0.3432),
        ("\ttop_k = 0, top_p = 0.950, min_p = 0.050, xtc_probability = 0.000", "top_k", 0),
        ("srv  load_model: loading draft model 'models/small.gguf'", "speculative", "models/small.gguf"),
        ("load_backend: loaded ROCm backend from /app/libggml-hip.so", "backends", ["ROCm"]),
        ("system_info: n_threads = 4 | CUDA : ARCHS = 610,750 | CPU : LLAMAFILE = 1 |", "build_features", []),
        (
            "system_info: n_threads = 4 | CUDA : ARCHS = 610,750 | CPU : AVX = 1 | LLAMAFILE = 1 |",
            "build_architectures",
            ["610", "750"],
        ),
        ('msg=system_info system="CPU : LLAMAFILE = 1 | cgo(gcc)"', "build_features", []),
        (
            '"system_info":"AVX = 1 | AVX2 = 0 | FMA = 1 | NEON = 0 | SSE3 = 1 | "',
            "build_features",
            ["AVX", "FMA", "SSE3"],
        ),
        (
            "slot update_slots: id 3 | task 9 | forcing full prompt re-processing due to lack of cache data (likely",
            "prompts_reprocessed",
            1,
        ),
    ],
)
def test_single_llama_cpp_lines_give_their_fact_and_source(line: str, fact: str, value: object):
    told = seen(line + "\n").subject.runtime.fact(fact)
    assert told.need() == value
    assert told.source == "log:1"


@pytest.mark.parametrize(
    "line",
    [
        "warning: no usable GPU found, --gpu-layers option will be ignored",
        "warning: not compiled with GPU offload support, --n-gpu-layers option will be ignored",
        "ggml_cuda_init: failed to initialize CUDA: no CUDA-capable device is detected",
        "ggml_backend_load_best: failed to load /usr/lib/ollama/libggml-cuda.so",
        "ggml_vulkan: No devices found.",
        "ggml_metal_init: error: failed to initialize the Metal library",
    ],
)
def test_each_gpu_refusal_line_is_recognised(line: str):
    refused = seen(line).subject.runtime.placement.gpu_refused
    assert refused.need() in line


@pytest.mark.parametrize(
    "line",
    [
        "llama_model_loader: tensor overrides to CPU are used with mmap enabled - consider using --load-mode none",
        "warning: failed to mlock 123-byte buffer (after previously locking 0 bytes): Cannot allocate memory",
        "common_fit_params: failed to fit params to free device memory: n_gpu_layers already set by user to 99, abort",
        "llama_context: n_ctx_seq (262144) > n_ctx_train (131072) -- possible training context overflow",
        "sched_reserve: layer 0 is assigned to device CUDA0 but Flash Attention is assigned to device CPU (usually due",
        "NCCL not compiled in; falling back to internal AllReduce.",
        "srv  update_slots: failed to find free space in the KV cache, retrying with smaller batch size, off = 0",
        "slot update_slots: id 0 | task 1 | slot context shift, n_keep = 0, n_left = 10, n_discard = 5",
        "ggml_backend_load_best: failed to load C:\\lib\\ggml-cpu-alderlake.dll",
        "warning: current allocated size is greater than the recommended max working set size",
    ],
)
def test_warnings_are_kept_verbatim(line: str):
    runtime = seen(line).subject.runtime
    [warning] = runtime.history.warnings.need()
    assert warning in line
    assert runtime.history.warnings.source == "log:1"


def test_a_repeated_warning_is_kept_twice_at_most():
    text = "srv update_slots: failed to find free space in the KV cache, retrying\n" * 500
    assert len(seen(text).subject.runtime.history.warnings.need()) == 2


def test_reprocessed_prompts_are_counted_in_a_sampled_log():
    line = (
        "slot update_slots: id 3 | task 9 | forcing full prompt re-processing due to lack of cache data (likely due\n"
    )
    stream = LogStream({"llama_cpp": DIALECT}, "log", exact_bytes=0)
    stream.feed(line.encode() * 5000)
    again = stream.readers["llama_cpp"].log_facts("log").subject.runtime.history.prompts_reprocessed
    assert stream.sampled
    assert (again.need(), again.source) == (5000, "log:5000")


def test_tensor_overrides_by_user_and_by_fit_are_distinguished():
    line = "tensor blk.0.ffn_up_exps.weight (432 MiB q4_K) buffer type overridden to CPU\n"
    fit = "common_init_: fitting params to device memory ...\n"
    abort = "common_fit_params: failed to fit params: model_params::tensor_buft_overrides already set by user, abort\n"
    assert seen(line * 3).subject.runtime.placement.tensor_overrides.need() == ["blk.0.ffn_up_exps.weight=CPU"]
    assert seen(fit + line).subject.runtime.placement.tensor_overrides.absence is Absence.NOT_LOOKED
    assert seen(fit + abort).subject.runtime.placement.tensor_overrides.need() == [
        "tensor_buft_overrides already set by user"
    ]


def test_free_vram_is_kept_for_each_load():
    load = (
        "srv    load_model: loading model 'a.gguf'\n"
        "llama_prepare_model_devices: using device CUDA0 (NVIDIA RTX A) (0000:01:00.0) - {} MiB free\n"
        "load_tensors: offloaded 33/33 layers to GPU\n"
    )
    loads = seen(load.format(23000) + load.format(17000)).subject.runtime.history.loads.need()
    assert [past.free_bytes.need() for past in loads] == [23000 * MIB, 17000 * MIB]


def test_llama_cli_speeds_are_parsed():
    run = seen("[ Prompt: 120.1 t/s | Generation: 8.4 t/s ]").subject.run
    assert (run.prefill_tokens_per_s.need(), run.decode_tokens_per_s.need()) == (120.1, 8.4)


def test_decode_decay_is_the_speed_drop_within_one_completion():
    text = (
        "slot print_timing: id 0 | task 0 | n_gen =    150, tg =  10.00 t/s, tg_3s =   1.00 t/s\n"
        "slot print_timing: id 0 | task 0 | n_gen =    600, tg =  40.00 t/s, tg_3s =  38.00 t/s\n"
        "slot print_timing: id 0 | task 0 | n_gen =    900, tg =  40.00 t/s, tg_3s =  20.00 t/s\n"
        "slot print_timing: id 0 | task 0 |        eval time =   10000.00 ms /   400 tokens (   25.00 ms per token\n"
    )
    assert seen(text).subject.run.decode_decay.need() == 0.5


def test_unaccounted_vram_is_read_only_from_the_final_breakdown():
    row = (
        "common_memory_breakdown_print: |   - CUDA0 (RTX 4090)   | 24077 = 945 + (19187 = 17904 + 384 + 898) + 3945 |\n"
    )
    used = "llama_prepare_model_devices: using device CUDA0 (NVIDIA GeForce RTX 4090) (0000:01:00.0) - 23028 MiB free\n"
    placed = "load_tensors: offloaded 33/33 layers to GPU\n"
    [before] = seen(row + used + placed).subject.runtime.placement.devices.need()
    [after] = seen(used + placed + row).subject.runtime.placement.devices.need()
    assert before.unaccounted_bytes.absence is Absence.NOT_LOOKED
    assert after.unaccounted_bytes.need() == 3945 * MIB


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (
            "ggml_vulkan: 0 = AMD Radeon RX 7900 XTX (RADV NAVI31) (radv) | uma: 0 | fp16: 1 |",
            ["AMD Radeon RX 7900 XTX (RADV NAVI31)"],
        ),
        (
            "ggml_metal_init: found device: Apple M2 Max\nggml_metal_init: picking default device: Apple M2 Max",
            ["Apple M2 Max"],
        ),
        (
            "ggml_metal_init: found device: Apple M2\nload: using device MTL0 (Apple M2) (unknown id) - 100 MiB free",
            ["Apple M2"],
        ),
        (
            "| 0| [level_zero:gpu:0]|                Intel Arc A770 Graphics|   12.55|    512|    1024|   32| 16225M|",
            ["Intel Arc A770 Graphics"],
        ),
        (
            "ggml_cuda_init: found 1 ROCm devices:\n  Device 0: AMD Radeon RX 7900 XT, gfx1100 (0x1100), VMM: no, Wave",
            ["AMD Radeon RX 7900 XT"],
        ),
        (
            "- CUDA0   : NVIDIA RTX A (24077 MiB, 1 MiB free)\n- Vulkan0 : NVIDIA RTX A (24077 MiB, 1 MiB free)",
            ["NVIDIA RTX A"],
        ),
        (
            "- CUDA0   : NVIDIA RTX A (24077 MiB, 1 MiB free)\n- CUDA1   : NVIDIA RTX A (24077 MiB, 1 MiB free)",
            ["NVIDIA RTX A"] * 2,
        ),
    ],
)
def test_gpus_of_every_backend_are_listed(text: str, names: list[str]):
    assert [gpu.name.need() for gpu in seen(text).machine.gpus.need()] == names


def test_cpu_and_ram_are_read_from_device_info():
    machine = seen("device_info:\n  - CPU     : Intel(R) Xeon(R) Processor (128887 MiB, 128887 MiB free)").machine
    assert machine.cpu.model.need() == "Intel(R) Xeon(R) Processor"
    assert machine.memory.total_bytes.need() == 128887 * MIB


def test_kv_buffers_are_parsed_under_every_historic_function_name():
    for prefix in ("llama_kv_cache_init", "llama_kv_cache_unified", "init", "llama_kv_cache"):
        [buffer] = seen(f"{prefix}:      Metal KV buffer size =     9.00 MiB").subject.runtime.memory.buffers.need()
        assert (buffer.device, buffer.kind, buffer.bytes, buffer.on_gpu) == ("Metal", "kv", 9 * MIB, True)


def test_metal_recommended_working_set_is_the_wired_limit():
    machine = seen("ggml_metal_device_init: recommendedMaxWorkingSetSize  = 22906.50 MB").machine
    assert machine.memory.wired_limit_bytes.need() == 22906500000


@pytest.mark.parametrize("text", ["the load time = 5 s", "I am loading model", "build 12 (see above)", "some E mail"])
def test_generic_words_do_not_name_llama_cpp(text: str):
    runtime = seen(text).subject.runtime
    assert runtime.name.absence is Absence.NOT_LOOKED
    assert runtime.placement.gpu_layers.absence is Absence.NOT_LOOKED


@pytest.mark.parametrize(
    "line",
    [
        "load_tensors: offloaded 99999999999999999999/33 layers to GPU",
        "llama_context: n_ctx                 = -5",
        "eval time = nan ms / 10 tokens",
        "eval time = -5.00 ms / 10 tokens",
        "CUDA0 model buffer size = 1e308 MiB",
        "draft acceptance = 9.0 (  900 accepted /   100 generated)",
        "accept    = 999.000%",
        "n_gen = 900, tg = 0.00 t/s, tg_3s = 0.00 t/s",
        "recommendedMaxWorkingSetSize  = 999999999999999999.0 MB",
        "system_info: n_threads = 99999999999999999999",
        "draft acceptance = 0.0 (    0 accepted /     0 generated)",
    ],
)
def test_impossible_numbers_in_log_lines_are_ignored(line: str):
    told = seen(line + "\n")
    assert told.subject.runtime.sampling.draft_acceptance.absence is Absence.NOT_LOOKED
    assert not isinstance(told.subject.run.decode_tokens_per_s, Known)
    assert not isinstance(told.subject.runtime.placement.gpu_layers, Known)
    assert not isinstance(told.machine.memory.wired_limit_bytes, Known)


def test_a_prompt_of_a_few_tokens_that_is_read_again_does_not_count():
    begins = "slot   operator(): id  0 | task 18 | new prompt, n_ctx_slot = 4096, n_keep = 4, task.n_tokens = {}\n"
    again = "slot   operator(): id  0 | task 18 | forcing full prompt re-processing due to lack of cache data (likely\n"
    text = begins.format(1) + again + begins.format(900) + again
    assert seen(text).subject.runtime.history.prompts_reprocessed.need() == 1


def test_a_server_that_ends_with_a_loading_error_has_failed():
    text = "srv    load_model: loading model '/m.gguf'\nsrv  llama_server: exiting due to model loading error\n"
    assert seen(text).subject.runtime.state.need() == "failed"
