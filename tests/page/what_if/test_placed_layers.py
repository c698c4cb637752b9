"""How many layers are on the GPU where no log tells."""

import msgspec
import pytest
from memory_checks import check_sums, whole
from recorded_machines import first_case

from unslow.facts.machine import GpuProcess
from unslow.facts.snapshot import Case
from unslow.facts.values import GIB, NOT_LOOKED, Fact, Known, reported
from unslow.page.view import WhatIf
from unslow.page.what_if import memory_of
from unslow.page.what_if.memory_view import Memory


def without_its_log(name: str, **changed: object) -> Case:
    case = first_case(name)
    unseen = dict.fromkeys(("gpu_layers", "layers", "buffers", "overflowing_layers", "output_on_gpu"), NOT_LOOKED)
    return msgspec.structs.replace(case, runtime=msgspec.structs.replace(case.runtime, **{**unseen, **changed}))


def now(case: Case) -> WhatIf:
    memory = memory_of(None, case)
    assert isinstance(memory, Memory)
    what = memory.view().now
    check_sums(what)
    return what


@pytest.mark.parametrize(
    "name",
    [
        "h200_seen_spilled",
        "h200_llama_server_context_pinned_spill",
        "lab_gpu_flash_attention_off",
        "lab_gpu_kv_on_host",
    ],
)
def test_what_the_driver_counts_tells_the_layers(name: str, wording) -> None:
    found, truth = now(without_its_log(name)), first_case(name).runtime.gpu_layers
    assert isinstance(truth, Known)
    assert found.settings["gpu_layers"] == str(truth.value)
    wording(found.notes, tells=str(truth.value))


def test_a_spilled_model_without_a_log_is_not_said_to_be_whole() -> None:
    found = now(without_its_log("h200_seen_spilled"))
    assert found.verdict == "partly"
    assert found.decode_tokens_per_s is not None


def test_what_it_was_told_counts_more_than_bytes(wording) -> None:
    found = now(without_its_log("lab_gpu_driver_spills_weights"))  # which lie with the host, whatever was told
    assert found.settings["gpu_layers"] == "33"
    wording(found.notes[0], tells="99")


def test_experts_may_lie_apart_so_bytes_are_no_count_of_layers(wording) -> None:
    found = now(without_its_log("h200_llama_server_moe_spill_stranger"))
    wording(found.notes[0])


def listing(case: Case, processes: Fact[list[GpuProcess]]) -> Case:
    (gpu,) = case.machine.gpus.need()
    seen = msgspec.structs.replace(gpu, processes=processes)
    return msgspec.structs.replace(case, machine=msgspec.structs.replace(case.machine, gpus=reported((seen,), "test")))


def test_experts_of_a_server_that_nobody_lists_lie_where_they_fit(wording) -> None:
    found = now(listing(without_its_log("h200_llama_server_moe_spill_stranger"), NOT_LOOKED))
    assert int(found.settings["gpu_layers"]) > 0
    wording([note for note in found.notes if "layers" in note], tells=found.settings["gpu_layers"])


@pytest.mark.parametrize(
    "name", ["built_ollama_num_gpu_20_and_keep_alive_0", "built_ollama_reloads_for_other_contexts"]
)
def test_what_ollama_says_of_its_model_counts_more_than_the_driver(name: str, wording) -> None:
    found, truth = now(without_its_log(name)), first_case(name).runtime.gpu_layers
    assert found.settings["gpu_layers"] == str(truth.need())
    wording(found.notes)


def test_in_a_container_the_memory_without_a_name_is_its_own(wording) -> None:
    case = without_its_log("h200_seen_spilled")
    others = [p for p in case.machine.gpus.need()[0].processes.need() if p.pid != case.runtime.pid.need()]
    found = now(listing(case, reported(others, "test")))
    assert abs(int(found.settings["gpu_layers"]) - 19) <= 1
    wording([note for note in found.notes if "layers" in note], tells=found.settings["gpu_layers"])
    assert found.bars[0].fits


def test_what_a_server_holds_is_counted_once_where_the_driver_names_nobody() -> None:
    case = without_its_log("h200_live_healthy", gpu_layers=reported(33, "test"), layers=reported(33, "test"))
    told, hidden = now(case), now(listing(case, NOT_LOOKED))
    for kind in ("weights", "kv", "stranger"):
        assert whole(hidden.bars[0], kind) == pytest.approx(whole(told.bars[0], kind), abs=0.7 * GIB)


def test_layers_that_were_counted_need_no_guess() -> None:
    found = now(first_case("h200_seen_spilled"))
    assert not any("layers" in note for note in found.notes)


def test_a_reserve_that_was_not_used_is_no_lack() -> None:
    found = now(first_case("built_rtx_4060_llama_70b"))
    assert found.verdict == "partly"
    assert all(bar.fits for bar in found.bars)
