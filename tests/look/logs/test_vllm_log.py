"""vLLM logs: complete ones of vLLM 0.32 on a CPU, and single lines of several versions."""

from pathlib import Path

import pytest

from unslow.facts.runtime import Runtime
from unslow.facts.values import GIB, MIB, NOT_LOOKED, Known, Origin, Unknown
from unslow.look.logs.dialect import LogFacts
from unslow.look.logs.stream import LogStream, whole_line_blocks
from unslow.look.logs.vllm import DIALECT

LOGS = Path(__file__).parent / "vllm_logs"


def read(text: str | bytes, source: str = "log") -> LogFacts:
    stream = LogStream({"vllm": DIALECT}, source)
    for block in whole_line_blocks([text.encode() if isinstance(text, str) else text]):
        stream.feed(block)
    return stream.readers["vllm"].log_facts(source)


def runtime_of(text: str) -> Runtime:
    return read(text).subject.runtime


def value(text: str, name: str):
    return runtime_of(text).fact(name).need()


def test_a_recorded_vllm_log_gives_version_settings_memory_and_load():
    seen = read((LOGS / "server.log").read_bytes(), "server.log")
    runtime = seen.subject.runtime
    assert runtime.name == Known("vLLM", Origin.REPORTED, "server.log:4")
    assert runtime.version == Known("0.32.0", Origin.REPORTED, "server.log:19")
    assert runtime.context.requested == Known(1024, Origin.REPORTED, "server.log:8")
    assert runtime.context.length.need() == 1024
    assert runtime.compute.eager == Known(value=True, origin=Origin.REPORTED, source="server.log:53")
    assert runtime.compute.weights_type.need() == "bfloat16"
    assert runtime.placement.device_used.need() == "cpu"
    assert runtime.compute.threads.need() == 1
    assert (runtime.placement.tensor_parallel.need(), runtime.scheduling.max_sequences.need()) == (1, 8)
    assert runtime.cache.prompt_cache.need() is True
    assert runtime.cache.bytes.need() == GIB
    assert [(b.device, b.kind, b.on_gpu) for b in runtime.memory.buffers.need()] == [("CPU0", "kv", False)]
    assert runtime.cache.capacity_tokens.need() == 524288
    assert seen.subject.model.path.need() == "/models/tiny-llama"
    assert seen.subject.model.name.need() == "tiny-llama"
    assert isinstance(runtime.compute.quantization, Unknown)
    assert any("Enforce eager set" in warning for warning in runtime.history.warnings.need())


def test_the_moment_with_the_fullest_kv_cache_is_reported():
    runtime = read((LOGS / "preempting.log").read_bytes()).subject.runtime
    assert runtime.cache.usage.need() == 1.0
    assert (runtime.scheduling.running_requests.need(), runtime.scheduling.deferred_requests.need()) == (7, 5)
    assert runtime.cache.usage.source == runtime.scheduling.running_requests.source


def test_a_throughput_line_gives_decode_speed_per_request():
    line = (
        "INFO 07-24 14:10:08 [loggers.py:273] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation "
        "throughput: 300.0 tokens/s, Running: 6 reqs, Waiting: 2 reqs, GPU KV cache usage: 36.4%, "
        "Prefix cache hit rate: 12.5%"
    )
    runtime = runtime_of(line)
    assert runtime.history.decode_tokens_per_s.need() == pytest.approx(50)
    assert runtime.history.decode_tokens_per_s.origin is Origin.ESTIMATED
    assert (runtime.scheduling.running_requests.need(), runtime.scheduling.deferred_requests.need()) == (6, 2)
    assert runtime.cache.usage.need() == pytest.approx(0.364)
    assert runtime.cache.prefix_hit_rate.need() == pytest.approx(0.125)
    assert isinstance(runtime.history.prefill_tokens_per_s, Unknown)


def test_a_request_that_ended_within_the_interval_is_counted():
    lines = [f"Avg generation throughput: {rate} tokens/s, Running: {n} reqs" for rate, n in ((240.0, 6), (290.0, 1))]
    assert value("\n".join(lines), "decode_tokens_per_s") == pytest.approx(40)
    assert value("\n".join(lines[1:]), "decode_tokens_per_s") == pytest.approx(290)


def test_a_throughput_line_without_running_requests_gives_no_speed():
    line = (
        "Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 7.1 tokens/s, Running: 0 reqs, Waiting: 0 reqs"
    )
    assert isinstance(runtime_of(line).history.decode_tokens_per_s, Unknown)


