from pathlib import Path

import pytest

from unslow.facts.snapshot import Snapshot, Subject, dump_snapshot, parse_snapshot
from unslow.facts.values import GIB, MIB, Absence, Known, Origin, Unknown
from unslow.look.logs.llama_cpp import LlamaLog, parse_head_and_tail, parse_log

MACHINES = Path(__file__).parents[2] / "machines"


def recorded(name: str) -> LlamaLog:
    text = (MACHINES / f"h200_llama_server_{name}" / "server.log").read_text(encoding="utf-8")
    return parse_log(text.split("\n"), "server.log")


def parsed(text: str) -> LlamaLog:
    return parse_log(text.split("\n"), "log")


def buffers(log: LlamaLog) -> dict[tuple[str, str], float]:
    return {(b.device, b.kind): round(b.bytes / MIB, 2) for b in log.runtime.memory.buffers.need()}


def test_a_healthy_server_log_gives_all_facts():
    log = recorded("healthy_full_gpu")
    runtime, model = log.runtime, log.model
    assert runtime.placement.gpu_layers == Known(33, Origin.REPORTED, "server.log:122")
    assert runtime.placement.layers.need() == 33
    assert runtime.version == Known("b9999-b21e4de", Origin.REPORTED, "server.log:1")
    assert runtime.process.log_level.need() == 4
    assert (runtime.context.length.need(), runtime.scheduling.slots.need(), runtime.context.per_slot.need()) == (
        131072,
        4,
        131072,
    )
    assert (runtime.cache.unified.need(), runtime.compute.flash_attention.need(), runtime.placement.fit.need()) == (
        True,
        True,
        True,
    )
    assert (runtime.compute.batch.need(), runtime.compute.ubatch.need(), runtime.compute.threads.need()) == (
        2048,
        512,
        16,
    )
    assert (runtime.cache.type_k.need(), runtime.cache.bytes.need(), runtime.cache.cells.need()) == (
        "f16",
        16 * GIB,
        131072,
    )
    assert runtime.placement.fit_margin_bytes.need() == GIB
    assert runtime.placement.overflowing_layers.need() == 0
    assert runtime.placement.graph_splits.need() == 2
    assert runtime.build.backends.need() == ["CUDA", "CPU"]
    assert runtime.state.need() == "loaded"
    assert runtime.memory.allocation_failure.absence is Absence.NOT_FOUND
    assert runtime.placement.gpu_refused.absence is Absence.NOT_FOUND
    assert (model.architecture.need(), model.name.need(), model.quant.need()) == ("llama", "llama8b", "Q4_K_M")
    assert (model.layers.need(), model.heads.need(), model.kv_heads.need(), model.width.need()) == (32, 32, 8, 4096)
    assert (model.key_length.need(), model.value_length.need(), model.vocabulary.need()) == (128, 128, 128256)
    assert model.weights_bytes == Known(round(4.58 * GIB), Origin.ESTIMATED, "server.log:56")
    assert model.parameters.need() == 8_030_000_000
    assert log.run.load_s.need() == pytest.approx(1.709, abs=0.001)


def test_device_total_and_free_vram_are_those_before_the_load():
    [device] = recorded("spill_other_process_holds_vram").runtime.placement.devices.need()
    assert (device.name, device.description) == ("CUDA0", "NVIDIA H200")
    assert device.total_bytes == Known(143155 * MIB, Origin.REPORTED, "server.log:4")
    assert device.free_bytes == Known(4503 * MIB, Origin.REPORTED, "server.log:87")


def test_partial_offload_keeps_buffers_per_device_and_no_token_table():
    log = recorded("gpu_layers_set_too_low")
    assert buffers(log) == {
        ("CPU_Mapped", "model"): 2322.49,
        ("CUDA0", "model"): 2773.80,
        ("CUDA_Host", "output"): 1.96,
        ("CPU", "kv"): 416.0,
        ("CUDA0", "kv"): 608.0,
        ("CUDA0", "compute"): 129.5,
        ("CUDA_Host", "compute"): 24.01,
    }
    assert {b.device for b in log.runtime.memory.buffers.need() if b.on_gpu} == {"CUDA0"}
    assert log.model.token_table_bytes.absence is Absence.NOT_LOOKED


