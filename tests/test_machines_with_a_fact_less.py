"""The contract of every cause on recorded machines: a missing fact neither proves nor rules out a cause.

One or two facts of each machine are blanked. A finding or a ruled-out cause may become a suspicion or undetermined, but
a finding never becomes ruled out, nor the reverse.
"""

import random
from collections.abc import Callable
from functools import cache

import pytest
from blanked import Watched, blanked
from recorded_machines import FOLDERS as MACHINES
from recorded_machines import first_case

from unslow.facts.snapshot import Case
from unslow.think.case.view import CaseView
from unslow.think.causes import all_causes
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import _answer

pytestmark = pytest.mark.no_cover  # many judgements of the same lines
SEED = 20
SAMPLED = 12
"""Machines of each run of the test: each with its own causes and facts."""
QUIET = 12
"""Causes of each machine that are ruled out there, drawn by chance; all that are found are tried."""
SINGLE, PAIRS = 10, 4
"""Facts, and pairs of facts, that are blanked for each cause."""

SET_OR_NOT = "a setting that the command line would have: where it is not given, the default holds"
NOT_FAILED = "a load that failed says so: where nothing says so, none did"
NO_LIMIT = "a limit that nobody could read is taken for none, or every machine without containers would be a question"
ITS_LENGTH = "it tells how long the prompts were whose speed was measured: the two are read together"
ASKED_FOR = "what clients ask for shows only while they ask; the answer says so"
THE_NORM = "physics holds the speed against it; an estimate stands in for it, and what is slow may seem normal"
LOOKED_FOR = "who can look at the machine's GPUs can look at the process, where alone a renderer shows"
REVIEWED = {
    ("gpu_layers_set_too_low", "runtime.placement.gpu_layers_set"): SET_OR_NOT,
    ("gpu_layers_set_too_low", "runtime.placement.device_set"): SET_OR_NOT,
    ("memory_estimate_too_careful", "runtime.placement.gpu_layers_set"): SET_OR_NOT,
    ("memory_allocation_failed", "runtime.memory.allocation_failure"): NOT_FAILED,
    ("other_process_holds_vram", "runtime.memory.allocation_failure"): NOT_FAILED,
    ("threads_exceed_cores", "runtime.process.allowed_cpus"): NO_LIMIT,
    ("cpu_contended", "runtime.process.allowed_cpus"): NO_LIMIT,
    ("threads_exceed_cpu_quota", "runtime.process.allowed_cpus"): NO_LIMIT,
    ("cpu_contended", "runtime.placement.gpu_layers"): THE_NORM,
    ("wrong_device_selected", "runtime.placement.software_renderer"): LOOKED_FOR,
    ("prefill_pcie_bound", "run.completions"): ITS_LENGTH,
    ("sampling_on_cpu", "run.traffic"): ASKED_FOR,
    ("sampling_on_cpu", "run.traffic.logprobs"): ASKED_FOR,
    ("sampling_on_cpu", "machine.memory.read_bytes_per_s"): THE_NORM,
    ("numa_remote_memory", "machine.memory.read_bytes_per_s"): THE_NORM,
    ("speculative_decoding_hurts", "machine.memory.read_bytes_per_s"): THE_NORM,
    ("speculative_decoding_hurts", "model.parameters"): THE_NORM,
}
"""The facts whose absence is an answer, each for one cause, with the reason."""


@cache
def whole_answer(machine: str, name: str) -> Found | Absent | CannotTell:
    return _answer(CaseView(first_case(machine)), all_causes()[name])


def turned(machine: str, name: str, paths: tuple[str, ...]) -> str:
    """In which way a cause contradicts itself without these facts; empty where it does not."""
    less, before = first_case(machine), whole_answer(machine, name)
    for path in paths:
        less = blanked(less, path)
    after = _answer(CaseView(less), all_causes()[name])
    opposite = Absent if isinstance(before, Found) else Found
    return f"{before} became {after}" if isinstance(after, opposite) else ""


def asking(name: str) -> Callable[[Case], object]:
    return lambda case: _answer(CaseView(case), all_causes()[name])


def trials(machine: str, chance: random.Random) -> list[tuple[str, tuple[str, ...]]]:
    """Causes that are settled, each with facts to blank: those that it looks at."""
    watched, answers = Watched(first_case(machine)), {name: whole_answer(machine, name) for name in all_causes()}
    quiet = [name for name, answer in answers.items() if isinstance(answer, Absent)]
    names = [name for name, answer in answers.items() if isinstance(answer, Found)]
    chosen = []
    for name in names + chance.sample(quiet, min(QUIET, len(quiet))):
        read = [path for path in watched.read_by(asking(name)) if (name, path) not in REVIEWED]
        single = chance.sample(read, min(SINGLE, len(read)))
        pairs = [chance.sample(read, 2) for _ in range(PAIRS) if len(read) > 1]
        chosen += [(name, tuple(paths)) for paths in ([[path] for path in single] + pairs) if not _nested(paths)]
    return chosen


def _nested(paths: list[str]) -> bool:
    """Whether one fact is a part of the other, and gone with it."""
    return any(a != b and a.startswith(f"{b}.") for a in paths for b in paths)