def test_decode_speed_uses_intervals_without_prefill_if_any():
    busy = "Avg prompt throughput: 900.0 tokens/s, Avg generation throughput: 3.6 tokens/s, Running: 1 reqs"
    calm = "Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 41.0 tokens/s, Running: 1 reqs"
    assert value(f"{busy}\n{calm}\n{busy}", "decode_tokens_per_s") == pytest.approx(41)
    assert value(busy, "decode_tokens_per_s") == pytest.approx(3.6)


@pytest.mark.parametrize(
    ("line", "running", "waiting", "usage"),
    [
        ("GPU KV cache usage: 95.3%", None, None, 0.953),
        ("Running: 8 reqs, Waiting: 3 reqs", 8, 3, None),
        ("GPU KV cache usage goes from 91% to 95% with 8 running", 8, None, 0.95),
        (
            "Running: 1 reqs, Swapped: 2 reqs, Pending: 3 reqs, GPU KV cache usage: 0.1%, CPU KV cache usage: 7.0%.",
            1,
            5,
            0.001,
        ),
        ("Running: 4 reqs, Waiting: 0 reqs, CPU KV cache usage: 0.6%", 4, 0, 0.006),
    ],
)
def test_fragments_of_a_throughput_line_are_parsed(line, running, waiting, usage):
    runtime = runtime_of(line)
    assert runtime.scheduling.running_requests.value_or(None) == running
    assert runtime.scheduling.deferred_requests.value_or(None) == waiting
    assert runtime.cache.usage.value_or(None) == (pytest.approx(usage) if usage else None)
    assert runtime.name.need() == "vLLM"


ENGINE = (
    "INFO 01-02 12:30:13 llm_engine.py:161] Initializing an LLM engine (v0.4.0.post1) with config: "
    "model='mistralai/Mistral-7B-Instruct-v0.2', tokenizer='mistralai/Mistral-7B-Instruct-v0.2', dtype=torch.float16, "
    "max_seq_len=32768, tensor_parallel_size=2, pipeline_parallel_size=1, quantization=awq, enforce_eager=False, "
    "kv_cache_dtype=fp8, device_config=cuda, seed=0)"
)


def test_the_config_line_of_the_v0_engine_is_parsed():
    seen = read(ENGINE)
    runtime = seen.subject.runtime
    assert runtime.version.need() == "0.4.0.post1"
    assert (runtime.context.length.need(), runtime.placement.tensor_parallel.need()) == (32768, 2)
    assert (runtime.compute.quantization.need(), runtime.cache.type_k.need(), runtime.cache.type_v.need()) == (
        "awq",
        "fp8",
        "fp8",
    )
    assert runtime.compute.eager.need() is False
    assert runtime.placement.device_used.need() == "cuda"
    assert seen.subject.model.name.need() == "mistralai/Mistral-7B-Instruct-v0.2"


def test_a_second_vllm_start_discards_the_first():
    work = "Avg generation throughput: 20.0 tokens/s, Running: 1 reqs, GPU KV cache usage: 99.0%"
    second = ENGINE.replace("quantization=awq", "quantization=None").replace("v0.4.0.post1", "v0.4.1")
    runtime = runtime_of(f"{ENGINE}\n{work}\n{second}")
    assert runtime.version.need() == "0.4.1"
    assert isinstance(runtime.compute.quantization, Unknown)
    assert isinstance(runtime.cache.usage, Unknown)


