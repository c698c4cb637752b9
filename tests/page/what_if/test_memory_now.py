import msgspec
import pytest
from memory_checks import check_sums, whole
from recorded_machines import first_case

from unslow.facts.runtime import Buffer
from unslow.facts.snapshot import Case
from unslow.facts.values import reported_fact
from unslow.page.what_if import memory_of
from unslow.page.what_if.memory_view import Memory
from unslow.page.what_if.running import reported_parts
from unslow.think.case.view import CaseView

HEALTHY = "h200_llama_server_healthy_full_gpu"


def seen(name: str) -> Memory:
    memory = memory_of(None, CaseView(first_case(name)))
    assert isinstance(memory, Memory)
    return memory


def with_buffers(*buffers: tuple[str, str, int, bool]) -> Case:
    case = first_case(HEALTHY)
    made = [Buffer(device=d, kind=k, bytes=n, on_gpu=g) for d, k, n, g in buffers]  # type: ignore[arg-type]
    return msgspec.structs.replace(case, runtime=case.runtime.with_facts(buffers=reported_fact(made, "test")))


def test_reported_buffers_are_assigned_to_devices_in_order() -> None:
    case = with_buffers(
        ("CUDA10", "model", 5, True), ("CUDA2", "model", 7, True), ("CUDA2", "kv", 3, True),
        ("CPU", "compute", 2, False), ("CUDA2", "compute", 1, True), ("CPU", "output", 4, False),
    )  # fmt: skip
    assert reported_parts(CaseView(case), 2) == [(7, 3, 1), (5, 0, 0), (0, 0, 6)]


def test_incomplete_buffer_log_is_not_used() -> None:
    assert reported_parts(CaseView(with_buffers(("CUDA0", "model", 5, True))), 1) is None
    both = ("CUDA0", "model", 5, True), ("CUDA1", "kv", 5, True), ("CUDA0", "compute", 5, True)
    assert reported_parts(CaseView(with_buffers(*both)), 1) is None
    assert reported_parts(CaseView(with_buffers(*both)), 3) is None


def test_layout_is_calculated_without_a_log() -> None:
    case = first_case(HEALTHY)
    told = memory_of(None, CaseView(case))
    blind = memory_of(None, CaseView(with_buffers()))
    assert isinstance(told, Memory)
    assert isinstance(blind, Memory)
    assert told.view.source != blind.view.source
    for kind in ("weights", "kv", "compute"):
        measured, laid = (whole(memory.view.now.bars[0], kind) for memory in (told, blind))
        assert laid == pytest.approx(measured, rel=0.002)


def test_nearby_slider_setting_keeps_the_current_speed() -> None:
    memory = seen(HEALTHY)
    now = memory.view.now.decode_tokens_per_s
    near = memory.what_if({"context": "2048"}).decode_tokens_per_s
    assert now
    assert near
    assert near.mid == pytest.approx(now.mid, rel=0.05)


def test_running_model_that_should_not_fit_is_said_to_run(wording) -> None:
    now = seen("lab_gpu_driver_spills_weights").view.now
    check_sums(now)
    assert now.verdict == "does_not_fit"
    wording(now.summary, tells=("H200", "4.8 GiB"))
    assert now.decode_tokens_per_s is None


def test_running_vllm_that_fits_lacks_nothing(wording) -> None:
    now = seen("built_vllm_small_model_over_four_risers").view.now
    check_sums(now)
    assert now.verdict == "fits"
    assert all(bar.fits and not whole(bar, "lacking") for bar in now.bars)
    wording(now.summary, tells=("36.7 GiB", "RTX 3060"))


def test_failed_load_shows_the_requested_memory() -> None:
    now = seen("h200_llama_server_kv_cache_allocation_fails").view.now
    check_sums(now)
    assert now.verdict == "does_not_fit"
    assert whole(now.bars[0], "lacking") > 0


def test_unified_memory_has_a_single_bar() -> None:
    now = seen("built_m2_max_healthy").view.now
    check_sums(now)
    (bar,) = now.bars
    assert bar.capacity_bytes == 64 * 2**30
    assert now.verdict == "fits"


def test_offloaded_experts_stay_on_the_host_when_sliders_move(wording) -> None:
    memory = seen("lab_gpu_some_experts_on_cpu")
    now, half = memory.view.now, memory.what_if({"gpu_layers": "10"})
    wording(now.summary, tells="20")
    wording(half.summary, tells=("10 of 49", "H200"))
    assert "-ngl 10" in half.command
