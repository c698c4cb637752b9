"""Ollama logs in the format of several versions: real wording from its source, invented values."""

from pathlib import Path

import msgspec
import pytest

from unslow.facts.runtime import Runtime
from unslow.facts.values import GIB, MIB, Known, Origin
from unslow.look.logs.dialect import LogFacts
from unslow.look.logs.ollama import DIALECT, OllamaReader
from unslow.look.logs.ollama.state import parse_line

LOGS = Path(__file__).parent / "ollama"


def read(text: str) -> LogFacts:
    """The lines that hold a needle, as a stream shows them."""
    reader = OllamaReader()
    for number, line in enumerate(text.split("\n"), 1):
        if any(needle in line for needle in DIALECT.needles):
            reader.take(line, f"log:{number}")
    return reader.log_facts("log")


def recorded(name: str) -> LogFacts:
    return read((LOGS / f"{name}.log").read_text(encoding="utf-8"))


def test_an_ollama_0_33_log_gives_server_devices_and_chosen_gpu():
    seen = recorded("v0.33_two_gpus")
    runtime = seen.subject.runtime
    assert runtime.name == Known("Ollama", Origin.REPORTED, "log:1")
    assert runtime.version == Known("0.33.0", Origin.REPORTED, "log:2")
    assert runtime.context.default == Known(32768, Origin.REPORTED, "log:7")
    assert (runtime.scheduling.keep_alive_s.need(), runtime.scheduling.max_loaded_models.need()) == (-1, 2)
    assert runtime.placement.fit_margin_bytes.need() == 2 * GIB
    environment = runtime.process.environment.need()
    assert environment["OLLAMA_KV_CACHE_TYPE"] == "q8_0"
    assert "OLLAMA_ORIGINS" not in environment
    assert "OLLAMA_FLASH_ATTENTION" not in environment  # "false" is what an unset one prints
    assert runtime.placement.device_used == Known("Vulkan0", Origin.REPORTED, "log:8")
    devices = {device.name: device for device in runtime.placement.devices.need()}
    assert set(devices) == {"Vulkan0", "CUDA0"}
    assert devices["CUDA0"].description == "NVIDIA GeForce RTX 4070"
    assert devices["CUDA0"].total_bytes.need() == 12 * GIB
    assert (devices["CUDA0"].integrated.need(), devices["Vulkan0"].integrated.need()) == (False, True)
    assert (devices["CUDA0"].library, devices["CUDA0"].compute_capability.need()) == ("CUDA", "8.9")
    assert seen.machine.memory.total_bytes.need() == round(31.7 * GIB)
    integrated, discrete = seen.machine.gpus.need()
    assert (integrated.name.need(), integrated.kind.need()) == ("Intel(R) UHD Graphics", "integrated")
    assert (discrete.name.need(), discrete.vendor.need()) == ("NVIDIA GeForce RTX 4070", "NVIDIA")
    assert discrete.vram_total_bytes.need() == 12 * GIB


def test_a_device_skipped_by_one_library_but_used_by_another_is_not_refused():
    assert not isinstance(recorded("v0.33_two_gpus").subject.runtime.placement.gpu_refused, Known)


def test_ollama_child_context_is_divided_by_its_slots():
    runtime = recorded("v0.33_two_gpus").subject.runtime
    assert runtime.context.length == Known(65536, Origin.REPORTED, "log:9")
    assert (runtime.context.per_slot.need(), runtime.scheduling.slots.need()) == (32768, 2)
    assert (runtime.cache.type_k.need(), runtime.cache.type_v.need()) == ("q8_0", "q8_0")
    assert (runtime.compute.batch.need(), runtime.compute.ubatch.need()) == (1024, 1024)
    assert (runtime.placement.split_mode.need(), runtime.placement.main_gpu.need()) == ("none", 0)
    assert not isinstance(runtime.compute.flash_attention, Known)  # auto: llama.cpp says what came of it
    assert not isinstance(runtime.placement.gpu_layers_set, Known)
    assert (runtime.placement.gpu_layers.need(), runtime.placement.layers.need()) == (33, 33)