def test_a_missing_fact_neither_proves_a_cause_nor_rules_it_out():
    chance = random.Random(SEED)
    wrong = []
    for machine in chance.sample(MACHINES, SAMPLED):
        for name, paths in trials(machine.name, chance):
            how = turned(machine.name, name, paths)
            wrong += [f"{machine.name}: {name} without {' and '.join(paths)}: {how}"] if how else []
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(("name", "path"), list(REVIEWED))
def test_every_reviewed_exception_names_a_cause_and_a_reason(name, path):
    assert name in all_causes()
    assert len(REVIEWED[name, path]) > len(path)


SEEN_TO_TURN = [
    ("h200_llama_server_healthy_8b", "other_process_holds_vram", "runtime.memory.available_bytes"),
    ("built_h200_power_limit_200_w", "memory_estimate_too_careful", "runtime.placement.layers"),
    ("lab_gpu_context_pinned", "parallel_slots_inflate_kv", "runtime.cache.unified"),
    ("lab_gpu_output_on_cpu", "output_layer_on_cpu", "runtime.placement.tensor_overrides"),
    ("lab_cpu_small_ubatch", "prefill_batch_too_small", "runtime.compute.ubatch"),
    ("lab_gpu_cpus_overrun", "cpu_contended", "run.others_cpus"),
    ("lab_cpu_threads_too_many", "cpu_contended", "runtime.compute.threads"),
    ("lab_cpu_threads_and_contention", "cpu_contended", "runtime.process.pid"),
    ("built_rtx_4060_ti_x1_riser", "prefill_pcie_bound", "machine.gpus.0.pcie_generation"),
    ("built_rtx_4060_ti_x1_riser", "prefill_pcie_bound", "machine.gpus.0.pcie_width"),
    ("lab_gpu_flash_attention_off", "weights_spill_to_ram", "runtime.compute.flash_attention"),
    ("lab_gpu_flash_attention_off", "other_process_holds_vram", "runtime.compute.ubatch"),
    ("lab_gpu_stranger_moves_experts", "weights_spill_to_ram", "runtime.placement.overflowing_layers"),
    ("built_ollama_leaves_layers_out", "weights_spill_to_ram", "model.weights_bytes"),
    ("lab_cpu_swapping", "weights_streamed_from_disk", "run.telemetry.host.swap_in_bytes_per_s"),
    ("lab_gpu_driver_spills_weights", "other_process_holds_vram", "machine.gpus.0.processes"),
    ("lab_gpu_driver_spills_weights", "other_process_holds_vram", "runtime.process.environment"),
    ("lab_gpu_layers_and_many_threads", "threads_exceed_cpu_quota", "machine.cpu.logical_cpus"),
    ("lab_gpu_flash_attention_off", "context_larger_than_needed", "runtime.history.longest_sequence"),
    ("lab_gpu_flash_attention_off", "context_larger_than_needed", "model.tensors"),
    ("built_i9_13900k_threads_on_performance_cores", "threads_too_few", "machine.cpu.efficiency_cores"),
    ("h200_llama_server_kv_on_host", "cpu_round_trip_bound", "runtime.memory.buffers"),
    ("built_vllm_bitsandbytes", "threads_exceed_cpu_quota", "machine.gpus"),
]
"""Machines, causes and facts for which it once did not hold."""


PAIRS_SEEN_TO_TURN = [
    (
        "built_two_rtx_3090_row_split",
        "memory_estimate_too_careful",
        "machine.gpus.0.processes",
        "runtime.placement.layers",
    ),
    ("built_two_rtx_3090_row_split", "multi_gpu_link_bound", "machine.gpus.0.processes", "runtime.memory.buffers"),
    ("built_rtx_3090_and_p40_uneven_split", "uneven_split", "machine.gpus.1.processes", "runtime.memory.buffers"),
    (
        "lab_gpu_experts_and_few_threads",
        "type_without_gpu_kernel",
        "runtime.memory.buffers",
        "runtime.placement.tensor_overrides",
    ),
    (
        "lab_gpu_stranger_moves_experts",
        "weights_spill_to_ram",
        "runtime.memory.buffers",
        "runtime.placement.overflowing_layers",
    ),
    ("lab_cpu_quota_and_top_k_0", "threads_exceed_cpu_quota", "runtime.compute.threads", "runtime.process.quota_cpus"),
    ("built_windows_rtx_4060_shared_memory", "weights_spill_to_ram", "runtime.placement.gpu_layers", "runtime.state"),
]
"""The same with two facts."""


@pytest.mark.parametrize(("machine", "name", "one", "other"), PAIRS_SEEN_TO_TURN)
def test_past_regressions_without_two_facts_stay_fixed(machine, name, one, other):
    assert not isinstance(whole_answer(machine, name), CannotTell), "it is settled with both"
    assert not turned(machine, name, (one, other))


@pytest.mark.parametrize(("machine", "name", "path"), SEEN_TO_TURN)
def test_past_regressions_without_one_fact_stay_fixed(machine, name, path):
    assert not isinstance(whole_answer(machine, name), CannotTell), "it is settled with the fact"
    assert not turned(machine, name, (path,))