@pytest.mark.parametrize(
    ("line", "name", "wanted"),
    [
        ("Using FLASH_ATTN attention backend out of potential backends: ['FLASH_ATTN'].", "attention", "FLASH_ATTN"),
        ("Using TRITON_ATTN backend out of potential backends: ['TRITON_ATTN'].", "attention", "TRITON_ATTN"),
        ("INFO [cuda.py:230] Using Flash Attention backend on V1 engine.", "attention", "Flash Attention"),
        ("INFO 05-01 10:00:00 selector.py:115] Using XFormers backend.", "attention", "XFormers"),
        ("INFO [cuda.py:275] Using AttentionBackendEnum.FLASHINFER backend.", "attention", "FLASHINFER"),
        ("INFO [cuda.py:200] Using Triton MLA backend on V1 engine.", "attention", "Triton MLA"),
        ("Using CUTLASS_MLA backend.", "attention", "CUTLASS_MLA"),
        ("Cudagraph is disabled under eager mode", "eager", True),
        ("Enforce eager set, disabling torch.compile, CUDAGraphs, and JIT kernel warmup.", "eager", True),
        ("Graph capturing finished in 12 secs, took 0.55 GiB", "eager", False),
        ("Chunked prefill is enabled with max_num_batched_tokens=2048.", "max_batched_tokens", 2048),
        ("Using max model len 131072", "context_length", 131072),
        ("Auto-fit max_model_len: reduced from 131072 to 40960 to fit in", "context_length", 40960),
        ("GPU KV cache size: 43,680 tokens, Maximum concurrency for 32,768 tokens", "kv_capacity_tokens", 43680),
        ("Maximum concurrency for 16,384 tokens per request: 1.50x", "kv_capacity_tokens", 24576),
        ("# GPU blocks: 1234, # CPU blocks: 512", "kv_capacity_tokens", 1234 * 16),
        ("# CUDA blocks: 100, # CPU blocks: 2048", "kv_capacity_tokens", 1600),
        ("Available KV cache memory: 5.50 GiB", "kv_bytes", int(5.5 * GIB)),
        ("the rest of the memory reserved for KV Cache is 4.00GiB.", "kv_bytes", 4 * GIB),
        ("Casting torch.bfloat16 to torch.float16.", "weights_type", "float16"),
        ("The model is convertible to awq_marlin during runtime. Using awq_marlin kernel.", "kernel", "awq_marlin"),
        ("Using MarlinLinearKernel for CompressedTensorsWNA16", "kernel", "MarlinLinearKernel"),
        ("Using MacheteLinearKernel for GPTQMarlinLinearMethod", "kernel", "MacheteLinearKernel"),
        (
            "SpecDecoding metrics: Mean acceptance length: 1.85, Avg Draft acceptance rate: 42.5%",
            "draft_acceptance",
            0.425,
        ),
        ("SpecDecoding metrics: Draft acceptance rate: nan%, Accepted: 0 tokens", "draft_acceptance", None),
        ("Speculative metrics: Draft acceptance rate: 0.521, System efficiency: 0.347", "draft_acceptance", 0.521),
        ("Preemptions: 12, GPU KV cache usage: 99.9%", "preemptions", 12),
        ("No platform detected, vLLM is running on X", "gpu_refused", "No platform detected, vLLM is running on X"),
        ("Automatically detected platform rocm.", "device_used", "rocm"),
        ("vLLM API server version 0.6.1.post2", "version", "0.6.1.post2"),
    ],
)
def test_single_vllm_lines_give_their_fact(line, name, wanted):
    fact = runtime_of(line).fact(name)
    if wanted is None:
        assert isinstance(fact, Unknown)
    else:
        assert fact.need() == wanted
        assert fact.source.startswith("log:1")


def test_a_forced_awq_kernel_is_reported():
    text = (
        "INFO 06-17 13:04:11 [awq_marlin.py:120] Detected that the model can run with awq_marlin, however you "
        "specified quantization=awq explicitly, so forcing awq. Use quantization=awq_marlin for faster inference\n"
        "WARNING 06-17 13:04:11 [config.py:931] awq quantization is not fully optimized yet. The speed can be slower "
        "than non-quantized models."
    )
    runtime = runtime_of(text)
    assert (runtime.compute.quantization.need(), runtime.compute.kernel.need()) == ("awq", "awq")
    assert len(runtime.history.warnings.need()) == 2


def test_a_forced_awq_line_broken_by_the_page_is_parsed():
    assert value("quantization=awq explicitly, so forcing awq. Use quantization=awq_marlin", "kernel") == "awq"


def test_a_torch_out_of_memory_error_names_no_runtime():
    runtime = runtime_of("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 896.00 MiB. GPU 1 has a total")
    assert isinstance(runtime.name, Unknown)
    failure = runtime.memory.allocation_failure.need()
    assert (failure.device, failure.asked_bytes.need()) == ("GPU 1", 896 * MIB)
    assert runtime.state.need() == "failed"


def test_weights_of_every_vllm_worker_are_listed():
    text = "\n".join(
        f"(Worker_TP{n} pid=8{n}) INFO [a.py:1] Model loading took 14.99 GiB memory and 5.2 seconds" for n in (0, 1)
    )
    buffers = value(text, "buffers")
    assert [(b.device, b.bytes) for b in buffers] == [(f"GPU{n}", round(14.99 * GIB)) for n in (0, 1)]