def test_with_full_offload_the_host_buffer_is_the_token_table():
    table = recorded("healthy_full_gpu").model.token_table_bytes
    assert table == Known(round(281.81 * MIB), Origin.ESTIMATED, "server.log:123")


def test_completions_keep_token_counts_and_seconds():
    done = recorded("healthy_full_gpu").run.completions.need()
    assert [(c.prompt_tokens, c.generated_tokens) for c in done] == [(36, 8), (36, 128), (36, 128)]
    assert (done[1].generated_tokens - 1) / done[1].decode_s == pytest.approx(219.25, abs=0.01)


def test_a_failed_kv_cache_allocation_is_reported():
    log = recorded("kv_cache_allocation_fails")
    failure = log.runtime.memory.allocation_failure.need()
    assert (failure.device, failure.what, failure.asked_bytes.need()) == ("CUDA0", "kv_cache", 17179869184)
    assert failure.message == "allocating 16384.00 MiB on device 0: cudaMalloc failed: out of memory"
    assert log.runtime.state.need() == "failed"


@pytest.mark.parametrize(
    ("name", "what", "asked"),
    [
        ("weights_allocation_fails", "weights", 4617396224),
        ("compute_buffer_allocation_fails", "compute_buffer", 4731224192),
    ],
)
def test_failed_weight_and_compute_allocations_are_reported(name, what, asked):
    failure = recorded(name).runtime.memory.allocation_failure.need()
    assert (failure.device, failure.what, failure.asked_bytes.need()) == ("CUDA0", what, asked)


def test_a_hidden_gpu_is_refused_and_has_no_device():
    log = recorded("cuda_hidden")
    assert log.runtime.placement.gpu_refused.need().endswith("no CUDA-capable device is detected")
    assert log.runtime.placement.devices.need() == []
    assert not any(b.on_gpu for b in log.runtime.memory.buffers.need())


def test_the_driver_error_wins_over_the_ignored_layers_warning():
    assert "failed to initialize CUDA" in recorded("cuda_hidden_ngl_99").runtime.placement.gpu_refused.need()


def test_default_verbosity_hides_layers_and_says_how_to_get_them():
    runtime = recorded("healthy_default_verbosity").runtime
    assert runtime.placement.gpu_layers.absence is Absence.NOT_FOUND
    assert "-lv 4" in runtime.placement.gpu_layers.how_to_get
    assert runtime.state.need() == "loaded"
    assert runtime.scheduling.slots.need() == 4


def test_overflowing_expert_layers_are_counted():
    log = recorded("moe_spill_stranger")
    assert (log.runtime.placement.gpu_layers.need(), log.runtime.placement.layers.need()) == (49, 49)
    assert log.runtime.placement.overflowing_layers.need() == 23
    assert (log.model.experts.need(), log.model.experts_used.need(), log.model.expert_width.need()) == (128, 8, 768)
    assert log.model.token_table_bytes.absence is Absence.NOT_LOOKED


@pytest.mark.parametrize(
    ("line", "splits"),
    [
        ("sched_reserve: graph splits = 2", 2),
        ("sched_reserve: graph splits = 148 (with bs=512), 69 (with bs=1)", 69),
        ("sched_reserve: graph (pp bs=512, tg bs=4): nodes = 998 / 998, splits = 46 / 3, input objects = 4 / 4", 3),
        ("sched_reserve: graph: nodes = 939, splits = 1, input objects = 4, input tensors = 9", 1),
    ],
)
def test_graph_splits_for_one_token_are_parsed_in_every_format(line, splits):
    assert parsed(line).runtime.placement.graph_splits.need() == splits


