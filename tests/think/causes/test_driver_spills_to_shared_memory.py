from pathlib import Path

from answers import ask
from cases import gpu_case, r, with_facts, without
from seen_live import watched
from told import pasted, says

from unslow.commands.diagnose.target import read_stored
from unslow.facts.account import Topic
from unslow.facts.machine import GpuProcess
from unslow.facts.runtime import Buffer, SeenDevice
from unslow.facts.values import GIB, MIB
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "driver_spills_to_shared_memory"
USED = says(Topic.SHARED_MEMORY_USED, "6 GB of shared GPU memory in use")


def fires():
    full = {"machine.gpus.0.shared_used_bytes": 6 * GIB, "machine.gpus.0.vram_free_bytes": 100 * MIB}
    return with_facts(gpu_case(), full | {"run.decode_tokens_per_s": 9.0})


def test_six_gib_of_shared_memory_on_a_full_gpu_fires():
    report = judge(CaseView(fires()))
    assert report.findings[0].cause == NAME
    assert "6.0 GiB" in report.findings[0].because


def test_told_shared_gpu_memory_on_windows_fires():
    report = judge(CaseView(pasted(USED, gpus=["RTX 3090", "RTX 3090"], system="Windows 10")))
    assert report.verdict == "slow"
    assert report.findings[0].cause == NAME
    assert report.findings[0].evidence[0].source == "paste:3"