def test_a_context_larger_than_the_kv_cache_is_a_load_error():
    text = (
        "ValueError: To serve at least one request with the model's max seq len (131072), (16.00 GiB KV cache is "
        "needed, which is larger than the available KV cache memory (5.25 GiB). Based on the available memory, the "
        "estimated maximum model length is 43008. Try increasing `gpu_memory_utilization`"
    )
    runtime = runtime_of(text)
    failure = runtime.memory.allocation_failure.need()
    assert (failure.what, failure.asked_bytes.need()) == ("kv_cache", 16 * GIB)
    assert (runtime.memory.available_bytes.need(), runtime.cache.capacity_tokens.need()) == (int(5.25 * GIB), 43008)
    assert runtime.context.length.need() == 131072


def test_the_old_kv_cache_too_small_message_is_parsed():
    text = (
        "The model's max seq len (32768) is larger than the maximum number of tokens that can be stored in KV cache "
        "(26064). Try increasing `gpu_memory_utilization`"
    )
    runtime = runtime_of(text)
    assert (runtime.context.length.need(), runtime.cache.capacity_tokens.need()) == (32768, 26064)
    assert runtime.state.need() == "failed"


def test_free_memory_below_the_requested_fraction_is_a_load_error():
    text = (
        "ValueError: Free memory on device cuda:0 (10.50/24.00 GiB) on startup is less than desired GPU memory "
        "utilization (0.92, 22.08 GiB). Decrease GPU memory utilization"
    )
    runtime = runtime_of(text)
    (device,) = runtime.placement.devices.need()
    assert (device.name, device.free_bytes.need(), device.total_bytes.need()) == ("cuda:0", int(10.5 * GIB), 24 * GIB)
    assert runtime.memory.gpu_memory_fraction.need() == 0.92
    assert "less than desired" in runtime.memory.load_error.need()


def test_a_server_that_runs_after_out_of_memory_did_not_fail():
    text = "CUDA out of memory. Tried to allocate 1.00 GiB\nAvg generation throughput: 9.0 tokens/s, Running: 1 reqs"
    assert isinstance(runtime_of(text).state, Unknown)


def test_preempted_sequence_groups_of_the_v0_engine_are_counted():
    line = (
        "WARNING 05-01 10:00:00 scheduler.py:1057] Sequence group cmpl-1 is preempted by PreemptionMode.RECOMPUTE mode "
        "because there is not enough KV cache space. total_num_cumulative_preemption="
    )
    assert value(f"{line}1\n{line}51", "preemptions") == 51
    assert value("Sequence group 7 is preempted by PreemptionMode.SWAP mode", "preemptions") == 1


def test_a_vllm_llm_call_in_python_is_parsed():
    text = (
        'llm = LLM(model="/models/Qwen3-8B-AWQ", quantization="awq", enforce_eager=True, max_model_len=8192, '
        "gpu_memory_utilization=0.85)"
    )
    seen = read(text)
    runtime = seen.subject.runtime
    assert (
        runtime.compute.quantization.need(),
        runtime.compute.eager.need(),
        runtime.memory.gpu_memory_fraction.need(),
    ) == ("awq", True, 0.85)
    assert runtime.context.requested.need() == 8192
    assert seen.subject.model.path.need() == "/models/Qwen3-8B-AWQ"


@pytest.mark.parametrize(
    "line",
    [
        'INFO:     127.0.0.1:33870 - "GET /health HTTP/1.1" 200 OK',
        "INFO:     Application startup complete.",
        "[W1115 11:55:55.892739923 utils.cpp:68] Warning: NUMA binding: Using MEMBIND policy",
        "Loading safetensors checkpoint shards: 100% Completed | 1/1 [00:00<00:00, 78.87it/s]",
    ],
)
def test_uninformative_vllm_lines_are_claimed_without_facts(line):
    assert DIALECT.start().take(line, "log:1")
    assert any(needle in line for needle in DIALECT.needles)
    assert read(line) == LogFacts()


def test_prose_about_a_vllm_setting_is_not_a_setting():
    seen = read("Try increasing `gpu_memory_utilization` or use quantization=awq_marlin for faster inference")
    assert seen == LogFacts()