def test_an_ollama_load_has_free_vram_and_duration():
    seen = recorded("v0.33_two_gpus")
    (load,) = seen.subject.runtime.history.loads.need()
    assert load.at == "2026-09-02T16:52:34.597Z"
    assert load.free_bytes.need() == round(15.1 * GIB)
    assert load.seconds == Known(9.04, Origin.REPORTED, "log:14")
    assert load.model.need().endswith("sha256-9ed150d4367e68df")
    assert seen.subject.run.load_s.need() == 9.04
    assert seen.subject.runtime.state.need() == "loaded"


def test_ollama_request_durations_come_from_gin_lines():
    run = recorded("v0.33_two_gpus").subject.run
    assert run.request_s == Known((87.0, 28.436412014), Origin.REPORTED, "log:18")


def test_ollama_warnings_are_kept():
    warnings = recorded("v0.33_two_gpus").subject.runtime.history.warnings.need()
    assert warnings == ["truncating input prompt"]


def test_an_ollama_0_13_engine_load_is_parsed():
    seen = recorded("v0.13_engine")
    runtime, model = seen.subject.runtime, seen.subject.model
    assert (
        runtime.placement.gpu_layers.need(),
        runtime.placement.layers.need(),
        runtime.placement.output_on_gpu.need(),
    ) == (42, 43, False)
    assert (runtime.context.length.need(), runtime.scheduling.slots.need()) == (16384, 1)  # the request that commits
    assert (runtime.cache.type_k.need(), runtime.compute.flash_attention.need(), runtime.compute.threads.need()) == (
        "q8_0",
        True,
        8,
    )
    assert runtime.placement.load_mode.need() == "none"
    buffers = {(b.device, b.kind): (round(b.bytes / MIB), b.on_gpu) for b in runtime.memory.buffers.need()}
    assert buffers["CUDA0", "model"] == (3174, True)
    assert buffers["CPU", "model"] == (6246, False)
    assert buffers["CUDA0", "kv"] == (450, True)
    assert runtime.memory.size_bytes.need() == round(9.8 * GIB)
    assert (model.architecture.need(), model.quant.need()) == ("gemma3n", "Q4_K_M")
    assert runtime.build.architectures.need() == ["750", "800", "860", "890"]
    assert "AVX2" in runtime.build.features.need()
    assert len(runtime.history.loads.need()) == 1  # the runner that only looked for GPUs is none


def test_ollama_0_5_memory_plan_and_two_loads_are_parsed():
    seen = recorded("v0.5_reloads")
    runtime = seen.subject.runtime
    first, second = runtime.history.loads.need()
    assert (first.gpu_layers.need(), first.layers.need(), first.context_length.need()) == (31, 33, 81920)
    assert first.free_bytes == Known(round(22.7 * GIB), Origin.REPORTED, "log:6: memory.available")
    assert first.asked_bytes.need() == round(23.5 * GIB)
    assert (second.gpu_layers.need(), second.context_length.need(), second.seconds.need()) == (33, 8192, 4.02)
    assert runtime.cache.bytes.need() == GIB
    assert (runtime.memory.size_vram_bytes.need(), runtime.memory.size_bytes.need()) == (
        round(6.2 * GIB),
        round(6.2 * GIB),
    )
    assert (runtime.compute.flash_attention.need(), runtime.cache.type_k.need()) == (True, "q8_0")
    assert (runtime.scheduling.slots.need(), runtime.context.per_slot.need(), runtime.compute.threads.need()) == (
        4,
        2048,
        8,
    )
    assert not isinstance(runtime.placement.gpu_layers_set, Known)
    cpu = seen.machine.cpu
    assert (cpu.physical_cores.need(), cpu.efficiency_cores.need(), cpu.logical_cpus.need()) == (16, 8, 24)
    (device,) = runtime.placement.devices.need()
    assert (device.description, device.library) == ("NVIDIA GeForce RTX 3090", "cuda")


def test_a_quantized_cache_without_flash_attention_is_f16():
    text = (LOGS / "v0.5_reloads.log").read_text(encoding="utf-8").split("\n")
    runtime = read("\n".join(text[:10])).subject.runtime
    assert runtime.process.environment.need()["OLLAMA_KV_CACHE_TYPE"] == "q8_0"
    assert (runtime.cache.type_k.need(), runtime.compute.flash_attention.need()) == ("f16", False)
    assert "quantized kv cache requested but flash attention disabled: q8_0" in runtime.history.warnings.need()


