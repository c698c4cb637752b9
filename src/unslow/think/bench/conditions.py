"""What a benchmark was taken with: every setting that can change a speed, and what the machine was like meanwhile."""

import math
from collections.abc import Callable, Iterator
from typing import Any

from unslow.facts.machine import Machine
from unslow.facts.run import GpuUnderLoad, Run
from unslow.facts.snapshot import Case
from unslow.facts.telemetry import PhaseTelemetry, Telemetry
from unslow.facts.values import Known

SETTINGS = (
    # what computes
    "runtime.version", "runtime.backends", "runtime.build_type", "runtime.build_features",
    "runtime.build_architectures", "runtime.container", "runtime.system", "runtime.embedded",
    # the model
    "model.architecture", "model.quant", "model.parameters", "model.weights_bytes", "runtime.quantization",
    "runtime.weights_type",
    # where it lies
    "runtime.gpu_layers_set", "runtime.gpu_layers", "runtime.layers", "runtime.output_on_gpu", "runtime.device_set",
    "runtime.device_used", "runtime.split_mode", "runtime.tensor_split", "runtime.main_gpu", "runtime.tensor_parallel",
    "runtime.pipeline_parallel", "runtime.tensor_overrides", "runtime.cpu_offload_bytes", "runtime.gpu_memory_fraction",
    "runtime.load_mode", "runtime.fit", "runtime.fit_margin_bytes",
    # the context
    "runtime.context_length", "runtime.context_per_slot", "runtime.slots", "runtime.kv_type_k", "runtime.kv_type_v",
    "runtime.kv_offload", "runtime.kv_unified", "runtime.swa_full", "runtime.prompt_cache", "runtime.cache_reuse",
    "runtime.max_sequences", "runtime.max_batched_tokens",
    # how it computes
    "runtime.threads", "runtime.threads_batch", "runtime.batch", "runtime.ubatch", "runtime.flash_attention",
    "runtime.attention", "runtime.kernel", "runtime.eager", "runtime.op_offload", "runtime.repack", "runtime.numa",
    "runtime.cpu_list", "runtime.priority", "runtime.polling", "runtime.speculative", "runtime.draft_tokens",
    "runtime.top_k", "runtime.grammar",
    # the machine
    "machine.system.name", "machine.system.version", "machine.system.kernel", "machine.system.container",
    "machine.system.wsl", "machine.system.hypervisor", "machine.cpu.model", "machine.cpu.physical_cores",
    "machine.cpu.governor", "machine.cpu.frequency_max_hz", "machine.cpu.allowed_cpus", "machine.cpu.quota_cpus",
    "machine.memory.kind", "machine.memory.channels", "machine.memory.limit_bytes", "machine.memory.wired_limit_bytes",
    "machine.memory.numa_nodes",
)  # fmt: skip
"""Paths of facts that stay as they are while a benchmark runs."""
OF_A_GPU = ("name", "driver", "power_limit_w", "clock_max_hz", "pcie_generation_max", "pcie_width", "ecc", "mig")
_LONGEST = 120
_MOST_GPUS = 16
_SWITCH = {True: "on", False: "off"}
_LARGEST = 1e18


def settings_of(case: Case) -> dict[str, str]:
    """Every setting that is known, by the path of its fact, as a short text."""
    found = {path: _value(case, path) for path in SETTINGS}
    for gpu in case.machine.gpus.value_or(())[:_MOST_GPUS]:
        found |= {f"machine.gpus.{gpu.index}.{name}": _known(getattr(gpu, name)) for name in OF_A_GPU}
    words = {path: _worded(value) for path, value in found.items() if value is not None}
    return {path: text for path, text in words.items() if text}


def _value(case: Case, path: str) -> Any:
    value: Any = case
    for step in path.split("."):
        value = getattr(value, step)
    return _known(value)


def _known(fact: Any) -> Any:
    """The value; a switch that is no fact counts where it is on."""
    if isinstance(fact, bool):
        return fact or None
    return fact.value if isinstance(fact, Known) else None


def _worded(value: Any) -> str:
    match value:
        case bool():
            return _SWITCH[value]
        case float():
            return f"{value:.6g}"
        case list() | tuple():
            return ", ".join(map(_worded, value))[:_LONGEST]
        case _:
            return _base_name(str(value))[:_LONGEST]


def _base_name(text: str) -> str:
    """A file without its folders, which differ from user to user."""
    return text.rpartition("/")[2] if text.startswith(("/", "~")) else text


def conditions_of(telemetry: Telemetry | None, run: Run, machine: Machine) -> dict[str, float]:
    """What the machine was like while tokens were generated, as far as anybody watched; each name has its unit."""
    found = dict(_looked(machine)) | dict(_from_run(run)) | dict(_watched(telemetry))
    return {name: float(value) for name, value in found.items() if math.isfinite(value) and 0 <= value <= _LARGEST}


def _watched(telemetry: Telemetry | None) -> Iterator[tuple[str, float]]:
    """The means of the phase that tells most."""
    phase = _telling(telemetry)
    if phase is None:
        return
    yield from ((name, stat.mean) for name, stat in phase.host.items())
    for gpu in phase.gpus:
        named = _namer(gpu.index, len(phase.gpus))
        yield from ((named(name), stat.mean) for name, stat in gpu.figures.items())
        yield from ((named(f"reason_{reason}"), share) for reason, share in gpu.reasons.items())


def _telling(telemetry: Telemetry | None) -> PhaseTelemetry | None:
    phases = {phase.phase: phase for phase in (telemetry.phases if telemetry else ())}
    return phases.get("decode") or phases.get("prefill")


def _namer(index: int, count: int) -> Callable[[str], str]:
    """Names of one GPU: with its number where there are several."""
    prefix = "gpu" if count == 1 else f"gpu_{index}"
    return lambda name: f"{prefix}_{name}"


def _from_run(run: Run) -> Iterator[tuple[str, float]]:
    for name in ("own_cpus", "others_cpus", "cpu_throttled_fraction"):
        if isinstance(fact := getattr(run, name), Known):
            yield name, fact.value
    gpus = run.gpus.value_or(())
    for gpu in gpus:
        named = _namer(gpu.index, len(gpus))
        yield from ((named(name), value) for name, value in _of_gpu(gpu))


def _of_gpu(gpu: GpuUnderLoad) -> Iterator[tuple[str, float]]:
    facts = {
        "clock_hz": gpu.clock_hz,
        "busy": gpu.busy,
        "memory_busy": gpu.memory_busy,
        "temperature_c": gpu.temperature_max_c,
        "power_w": gpu.power_max_w,
        "vram_used_bytes": gpu.vram_used_max_bytes,
    }
    yield from ((name, fact.value) for name, fact in facts.items() if isinstance(fact, Known))


def _looked(machine: Machine) -> Iterator[tuple[str, float]]:
    """What was seen once, before; a GPU's clocks at rest say nothing, so they are not among it."""
    memory, cpu = machine.memory, machine.cpu
    facts = {
        "ram_read_bytes_per_s": memory.read_bytes_per_s,
        "memory_available_bytes": memory.available_bytes,
        "swap_used_bytes": memory.swap_used_bytes,
        "others_cpus": machine.load.busy_cpus,
        "cpu_temperature_c": cpu.temperature_c,
    }
    yield from ((name, fact.value) for name, fact in facts.items() if isinstance(fact, Known))
    gpus = machine.gpus.value_or(())[:_MOST_GPUS]
    for gpu in gpus:
        if isinstance(gpu.vram_free_bytes, Known):
            yield _namer(gpu.index, len(gpus))("vram_free_bytes"), gpu.vram_free_bytes.value