@pytest.mark.parametrize(
    "line",
    [
        "Avg generation throughput: -5.0 tokens/s, Running: 1 reqs",
        "Avg generation throughput: nan tokens/s",
        "GPU KV cache usage: inf%",
        "GPU KV cache size: " + "9" * 400 + " tokens",
        "Maximum concurrency for 99999999999999999999999 tokens per request: 1e999x",
        "non-default args: {'max_model_len': "
        + "9" * 300
        + ", 'gpu_memory_utilization': 17.0, 'tensor_parallel_size': -2}",
        "Initializing a V1 LLM engine (v" + "0" * 5000 + ") with config: " + "a=" * 3000,
    ],
)
def test_impossible_vllm_numbers_are_unknown(line):
    runtime = runtime_of(line)
    for name in ("decode_tokens_per_s", "kv_usage", "kv_capacity_tokens", "context_length", "gpu_memory_fraction"):
        assert isinstance(runtime.fact(name), Unknown), name
    assert isinstance(runtime.placement.tensor_parallel, Unknown)


def test_hostile_vllm_lines_give_no_facts():
    nasty = ["Using " * 1300, "quantization=" * 600, "is preempted by" * 500, "non-default args: {" + "'a':" * 2000]
    seen = read("\n".join(line + " KV cache usage out of memory GEMM" for line in nasty * 20))
    assert all(isinstance(seen.subject.runtime.fact(name), Unknown) for name in ("kernel", "preemptions", "kv_usage"))


def test_vllm_warnings_are_bounded_for_long_logs():
    line = (
        "WARNING 05-01 10:00:00 [a.py:1] kind {} may slow down\nAvg generation throughput: 9.0 tokens/s, Running: 1\n"
    )
    words = ("".join(chr(97 + (n >> shift) % 16) for shift in (0, 4, 8)) for n in range(3000))
    runtime = runtime_of("".join(line.format(word) for word in words))
    assert len(runtime.history.warnings.need()) == 40
    assert runtime.history.decode_tokens_per_s.need() == pytest.approx(9)


def test_expert_parallel_workers_are_separate_devices():
    lines = [f"(Worker_TP{n}_EP{n} pid=8{n}) INFO [a.py:1] Model loading took 29.6 GiB and 5 seconds" for n in (0, 10)]
    assert [b.device for b in value("\n".join(lines), "buffers")] == ["GPU0", "GPU10"]


def test_a_log_tells_that_graphs_are_off_without_the_eager_switch():
    engine = "Initializing a V1 LLM engine (v0.26.0) with config: model='m', enforce_eager=False, compilation_config="
    assert value(
        engine + "{'mode': <CompilationMode.VLLM_COMPILE: 3>, 'cudagraph_mode': <CUDAGraphMode.NONE: 0>}", "eager"
    )
    assert not value(engine + "{'cudagraph_mode': <CUDAGraphMode.FULL_AND_PIECEWISE: (2, 1)>}", "eager")
    assert not value(engine + "{'cudagraph_mode': <CUDAGraphMode.PIECEWISE: 1>, 'x': 'NONE'}", "eager")
    pieces = "non-default args: {'compilation_config': {'cudagraph_mode': <CUDAGraphMode.PIECEWISE: 1>}}"
    assert value(f"INFO 11-19 23:43:38 [api_utils.py:273] {pieces}", "graphs_without_attention")
    whole = pieces.replace("PIECEWISE: 1", "FULL_AND_PIECEWISE: (2, 1)")
    told = runtime_of(f"INFO 11-19 23:43:38 [api_utils.py:273] {whole}")
    assert told.compute.graphs_without_attention == NOT_LOOKED
    skipped = "Skipping CUDA graph capture. To turn on CUDA graph capture, ensure `cudagraph_mode` was not manually set"
    assert value(f"WARNING 11-18 18:08:31 [model_runner.py:713] {skipped} to `NONE`", "eager")


@pytest.mark.parametrize(("version", "offloaded"), [("0.26.0", 0), ("0.28.0", 8 * GIB)])
def test_the_second_model_runner_offloaded_nothing_before_0_28(version, offloaded):
    told = "INFO 11-18 18:11:09 [api_utils.py:273] non-default args: {'model': 'm', 'cpu_offload_gb': 8.0}"
    engine = f"INFO 11-18 18:11:30 [core.py:116] Initializing a V1 LLM engine (v{version}) with config: model='m'"
    runner = "INFO 11-18 18:11:34 [gpu_worker.py:378] Using V2 Model Runner"
    assert value(f"{told}\n{engine}\n{runner}", "cpu_offload_bytes") == offloaded
    assert value(f"{told}\n{engine}", "cpu_offload_bytes") == 8 * GIB
