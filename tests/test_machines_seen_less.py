"""Recorded machines with fewer known facts than were recorded, or with a harmless oddity."""

import msgspec
import pytest
from cases import gpu_case, r, with_facts
from recorded_machines import first_case

from unslow.facts.machine import GpuProcess, Machine
from unslow.facts.snapshot import Case
from unslow.facts.values import MIB, Known, not_found
from unslow.think.case.view import CaseView
from unslow.think.judge.judge import judge
from unslow.think.physics.placement import link_bytes_per_s

GONE = not_found("nobody could look")
SETTINGS = ("command", "environment", "gpu_layers_set", "tensor_overrides", "device_set", "fit", "split_mode")
LOG = ("gpu_layers", "layers", "buffers", "devices", "backends", "kv_bytes", "kv_cells", "graph_splits", "loads",
       "output_on_gpu", "overflowing_layers", "asked_bytes", "available_bytes", "flash_attention")  # fmt: skip


def without(case: Case, group: str, names: tuple[str, ...]) -> Case:
    facts = getattr(case, group)
    if group == "runtime":
        gone = {name: GONE for name in names if isinstance(facts.fact(name), Known)}
        return msgspec.structs.replace(case, runtime=facts.with_facts(**gone))
    gone = {name: GONE for name in names if isinstance(getattr(facts, name), Known)}
    return msgspec.structs.replace(case, **{group: msgspec.structs.replace(facts, **gone)})


def causes(case: Case) -> list[str]:
    return [finding.cause for finding in judge(CaseView(case)).findings]


def test_cpu_layers_with_unreadable_settings_ask_for_the_command_line():
    report = judge(CaseView(without(first_case("lab_gpu_gpu_layers_28"), "runtime", SETTINGS)))
    assert report.verdict == "slow"
    assert report.findings == (), "a setting or an estimate: only the command line tells which"
    asked = {c.cause: c.how_to_get for c in report.cannot_tell}
    assert "command line" in asked["gpu_layers_set_too_low"]
    assert "command line" in asked["memory_estimate_too_careful"]


def test_experts_on_cpu_are_found_from_buffers_without_settings():
    report = judge(CaseView(without(first_case("lab_gpu_all_experts_on_cpu"), "runtime", SETTINGS)))
    assert report.findings[0].cause == "experts_on_cpu"
    assert "type_without_gpu_kernel" not in [f.cause for f in report.findings]
    known = judge(CaseView(first_case("lab_gpu_all_experts_on_cpu"))).expected
    assert report.expected.as_configured["decode_tokens_per_s"].mid == pytest.approx(
        known.as_configured["decode_tokens_per_s"].mid, rel=0.3
    )


def test_copied_weights_are_swapped_and_not_streamed():
    unwatched = without(first_case("lab_cpu_swapping"), "run", ("telemetry", "own_cpus", "others_cpus"))
    assert causes(unwatched) == ["swapping"]


@pytest.mark.parametrize("more", [(), SETTINGS])
def test_unknown_placement_never_gives_a_normal_verdict(more):
    report = judge(CaseView(without(first_case("lab_gpu_context_pinned"), "runtime", (*LOG, *more))))
    assert report.verdict != "normal"
    assert report.summary


def test_queueing_is_found_without_known_hardware():
    distant = msgspec.structs.replace(first_case("lab_cpu_queueing"), machine=Machine())
    assert causes(without(distant, "runtime", (*LOG, *SETTINGS))) == ["queueing"]


def test_a_desktop_on_the_gpu_is_not_other_work():
    case = first_case("built_h200_power_limit_200_w")
    listed = case.machine.gpus.need()[0].processes.need()
    desktop = GpuProcess(pid=99999, name=r("/usr/lib/xorg/Xorg"), vram_bytes=r(300 * MIB))
    assert causes(with_facts(case, {"machine.gpus.0.processes": [*listed, desktop]})) == ["gpu_power_capped"]


def test_a_missing_gpu_backend_comes_before_slow_cpu_causes():
    case = with_facts(first_case("h200_llama_server_cuda_hidden_threads_64"), {"machine.gpus": GONE})
    assert causes(case)[0] == "gpu_backend_not_loaded"


def test_without_a_gpu_list_cpu_speed_is_never_normal():
    report = judge(CaseView(with_facts(first_case("lab_gpu_gpu_hidden"), {"machine.gpus": GONE})))
    assert report.verdict != "normal"


def test_an_idle_pcie_link_counts_with_its_maximum_generation():
    asleep = {"machine.gpus.0.pcie_generation": 1, "machine.gpus.0.pcie_generation_max": 4,
              "machine.gpus.0.pcie_width": 16}  # fmt: skip
    idle = with_facts(gpu_case(), {**asleep, "machine.gpus.0.busy": 0.0})
    assert CaseView(idle).gpus.host_link_bytes_per_s == link_bytes_per_s(4, 16)
    assert CaseView(with_facts(idle, {"machine.gpus.0.pcie_generation_max": GONE})).gpus.host_link_bytes_per_s is None
    assert CaseView(with_facts(idle, {"machine.gpus.0.busy": 0.95})).gpus.host_link_bytes_per_s == link_bytes_per_s(
        1, 16
    )