def test_a_kfd_permission_problem_is_the_gpu_refusal():
    seen = recorded("v0.4_no_permission")
    runtime = seen.subject.runtime
    assert "permission problems block access" in runtime.placement.gpu_refused.need()
    assert runtime.placement.devices.need() == []
    assert seen.machine.system.kfd_access == Known(value=False, origin=Origin.REPORTED, source="log:5")
    assert (runtime.placement.gpu_layers.need(), runtime.placement.layers.need()) == (0, 33)
    assert not isinstance(runtime.memory.available_bytes, Known)  # what was free was the machine's memory


@pytest.mark.parametrize(
    "line",
    [
        'level=WARN msg="NVIDIA driver too old" device="GeForce GTX 1080" driver=535 required_driver="570 or newer"',
        'msg="amdgpu is not supported" gpu=0 gpu_type=gfx803 library=/usr/lib/ollama supported_types="[gfx1030]"',
        'msg="amdgpu [0] gfx1035 is not supported by /opt/rocm/lib [gfx1030 gfx1100]"',
        'msg="dropping ROCm device — no rocblas support for gfx target" device=ROCm0 gfx_target=gfx902 hint="set HSA"',
        'msg="[0] CUDA GPU is too old. Compute Capability detected: 3.5"',
        'msg="unsupported Radeon iGPU detected skipping" id=0 total="512.0 MiB"',
        'msg="dropping integrated GPU; to enable, set OLLAMA_IGPU_ENABLE=1" id=0 library=Vulkan name=Vulkan0',
        "open /dev/kfd: permission denied",
        'msg="amdgpu detected, but no compatible rocm library found.  Please install ROCm"',
        'msg="skipping CUDA device — compute capability not in compiled architectures" device="Tesla K80" cc=370',
        'msg="no compatible GPUs were discovered"',
        'msg="inference compute" id=cpu library=cpu compute="" name=cpu total="6.7 GiB" available="6.0 GiB"',
    ],
)
def test_every_ollama_gpu_refusal_is_recognised(line: str):
    refused = read(f"time=2026-01-01T00:00:00Z level=INFO source=x.go:1 {line}").subject.runtime.placement.gpu_refused
    assert refused.source == "log:1"


def test_a_specific_refusal_wins_over_no_compatible_gpus():
    text = 'msg="no compatible GPUs were discovered"\nmsg="amdgpu is not supported" gpu_type=gfx803'
    assert read(text).subject.runtime.placement.gpu_refused.source == "log:2"


def test_a_restarted_ollama_server_discovers_devices_anew():
    old = (LOGS / "v0.4_no_permission.log").read_text(encoding="utf-8")
    new = (LOGS / "v0.33_two_gpus.log").read_text(encoding="utf-8")
    runtime = read(old + new).subject.runtime
    assert runtime.version.need() == "0.33.0"
    assert not isinstance(runtime.placement.gpu_refused, Known)
    assert len(runtime.history.loads.need()) == 2


@pytest.mark.parametrize(
    ("text", "free", "asked"),
    [
        ("memory.available=[22.7 GiB] memory.required.full=23.5 GiB", 22.7, 23.5),
        ('memory.available="[11.0 GiB 11.7 GiB]" memory.required.full="23.5 GiB"', 22.7, 23.5),
        ("`memory.required.full=23.5 GiB`, `memory.available=[22.7 GiB]`", 22.7, 23.5),
        ('{"log":"msg=offload memory.available=\\"[22.7 GiB]\\" memory.required.full=\\"23.5 GiB\\""}', 22.7, 23.5),
    ],
)
def test_quoted_memory_values_are_parsed(text: str, free: float, asked: float):
    runtime = read(text).subject.runtime
    assert runtime.memory.available_bytes.need() == pytest.approx(free * GIB)
    assert runtime.memory.asked_bytes.need() == pytest.approx(asked * GIB)