def test_half_a_gib_of_shared_memory_is_ruled_out():
    assert isinstance(ask(NAME, with_facts(fires(), {"machine.gpus.0.shared_used_bytes": GIB // 2})), Absent)


def test_layers_that_the_runtime_left_on_the_cpu_are_ruled_out():
    case = with_facts(gpu_case(21, 5.0), {"machine.gpus.0.shared_used_bytes": 6 * GIB})
    assert isinstance(ask(NAME, case), Absent)


def test_integrated_gpu_is_ruled_out():
    assert isinstance(ask(NAME, pasted(USED, gpus=["Intel(R) UHD Graphics 770"], system="Windows 11")), Absent)


def test_told_shared_memory_not_of_a_gpu_gives_cannot_tell():
    vague = says(Topic.SHARED_MEMORY_USED, "docker shared memory is 64m")
    assert isinstance(ask(NAME, pasted(vague, gpus=["RTX 3090"], system="Linux")), CannotTell)


def test_told_shared_memory_of_a_desktop_gives_cannot_tell():
    for text in ("Shared GPU memory 0.3/15.9 GB", "shared GPU memory usage 200 MB"):
        little = says(Topic.SHARED_MEMORY_USED, text)
        assert isinstance(ask(NAME, pasted(little, gpus=["RTX 3090"], system="Windows 11")), CannotTell)


def fetching(bytes_per_s: float):
    slow = {"run.decode_tokens_per_s": 9.0, "machine.gpus.0.vram_free_bytes": 100 * MIB}
    return watched(with_facts(gpu_case(), slow), gpu={"pcie_receive_bytes_per_s": bytes_per_s})


def test_a_gib_over_pcie_per_token_fires(wording):
    answer = ask(NAME, fetching(9e9))
    assert isinstance(answer, Found)
    wording(answer.because, tells="954 MiB")


def test_weights_that_an_engine_fetches_as_it_was_told_are_no_spill():
    answer = ask(NAME, with_facts(fetching(9e9), {"runtime.placement.cpu_offload_bytes": 8 * GIB}))
    assert not isinstance(answer, Found)


def test_idle_link_and_full_gpu_give_cannot_tell():
    assert isinstance(ask(NAME, fetching(2e6)), CannotTell)


def test_free_vram_rules_it_out_and_a_full_gpu_without_counters_does_not():
    assert isinstance(ask(NAME, with_facts(gpu_case(), {"run.decode_tokens_per_s": 9.0})), Absent)
    unseen = without(fires(), "machine.gpus.0.shared_used_bytes")
    assert isinstance(ask(NAME, unseen), CannotTell)


def test_linux_driver_rules_it_out_unless_memory_may_move_or_under_wsl():
    full = with_facts(gpu_case(), {"machine.gpus.0.vram_free_bytes": 100 * MIB})
    linux = {"machine.system.kernel": "6.8.0-45-generic", "runtime.process.environment": {}}
    assert isinstance(ask(NAME, with_facts(full, linux)), Absent)
    movable = linux | {"runtime.process.environment": {"GGML_CUDA_ENABLE_UNIFIED_MEMORY": "1"}}
    assert isinstance(ask(NAME, with_facts(full, movable)), CannotTell)
    wsl = linux | {"machine.system.kernel": "5.15.153.1-microsoft-standard-WSL2"}
    assert isinstance(ask(NAME, with_facts(full, wsl)), CannotTell)


def test_other_process_is_the_root_where_memory_may_move():
    own = GpuProcess(pid=10, name=r("llama-server"), vram_bytes=r(3 * GIB))
    other = GpuProcess(pid=77, name=r("blender"), vram_bytes=r(18 * GIB))
    moved = {
        "runtime.process.environment": {"GGML_CUDA_ENABLE_UNIFIED_MEMORY": "1"},
        "machine.gpus.0.processes": [own, other],
        "run.decode_tokens_per_s": 9.0,
    }
    report = judge(CaseView(with_facts(gpu_case(33, free_gib=4.0), moved)))
    assert report.findings[0].cause == "other_process_holds_vram"
    assert NAME in report.findings[0].explains
    assert isinstance(ask(NAME, with_facts(gpu_case(33, free_gib=20.0), moved)), Absent)


def pinned(shared_gib: float, buffer: str = "CUDA_Host"):
    """Experts that the runtime itself keeps in host memory, from where the GPU can read them."""
    buffers = [
        Buffer(device="CUDA0", kind="model", bytes=8 * GIB, on_gpu=True),
        Buffer(device=buffer, kind="model", bytes=12 * GIB, on_gpu=False),
    ]
    facts = {
        "runtime.placement.tensor_overrides": ["exps=CPU"], "model.experts": 64, "runtime.memory.buffers": buffers,
        "machine.gpus.0.shared_used_bytes": int(shared_gib * GIB),
    }  # fmt: skip
    return with_facts(fires(), facts)


def test_host_buffers_of_the_runtime_are_not_a_spill():
    assert isinstance(ask(NAME, pinned(12.2)), Absent)
    assert isinstance(ask(NAME, pinned(12.2, "CPU_Mapped")), Absent)


def test_shared_memory_beyond_the_runtimes_host_buffers_fires():
    answer = ask(NAME, pinned(18))
    assert isinstance(answer, Found)
    assert "6.0 GiB" in answer.because


def test_shared_memory_beside_free_vram_is_ruled_out():
    roomy = {"machine.gpus.0.vram_free_bytes": 4 * GIB, "machine.gpus.0.shared_used_bytes": 6 * GIB}
    assert isinstance(ask(NAME, with_facts(gpu_case(), roomy)), Absent)


def fixes(name: str) -> list[tuple[str, object]]:
    (case,) = read_stored(str(Path(__file__).parents[2] / "machines" / name)).cases()
    return [(fix.knob, fix.value) for fix in judge(CaseView(case)).findings[0].fixes]


def test_model_larger_than_the_card_is_offered_the_layers_that_fit():
    (case,) = read_stored(str(Path(__file__).parents[2] / "machines/built_windows_rtx_4060_shared_memory")).cases()
    report = judge(CaseView(case))
    assert report.findings[0].fixes[0].knob == "gpu_layers"
    assert 0 < report.findings[0].fixes[0].value < 49
    assert report.findings[0].fixes[0].predicted["decode_tokens_per_s"] < 15  # with all layers on it 24


def test_too_large_cache_on_amd_is_offered_a_shorter_context_and_no_driver_setting():
    (knob, context), *others = fixes("built_rx_7900_xtx_gtt_spill")
    assert knob == "context_length"
    assert 4096 <= context < 32768
    assert "driver_fallback" not in dict(others)  # that setting is NVIDIA's, of Windows


def test_nvidia_on_windows_is_offered_the_driver_setting():
    assert "driver_fallback" in dict(fixes("built_windows_rtx_4060_shared_memory"))


def allocated(gib: float, **facts):
    """Buffers on a card of 24 GiB with 20 free, without a counter of lent memory."""
    device = SeenDevice(name="CUDA0", total_bytes=r(24 * GIB), free_bytes=r(20 * GIB))
    buffers = [Buffer(device="CUDA0", kind="model", bytes=int(gib * GIB), on_gpu=True)]
    full = {
        "machine.gpus.0.vram_free_bytes": 100 * MIB,
        "runtime.placement.devices": [device],
        "runtime.memory.buffers": buffers,
    }
    return with_facts(gpu_case(), full | {"run.decode_tokens_per_s": 9.0} | facts)


def test_more_allocated_than_the_card_has_fires_on_any_system():
    for kernel in ("6.8.0-45-generic", "5.15.153.1-microsoft-standard-WSL2"):
        answer = ask(NAME, allocated(27.0, **{"machine.system.kernel": kernel, "runtime.process.environment": {}}))
        assert isinstance(answer, Found)
        assert "27.0 GiB" in answer.because
        assert "24.0 GiB" in answer.because


def test_more_allocated_than_was_free_fires_only_where_the_driver_may_lend():
    assert isinstance(ask(NAME, allocated(22.0)), Found)
    assert isinstance(ask(NAME, allocated(20.2)), CannotTell), "others may have given so much back"
    linux = {"machine.system.kernel": "6.8.0-45-generic", "runtime.process.environment": {}}
    assert isinstance(ask(NAME, allocated(22.0, **linux)), Absent), "there it would have failed"
