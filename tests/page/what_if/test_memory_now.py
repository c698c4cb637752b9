import msgspec
import pytest
from memory_checks import check_sums, whole
from recorded_machines import first_case

from unslow.facts.runtime import Buffer
from unslow.facts.snapshot import Case
from unslow.facts.values import reported
from unslow.page.what_if import memory_of
from unslow.page.what_if.memory_view import Memory
from unslow.page.what_if.running import reported_parts

HEALTHY = "h200_llama_server_healthy_full_gpu"


def seen(name: str) -> Memory:
    memory = memory_of(None, first_case(name))
    assert isinstance(memory, Memory)
    return memory


def with_buffers(*buffers: tuple[str, str, int, bool]) -> Case:
    case = first_case(HEALTHY)
    made = [Buffer(device=d, kind=k, bytes=n, on_gpu=g) for d, k, n, g in buffers]  # type: ignore[arg-type]
    return msgspec.structs.replace(case, runtime=msgspec.structs.replace(case.runtime, buffers=reported(made, "test")))


def test_buffers_go_to_their_devices_in_their_order() -> None:
    case = with_buffers(
        ("CUDA10", "model", 5, True), ("CUDA2", "model", 7, True), ("CUDA2", "kv", 3, True),
        ("CPU", "compute", 2, False), ("CUDA2", "compute", 1, True), ("CPU", "output", 4, False),
    )  # fmt: skip
    assert reported_parts(case, 2) == [(7, 3, 1), (5, 0, 0), (0, 0, 6)]


def test_half_a_log_is_no_account() -> None:
    assert reported_parts(with_buffers(("CUDA0", "model", 5, True)), 1) is None
    both = ("CUDA0", "model", 5, True), ("CUDA1", "kv", 5, True), ("CUDA0", "compute", 5, True)
    assert reported_parts(with_buffers(*both), 1) is None
    assert reported_parts(with_buffers(*both), 3) is None


def test_without_a_log_it_is_laid_out() -> None:
    case = first_case(HEALTHY)
    told = memory_of(None, case)
    blind = memory_of(None, with_buffers())
    assert isinstance(told, Memory)
    assert isinstance(blind, Memory)
    assert told.view().source != blind.view().source
    for kind in ("weights", "kv", "compute"):
        measured, laid = (whole(memory.view().now.bars[0], kind) for memory in (told, blind))
        assert laid == pytest.approx(measured, rel=0.002)


def test_now_has_the_speed_that_the_report_expects_and_sliders_start_from_it() -> None:
    memory = seen(HEALTHY)
    now = memory.view().now.decode_tokens_per_s
    near = memory.what_if({"context": "2048"}).decode_tokens_per_s
    assert now
    assert near
    assert near.mid == pytest.approx(now.mid, rel=0.05)


def test_what_runs_though_it_is_too_large_is_said_to_run_and_not_to_fit(wording) -> None:
    now = seen("lab_gpu_driver_spills_weights").view().now
    check_sums(now)
    assert now.verdict == "does_not_fit"
    wording(now.summary, tells=("H200", "4.8 GiB"))
    assert now.decode_tokens_per_s is None


def test_a_vllm_that_runs_and_fits_lacks_nothing(wording) -> None:
    now = seen("built_vllm_small_model_over_four_risers").view().now
    check_sums(now)
    assert now.verdict == "fits"
    assert all(bar.fits and not whole(bar, "lacking") for bar in now.bars)
    wording(now.summary, tells=("36.7 GiB", "RTX 3060"))


def test_a_load_that_failed_shows_what_it_asked_for() -> None:
    now = seen("h200_llama_server_kv_cache_allocation_fails").view().now
    check_sums(now)
    assert now.verdict == "does_not_fit"
    assert whole(now.bars[0], "lacking") > 0


def test_a_mac_has_one_memory() -> None:
    now = seen("built_m2_max_healthy").view().now
    check_sums(now)
    (bar,) = now.bars
    assert bar.capacity_bytes == 64 * 2**30
    assert now.verdict == "fits"


def test_experts_with_the_host_stay_there(wording) -> None:
    memory = seen("lab_gpu_some_experts_on_cpu")
    now, half = memory.view().now, memory.what_if({"gpu_layers": "10"})
    wording(now.summary, tells="20")
    wording(half.summary, tells=("10 of 49", "H200"))
    assert "-ngl 10" in half.command