OLD = """\
Sep 11 01:16:15 host llama[1884]: main: build = 3400 (97bdd26e)
llama_model_loader: loaded meta data with 29 key-value pairs and 292 tensors from /models/old.gguf (version GGUF V3)
llm_load_print_meta: arch             = llama
llm_load_print_meta: n_head_kv        = 8
llm_load_print_meta: model ftype      = Q6_K
llm_load_print_meta: model params     = 70.55 B
llm_load_print_meta: model size       = 37.22 GiB (4.53 BPW)
ggml_cuda_init: found 2 CUDA devices:
  Device 0: NVIDIA GeForce RTX 3090, compute capability 8.6, VMM: yes
  Device 1: Tesla P40, compute capability 6.1, VMM: yes
llm_load_tensors: offloading 80 repeating layers to GPU
llm_load_tensors: offloaded 81/81 layers to GPU
llm_load_tensors:        CPU buffer size =   563.62 MiB
llm_load_tensors:      CUDA0 buffer size = 19000.00 MiB
llm_load_tensors:      CUDA1 buffer size = 18550.00 MiB
llama_new_context_with_model: n_ctx      = 4096
llama_new_context_with_model: n_batch    = 2048
llama_new_context_with_model: n_ubatch   = 512
llama_new_context_with_model: flash_attn = 1
llama_kv_cache_init:      CUDA0 KV buffer size =   640.00 MiB
llama_kv_cache_init:      CUDA1 KV buffer size =   640.00 MiB
llama_new_context_with_model: KV self size  = 1280.00 MiB, K (f16):  640.00 MiB, V (q8_0):  640.00 MiB
llama_new_context_with_model:      CUDA0 compute buffer size =   400.00 MiB
llama_new_context_with_model: graph splits = 3
system_info: n_threads = 8 / 16 | AVX = 1 | AVX2 = 1 |
llama_print_timings:        load time =    5760.45 ms
llama_print_timings: prompt eval time =     120.11 ms /    42 tokens (    2.86 ms per token,   349.68 tokens per second)
llama_print_timings:        eval time =    1000.00 ms /    20 runs   (   50.00 ms per token,    20.00 tokens per second)
"""


def test_a_2024_log_with_journal_prefix_is_parsed():
    log = parsed(OLD)
    assert buffers(log) == {
        ("CPU", "model"): 563.62,
        ("CUDA0", "model"): 19000.0,
        ("CUDA1", "model"): 18550.0,
        ("CUDA0", "kv"): 640.0,
        ("CUDA1", "kv"): 640.0,
        ("CUDA0", "compute"): 400.0,
    }
    runtime = log.runtime
    assert runtime.version.need() == "b3400-97bdd26e"
    assert (runtime.placement.gpu_layers.need(), runtime.placement.layers.need(), runtime.compute.threads.need()) == (
        81,
        81,
        8,
    )
    assert (runtime.cache.type_k.need(), runtime.cache.type_v.need(), runtime.cache.bytes.need()) == (
        "f16",
        "q8_0",
        1280 * MIB,
    )
    assert runtime.compute.flash_attention.need() is True
    assert [d.name for d in runtime.placement.devices.need()] == ["CUDA0", "CUDA1"]
    assert log.model.path.need() == "/models/old.gguf"
    assert (log.model.quant.need(), log.model.parameters.need()) == ("Q6_K", 70_550_000_000)
    assert log.run.load_s.need() == pytest.approx(5.76045)
    [done] = log.run.completions.need()  # runs come after the first token
    assert (done.generated_tokens - 1) / done.decode_s == pytest.approx(20)


@pytest.mark.parametrize(
    ("text", "on"),
    [
        ("resolve_fused_ops: Flash Attention enabled", True),
        ("resolve_fused_ops: Flash Attention not supported, set to disabled", False),
        ("llama_context: Flash Attention was auto, set to enabled", True),
        ("sched_reserve: Flash Attention was auto, set to disabled", False),
        ("llama_context: flash_attn    = disabled", False),
        ("llama_new_context_with_model: flash_attn = 0", False),
        ("llama_init_from_model: flash_attn is not compatible with Grok - forcing off", False),
        ("llama_init_from_model: enabling flash_attn since it is required for quantized V cache", True),
    ],
)
def test_flash_attention_is_parsed_in_three_formats(text, on):
    assert parsed(text).runtime.compute.flash_attention.need() is on


def test_flash_attention_auto_without_a_decision_is_unknown():
    assert parsed("llama_context: flash_attn = auto").runtime.compute.flash_attention.absence is Absence.NOT_FOUND


