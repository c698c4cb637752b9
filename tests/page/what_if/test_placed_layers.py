"""The assumed number of GPU layers without a log."""

import msgspec
import pytest
from memory_checks import check_sums, whole
from recorded_machines import first_case

from unslow.facts.machine import GpuProcess
from unslow.facts.snapshot import Case
from unslow.facts.values import GIB, NOT_LOOKED, Fact, Known, reported_fact
from unslow.page.view import WhatIf
from unslow.page.what_if import memory_of
from unslow.page.what_if.memory_view import Memory
from unslow.think.case.view import CaseView


def without_its_log(name: str, **changed: object) -> Case:
    case = first_case(name)
    unseen = dict.fromkeys(("gpu_layers", "layers", "buffers", "overflowing_layers", "output_on_gpu"), NOT_LOOKED)
    return msgspec.structs.replace(case, runtime=case.runtime.with_facts(**{**unseen, **changed}))


def now(case: Case) -> WhatIf:
    memory = memory_of(None, CaseView(case))
    assert isinstance(memory, Memory)
    what = memory.view.now
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
def test_gpu_layers_are_inferred_from_the_vram_of_the_process(name: str, wording) -> None:
    found, truth = now(without_its_log(name)), first_case(name).runtime.placement.gpu_layers
    assert isinstance(truth, Known)
    assert found.settings["gpu_layers"] == str(truth.value)
    wording(found.notes, tells=str(truth.value))


def test_spilled_model_without_a_log_is_not_assumed_fully_offloaded() -> None:
    found = now(without_its_log("h200_seen_spilled"))
    assert found.verdict == "partly"
    assert found.decode_tokens_per_s is not None


def test_gpu_layers_setting_takes_precedence_over_vram(wording) -> None:
    found = now(without_its_log("lab_gpu_driver_spills_weights"))  # which lie with the host, whatever was told
    assert found.settings["gpu_layers"] == "33"
    wording(found.notes[0], tells="99")


def test_vram_of_a_moe_model_is_not_converted_to_layers(wording) -> None:
    found = now(without_its_log("h200_llama_server_moe_spill_stranger"))
    wording(found.notes[0])


def listing(case: Case, processes: Fact[list[GpuProcess]]) -> Case:
    (gpu,) = case.machine.gpus.need()
    seen = msgspec.structs.replace(gpu, processes=processes)
    return msgspec.structs.replace(
        case, machine=msgspec.structs.replace(case.machine, gpus=reported_fact((seen,), "test"))
    )


def test_unlisted_moe_server_is_assumed_to_use_what_fits(wording) -> None:
    found = now(listing(without_its_log("h200_llama_server_moe_spill_stranger"), NOT_LOOKED))
    assert int(found.settings["gpu_layers"]) > 0
    wording([note for note in found.notes if "layers" in note], tells=found.settings["gpu_layers"])


@pytest.mark.parametrize(
    "name", ["built_ollama_num_gpu_20_and_keep_alive_0", "built_ollama_reloads_for_other_contexts"]
)
def test_ollama_vram_share_takes_precedence_over_the_driver(name: str, wording) -> None:
    found, truth = now(without_its_log(name)), first_case(name).runtime.placement.gpu_layers
    assert found.settings["gpu_layers"] == str(truth.need())
    wording(found.notes)


def test_unnamed_vram_in_a_container_belongs_to_the_server(wording) -> None:
    case = without_its_log("h200_seen_spilled")
    others = [p for p in case.machine.gpus.need()[0].processes.need() if p.pid != case.runtime.process.pid.need()]
    found = now(listing(case, reported_fact(others, "test")))
    assert abs(int(found.settings["gpu_layers"]) - 19) <= 1
    wording([note for note in found.notes if "layers" in note], tells=found.settings["gpu_layers"])
    assert found.bars[0].fits


def test_unnamed_vram_of_the_server_is_counted_once() -> None:
    case = without_its_log("h200_live_healthy", gpu_layers=reported_fact(33, "test"), layers=reported_fact(33, "test"))
    told, hidden = now(case), now(listing(case, NOT_LOOKED))
    for kind in ("weights", "kv", "stranger"):
        assert whole(hidden.bars[0], kind) == pytest.approx(whole(told.bars[0], kind), abs=0.7 * GIB)


def test_reported_gpu_layers_need_no_assumption() -> None:
    found = now(first_case("h200_seen_spilled"))
    assert not any("layers" in note for note in found.notes)


def test_unused_reserve_is_not_a_shortage() -> None:
    found = now(first_case("built_rtx_4060_llama_70b"))
    assert found.verdict == "partly"
    assert all(bar.fits for bar in found.bars)