@pytest.mark.parametrize(
    ("text", "layers"),
    [
        ("layers.model=81 layers.offload=44 layers.split=11,11,11,11", (44, 81)),
        ("17:59 memory.available=[17.8 GiB] layers.offload=49/63", (49, 63)),
        ("31/33 layers offloaded", (31, 33)),
        ("2 of 62 layers on GPU", (2, 62)),
        ('msg="offloaded 20/33 layers to GPU"', (20, 33)),
    ],
)
def test_offloaded_layers_are_parsed_from_quoted_fragments(text: str, layers: tuple[int, int]):
    runtime = read(text).subject.runtime
    assert (runtime.placement.gpu_layers.need(), runtime.placement.layers.need()) == layers


@pytest.mark.parametrize(
    "text", ["99/33 layers to GPU", "3/5 layers of cake", "layers.offload=many", "memory.required.x=1"]
)
def test_fractions_that_are_not_layer_counts_are_ignored(text: str):
    assert not isinstance(read(text).subject.runtime.placement.layers, Known)


def test_a_list_of_ctx_sizes_is_a_list_of_loads():
    runtime = read("runner restarted with --ctx-size 8192, 2048, 8192, 2048 in turn").subject.runtime
    assert [load.context_length.need() for load in runtime.history.loads.need()] == [8192, 2048, 8192, 2048]


def test_an_offload_line_alone_does_not_name_ollama():
    runtime = read("offloaded 20/33 layers to GPU").subject.runtime
    assert not isinstance(runtime.name, Known)


def test_an_out_of_memory_load_is_failed_until_a_later_one_succeeds():
    failed = 'level=INFO source=sched.go:641 msg="Load failed" model=/m error="cudaMalloc failed: out of memory"'
    start = (
        'source=llama_server.go:433 msg="starting llama-server" cmd="/x/llama-server --model /m -c 4096 -np 1 -ngl 20"'
    )
    done = 'source=llama_server.go:1362 msg="llama-server started in 1.50 seconds"'
    runtime = read(f"{start}\n{failed}").subject.runtime
    assert runtime.state.need() == "failed"
    assert "out of memory" in runtime.memory.allocation_failure.need().message
    assert runtime.placement.gpu_layers_set.need() == 20
    runtime = read(f"{start}\n{failed}\n{start}\n{done}").subject.runtime
    assert runtime.state.need() == "loaded"
    assert not isinstance(runtime.memory.allocation_failure, Known)
    assert len(runtime.history.loads.need()) == 2


def test_prose_that_quotes_ollama_is_read_but_not_claimed():
    reader = OllamaReader()
    assert not reader.take("my RTX 3090 has 31/33 layers offloaded", "log:1")
    assert reader.take('time=x level=INFO source=ggml.go:494 msg="offloaded 31/33 layers to GPU"', "log:2")
    assert reader.log_facts("log").lines == 2


def test_a_log_without_ollama_lines_gives_no_facts():
    assert read("a log of something else\nwith two lines") == LogFacts()


@pytest.mark.parametrize(
    "line",
    [
        "memory.required.full=" + "9" * 400 + " GiB layers.offload=" + "9" * 400,
        'msg="inference compute" library=cuda id=' + "x" * 100_000,
        'env="map[' + "OLLAMA_NUM_PARALLEL:-1 OLLAMA_KEEP_ALIVE:NaN " * 500,
        "server config env=" + "A:" * 50_000,
        'msg="gpu memory" free="-3 GiB" id=1',
        "[GIN] | 200 | " + "1m" * 5000 + ' | | POST "/api/chat"',
        'starting llama-server cmd="' + "--model " * 3000,
        "load request={Operation:commit " + "KvSize:" * 3000,
        "x=[" * 20_000 + " layers.model=3",
        "\x00\ufffd layers.offload=\u0663 layers.model=\u0664",
    ],
)
def test_hostile_ollama_lines_give_facts_that_can_be_encoded(line: str):
    runtime = read(line).subject.runtime
    assert msgspec.json.decode(msgspec.json.encode(runtime), type=Runtime) == runtime