SWA = """\
llama_context: n_ctx = 32768
llama_kv_cache_iswa: creating non-SWA KV cache, size = 32768 cells
llama_kv_cache:      CUDA0 KV buffer size =   320.00 MiB
llama_kv_cache: size =  320.00 MiB ( 32768 cells,   5 layers,  1/1 seqs), K (q8_0):  160.00 MiB, V (q8_0):  160.00 MiB
llama_kv_cache_iswa: creating     SWA KV cache, size = 1536 cells
llama_kv_cache:      CUDA0 KV buffer size =    96.00 MiB
llama_kv_cache: size =   96.00 MiB (  1536 cells,  29 layers,  1/1 seqs), K (f16):   48.00 MiB, V (f16):   48.00 MiB
"""


def test_both_kv_caches_of_sliding_window_attention_are_summed():
    runtime = parsed(SWA).runtime
    assert (runtime.cache.bytes.need(), runtime.cache.cells.need()) == (416 * MIB, 32768)
    assert runtime.cache.type_k.need() == "q8_0"
    assert [b.bytes // MIB for b in runtime.memory.buffers.need()] == [320, 96]


def load(path: str, on: int, of: int, device: str, mib: float) -> str:
    return (
        f"llama_model_loader: loaded meta data with 9 key-value pairs and 9 tensors from {path} (version GGUF V3)\n"
        f"load_tensors: offloaded {on}/{of} layers to GPU\n"
        f"load_tensors:      {device} model buffer size = {mib:.2f} MiB\n"
        f"llama_context: n_ctx = {of * 100}\n"
        f"llama_kv_cache:      {device} KV buffer size = {mib / 10:.2f} MiB\n"
    )


def test_buffers_of_the_fit_dry_run_are_discarded():
    log = parsed(load("a.gguf", 0, 33, "CPU", 900) + load("a.gguf", 33, 33, "CUDA0", 800))
    assert buffers(log) == {("CUDA0", "model"): 800.0, ("CUDA0", "kv"): 80.0}


def test_a_draft_model_does_not_replace_the_main_model():
    log = parsed(load("main.gguf", 60, 81, "CUDA0", 40000) + load("draft.gguf", 17, 17, "CUDA0", 500))
    assert (log.runtime.placement.gpu_layers.need(), log.runtime.placement.layers.need()) == (60, 81)
    assert log.runtime.context.length.need() == 8100
    assert log.model.path.need() == "main.gguf"


def test_a_second_load_replaces_the_facts_of_the_first():
    first = (
        "srv load_model: loading model 'a.gguf'\n"
        + load("a.gguf", 10, 81, "CUDA0", 900)
        + "srv llama_server: model loaded\n"
    )
    second = "srv load_model: loading model 'b.gguf'\n" + load("b.gguf", 33, 33, "CUDA0", 800)
    log = parsed(first + second)
    assert log.runtime.placement.layers.need() == 33
    assert log.runtime.state.need() == "loading"


def test_a_second_process_in_the_log_discards_the_first():
    refused = "ggml_cuda_init: failed to initialize CUDA: no CUDA-capable device is detected\n"
    log = parsed(
        refused + load("a.gguf", 0, 33, "CPU", 900) + "build: 5000 (abc) with cc\n" + load("a.gguf", 33, 33, "CUDA0", 9)
    )
    assert log.runtime.placement.gpu_refused.absence is Absence.NOT_FOUND
    assert log.runtime.version.need() == "b5000-abc"


def test_an_allocation_retried_with_success_is_not_a_failure():
    log = parsed(
        "srv load_model: loading model 'a.gguf'\n"
        "ggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size 4096\n"
        "sched_reserve: compute buffer allocation failed, retrying without pipeline parallelism\n"
        "srv llama_server: model loaded\n"
    )
    assert log.runtime.memory.allocation_failure.absence is Absence.NOT_FOUND
    assert log.runtime.state.need() == "loaded"


def test_an_aborted_fit_is_not_a_failure_and_gives_user_settings():
    log = parsed(
        "common_fit_params: failed to fit params to free device memory: n_gpu_layers already set by user to 99, abort\n"
        "llama_params_fit_impl: context size set by user to 8192 -> no change\n"
        "srv llama_server: model loaded"
    )
    assert log.runtime.memory.allocation_failure.absence is Absence.NOT_FOUND
    assert (log.runtime.placement.gpu_layers_set.need(), log.runtime.context.requested.need()) == (99, 8192)


@pytest.mark.parametrize(
    ("line", "device", "asked"),
    [
        ("ggml_vulkan: Device memory allocation of size 1073741824 failed.", "Vulkan", 1073741824),
        ("ggml_metal_buffer_init: error: failed to allocate buffer, size =  1024.00 MiB", "Metal", 1024 * MIB),
        ("ggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer of size 4096", "CPU", 4096),
    ],
)
def test_allocation_failures_of_other_backends_are_parsed(line, device, asked):
    failure = parsed(
        line + "\nllama_model_load: error loading model: unable to allocate CPU buffer"
    ).runtime.memory.allocation_failure
    assert (failure.need().device, failure.need().asked_bytes.need(), failure.need().what) == (device, asked, "weights")


@pytest.mark.parametrize(
    "line",
    [
        "warning: no usable GPU found, --gpu-layers option will be ignored",
        "warning: not compiled with GPU offload support, --n-gpu-layers option will be ignored",
        "ggml_vulkan: No devices found.",
        "ggml_cuda_init: failed to initialize ROCm: CUDA driver version is insufficient for CUDA runtime version",
    ],
)
def test_every_gpu_refusal_line_sets_gpu_refused(line):
    assert parsed(line).runtime.placement.gpu_refused.need() in line


def test_a_backend_without_devices_is_not_a_refusal_if_another_has_one():
    log = parsed("ggml_vulkan: No devices found.\nusing device CUDA0 (NVIDIA RTX) (0000:01:00.0) - 23028 MiB free")
    assert log.runtime.placement.gpu_refused.absence is Absence.NOT_FOUND


@pytest.mark.parametrize(
    ("line", "name", "description"),
    [
        ("llama_model_load_from_file_impl: using device CUDA0 (NVIDIA A100) - 40000 MiB free", "CUDA0", "NVIDIA A100"),
        ("using device MTL0 (Apple M2 Max) (unknown id) - 40000 MiB free", "MTL0", "Apple M2 Max"),
        ("common_param:   - Vulkan0 : AMD (RADV GFX1100) (49152 MiB, 40000 MiB free)", "Vulkan0", "AMD (RADV GFX1100)"),
    ],
)
def test_device_lines_are_parsed_with_and_without_bus_ids(line, name, description):
    [device] = parsed(line).runtime.placement.devices.need()
    assert (device.name, device.description, device.free_bytes.need()) == (name, description, 40000 * MIB)


def test_rocm_devices_are_parsed():
    log = parsed(
        "ggml_cuda_init: found 1 ROCm devices (Total VRAM: 24560 MiB):\n"
        "  Device 0: AMD Radeon RX 7900 XTX, gfx1100 (0x1100), VMM: no, Wave Size: 32, VRAM: 24560 MiB"
    )
    [device] = log.runtime.placement.devices.need()
    assert (device.name, device.total_bytes.need()) == ("ROCm0", 24560 * MIB)
    assert log.runtime.build.backends.need() == ["ROCm"]


@pytest.mark.parametrize("name", ["CPU", "CPU_Mapped", "CPU_REPACK", "CUDA_Host", "Vulkan_Host", "BLAS", "AMX"])
def test_host_buffers_are_not_on_the_gpu(name):
    [buffer] = parsed(f"load_tensors: {name} model buffer size = 1.00 MiB").runtime.memory.buffers.need()
    assert not buffer.on_gpu


@pytest.mark.parametrize("name", ["CUDA0", "ROCm1", "MTL0_Mapped", "Vulkan0", "SYCL0", "CUDA0_Split"])
def test_device_buffers_are_on_the_gpu(name):
    [buffer] = parsed(f"load_tensors: {name} model buffer size = 1.00 MiB").runtime.memory.buffers.need()
    assert buffer.on_gpu


def test_colour_codes_and_docker_json_prefixes_are_stripped():
    line = '{"log":"\\u001b[0m\x1b[32mload_tensors:\x1b[0m offloaded 23/33 layers to GPU\\n","stream":"stderr"}'
    assert parsed(line).runtime.placement.gpu_layers.need() == 23


def test_text_that_is_not_a_llama_log_gives_no_facts():
    log = parsed("hello\n\n\x00\x01 world = 3\n")
    assert log.recognised_lines == 0
    assert log.runtime.placement.gpu_layers.absence is Absence.NOT_LOOKED
    assert log.run.completions.absence is Absence.NOT_FOUND


def test_absurd_numbers_still_give_a_valid_snapshot():
    log = parsed(
        "load_tensors: offloaded 99999999999999999999/3 layers to GPU\n"
        "load_tensors: CUDA0 model buffer size = 9999999999999999999999 MiB\n"
        "print_info: n_layer = 99999999999999999999\nprint_info: file size = 999999999999999.00 GiB\n"
        "eval time = 999999999999.0 ms / 999999999999 tokens\nusing device CUDA0 (x) - 999999999999 MiB free"
    )
    snapshot = Snapshot(unslow_version="0", subjects=(Subject(runtime=log.runtime, model=log.model),))
    assert parse_snapshot(dump_snapshot(snapshot)) == snapshot


def test_parsed_lists_are_bounded_for_long_logs():
    lines = (
        f"load_tensors: X{n} model buffer size = 1.00 MiB\nusing device D{n} (x) - 1 MiB free\n"
        "eval time = 1.0 ms / 2 tokens"
        for n in range(3000)
    )
    log = parse_log((part for line in lines for part in line.split("\n")), "log")
    assert len(log.runtime.memory.buffers.need()) <= 256
    assert len(log.runtime.placement.devices.need()) <= 256
    assert len(log.run.completions.need()) <= 1000


def test_head_and_tail_of_a_long_log_are_parsed_without_the_cut_line():
    head = "load_tensors: offloaded 20/33 layers to GPU\nload_tensors: CUDA0 model buf"
    timings = "prompt eval time = 10.0 ms / 5 tokens\neval time = 100.0 ms / 11 tokens\n"
    tail = "t of a line offloaded 1/1 layers to GPU\n" + timings
    log = parse_head_and_tail(head, tail, "log")
    assert log.runtime.placement.gpu_layers == Known(20, Origin.REPORTED, "log:1")
    assert log.run.completions.source == "log:-1"


@pytest.mark.parametrize("cut", range(0, 24000, 1371))
def test_a_truncated_log_is_parsed_up_to_the_cut(cut):
    text = (MACHINES / "h200_llama_server_healthy_full_gpu" / "server.log").read_text(encoding="utf-8")[:cut]
    log = parse_log(text.split("\n"), "server.log")
    assert log.runtime.placement.gpu_layers.value_or(33) == 33


@pytest.mark.parametrize("prefix", ["llama", "common"])
def test_asked_bytes_are_those_after_the_fit_cut_the_context(prefix):
    log = parsed(
        f"""common_init_from_params: fitting params to device memory, for bugs during this step try with -fit off
{prefix}_params_fit_impl: projected to use 14650 MiB of device memory vs. 4584 MiB of free device memory
{prefix}_params_fit_impl: cannot fulfill margin of 512 MiB, need to reduce device memory by 11089 MiB
{prefix}_params_fit_impl: context size reduced from 32768 to 4096 -> need 5400 MiB less memory in total
load_tensors: offloaded 16/49 layers to GPU"""
    )
    assert log.runtime.placement.fit.need() is True
    assert log.runtime.memory.asked_bytes.need() == 9250 * MIB
    assert log.runtime.placement.fit_margin_bytes.need() == 512 * MIB


@pytest.mark.parametrize("prefix", ["llm_load_tensors", "load_tensors"])
def test_the_output_layer_is_on_the_host_when_only_repeating_layers_are_offloaded(prefix):
    counted = f"{prefix}: offloading 32 repeating layers to GPU\n{prefix}: offloaded 32/33 layers to GPU"
    assert parsed(counted).runtime.placement.output_on_gpu.need() is False
    whole = f"{prefix}: offloading 32 repeating layers to GPU\n{prefix}: offloading output layer to GPU\n"
    assert parsed(f"{whole}{prefix}: offloaded 33/33 layers to GPU").runtime.placement.output_on_gpu.need() is True
    assert isinstance(parsed(f"{prefix}: offloaded 32/33 layers to GPU").runtime.placement.output_on_gpu, Unknown)
