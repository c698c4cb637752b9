"""What is no question of a case, whatever else is known: no GPU in use, a load that failed, another kind of runtime."""

import pytest
from answers import ask
from cases import gpu_case, with_facts
from firing import no_backend

from unslow.facts.runtime import FACT_PATHS, AllocationFailure, SeenDevice
from unslow.facts.values import not_found
from unslow.think.case.view import CaseView
from unslow.think.causes import all_causes
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

PLACED = sorted(name for name, cause in all_causes().items() if cause.on_gpu)
FAILURE = AllocationFailure(device="CUDA0", what="weights", message="cudaMalloc failed: out of memory")


def unseen(**changes):
    """A runtime of which no log tells where the weights lie."""
    hidden = {
        f"runtime.{FACT_PATHS[name]}": not_found("not printed")
        for name in ("devices", "buffers", "gpu_layers", "layers")
    }
    return with_facts(gpu_case(), {**hidden, "machine.gpus.0.processes": not_found("no list"), **changes})


@pytest.mark.parametrize("name", PLACED)
def test_what_lies_on_a_gpu_is_no_question_where_the_runtime_sees_none(name):
    assert isinstance(
        ask(name, with_facts(no_backend(), {"runtime.placement.devices": [SeenDevice(name="CPU")]})), Absent
    )


@pytest.mark.parametrize("name", ["weights_spill_to_ram", "output_layer_on_cpu", "other_process_holds_vram"])
def test_a_hidden_gpu_and_one_that_a_setting_keeps_away_from(name):
    assert isinstance(ask(name, unseen()), CannotTell)
    assert isinstance(ask(name, unseen(**{"runtime.process.environment": {"CUDA_VISIBLE_DEVICES": ""}})), Absent)
    assert isinstance(ask(name, unseen(**{"runtime.placement.device_set": "none"})), Absent)
    assert isinstance(ask(name, unseen(**{"runtime.process.environment": {"CUDA_VISIBLE_DEVICES": "0"}})), CannotTell)


def test_a_backend_that_is_missing_is_the_one_finding():
    report = judge(CaseView(no_backend()))
    assert [f.cause for f in report.findings] == ["gpu_backend_not_loaded"]
    assert not {u.cause for u in report.cannot_tell} & set(PLACED)


def test_of_a_failed_load_only_what_explains_it_matters():
    gone = {
        "runtime.state": "failed",
        "runtime.memory.allocation_failure": FAILURE,
        "machine.gpus": not_found("no driver"),
    }
    report = judge(CaseView(with_facts(unseen(), gone)))
    assert report.findings[0].cause == "memory_allocation_failed"
    open_ones = {u.cause for u in report.cannot_tell}
    assert open_ones <= {name for name, cause in all_causes().items() if cause.fails_load}
    assert not open_ones & {"context_larger_than_needed", "parallel_slots_inflate_kv", "gpu_backend_not_loaded"}
    assert not open_ones & {"gpu_architecture_unsupported", "threads_too_few", "sampling_on_cpu"}


def test_a_load_that_works_rules_out_nothing():
    assert isinstance(
        ask("gpu_layers_set_too_low", with_facts(gpu_case(20), {"runtime.placement.gpu_layers_set": 20})), Found
    )


def test_what_only_llama_cpp_does():
    paged = unseen(**{"runtime.name": "vLLM", "run.decode_tokens_per_s": 90.0})
    assert isinstance(ask("output_layer_on_cpu", paged), Absent)
    assert isinstance(ask("output_layer_on_cpu", with_facts(paged, {"runtime.name": not_found("no")})), CannotTell)


@pytest.mark.parametrize("name", ["kv_cache_on_host", "uneven_split", "wrong_device_selected"])
def test_a_paged_runtime_on_one_gpu_needs_no_log(name):
    assert isinstance(ask(name, unseen(**{"runtime.name": "vLLM"})), Absent)


@pytest.mark.parametrize("name", ["eager_mode", "numa_remote_memory", "threads_exceed_cpu_quota", "pcie_link_degraded"])
def test_what_no_mac_has(name):
    mac = {"machine.system.name": "macOS 15.6", "machine.gpus.0.vendor": "Apple", "machine.gpus.0.name": "Apple M2 Max"}
    assert isinstance(ask(name, with_facts(gpu_case(), mac)), Absent)


def test_a_quota_is_a_matter_of_linux_and_of_containers():
    windows = with_facts(gpu_case(20), {"machine.system.name": "Microsoft Windows 11 Pro"})
    assert isinstance(ask("threads_exceed_cpu_quota", windows), Absent)
    assert isinstance(
        ask("threads_exceed_cpu_quota", with_facts(windows, {"runtime.process.container": "docker"})), CannotTell
    )