def test_ollama_lists_are_bounded_for_long_logs():
    reader = OllamaReader()
    for number in range(5000):
        reader.take(
            f'source=a.go:1 msg="starting llama-server" cmd="x --model /m{number} -c 4096 -np 1"', f"log:{number}"
        )
        reader.take(f'[GIN] x | 200 | {number}ms | 127.0.0.1 | POST "/api/chat"', f"log:{number}")
        reader.take(f"level=WARN msg={'ab' * (number % 97)}{number}", f"log:{number}")
        reader.take(f'msg="inference compute" library=CUDA name=CUDA{number}', f"log:{number}")
    runtime = reader.log_facts("log").subject.runtime
    assert len(runtime.history.loads.need()) <= 201
    assert len(runtime.history.warnings.need()) <= 40
    assert len(runtime.placement.devices.need()) <= 64
    assert len(reader.log_facts("log").subject.run.request_s.need()) <= 200


def test_gpu_architecture_is_shown_from_any_field_name():
    for field in ("compute", "gfx_target", "target"):
        line = parse_line(f'level=WARN msg="dropping ROCm device" {field}=gfx1032 hint="set it"', "log:1")
        assert line.message() == "dropping ROCm device: gfx1032: set it"
    named = parse_line('level=WARN msg="no rocblas support for gfx1032" compute=gfx1032', "log:1")
    assert named.message() == "no rocblas support for gfx1032"


def answered(number: int, took_s: float, whole_s: float, at: str) -> str:
    return (
        f"slot   operator(): id  0 | task {number} | new prompt, n_ctx_slot = 4096, n_keep = 4, task.n_tokens = 30\n"
        f"slot print_timing: id  0 | task {number} |       total time =  {1e3 * took_s:8.2f} ms /    67 tokens\n"
        f'[GIN] 2026/11/18 - {at} | 200 |  {whole_s}s |       127.0.0.1 | POST     "/api/generate"\n'
    )


def test_the_wait_for_a_slot_is_ollamas_time_less_its_servers():
    first = answered(1, 2.0, 9.5, "17:46:42")  # it waited for the load
    text = first + "".join(answered(number, 2.0, 8.0, f"17:46:{42 + 2 * number}") for number in range(2, 7))
    assert read(text).subject.run.queue_s == Known(6.0, Origin.ESTIMATED, "log:18: the last 5 requests")


def test_a_request_that_came_after_the_one_before_ended_did_not_wait():
    text = "".join(answered(number, 2.0, 5.0, f"17:{10 + number}:00") for number in range(6))
    assert read(text).subject.run.queue_s.need() == 0.0


def test_timings_of_a_llama_server_without_ollama_are_not_ollamas():
    text = "slot print_timing: id  0 | task 1 |       total time =  2000.00 ms /    67 tokens\n" * 5
    assert read(text) == LogFacts()


def test_a_message_of_several_lines_is_shown_in_one():
    line = r'time=2026-11-18T18:03:00Z level=INFO source=sched.go:641 msg="Load failed" error="exit status 1: one\ntwo"'
    assert parse_line(line, "log:1").message() == "Load failed: exit status 1: one two"


def test_a_process_that_the_kernel_killed_ran_out_of_memory():
    text = (
        'time=2026-11-18T18:33:21Z level=INFO source=llama_server.go:433 msg="starting llama-server" '
        'cmd="/lib/llama-server --model /m.gguf --port 1 -c 4096 -np 1"\n'
        'time=2026-11-18T18:33:24Z level=INFO source=sched.go:641 msg="Load failed" model=/m.gguf '
        'error="llama-server process has terminated: signal: killed"\n'
    )
    runtime = read(text).subject.runtime
    assert runtime.state.need() == "failed"
    assert "when memory runs out" in runtime.memory.allocation_failure.need().message


def test_a_file_that_cannot_be_read_is_a_load_that_failed():
    text = (
        'time=2026-11-18T18:34:19Z level=INFO source=sched.go:529 msg="failed to load model metadata" model=/m.gguf '
        'error="tensor \\"blk.25.ffn_gate.weight\\" offset+size (88941376) exceeds file size (88526188)"\n'
    )
    seen = read(text).subject
    assert (seen.runtime.state.need(), seen.model.path.need()) == ("failed", "/m.gguf")
    assert "exceeds file size" in seen.runtime.memory.load_error.need()
