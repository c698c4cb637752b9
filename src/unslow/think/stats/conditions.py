"""What a benchmark was taken with: settings, what the machine was like meanwhile, and what of that tells of a spill."""

import math
import re
from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import Any, NamedTuple

from unslow.facts.machine import Machine
from unslow.facts.run import Run, Telemetry
from unslow.facts.values import GB, GIB, MIB, Known
from unslow.think.case.view import CaseView

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
"""Paths of facts that stay as they are while a benchmark runs; a runtime's without their groups."""
OF_A_GPU = ("name", "driver", "power_limit_w", "clock_max_hz", "pcie_generation_max", "pcie_width", "ecc", "mig")
_LONGEST = 120
_MOST_GPUS = 16
_SWITCH = {True: "on", False: "off"}
_LARGEST = 1e18


def settings_of(case: CaseView) -> dict[str, str]:
    """Every setting that is known, by the path of its fact, as a short text."""
    found = {}
    for path in SETTINGS:
        part, _, name = path.partition(".")
        found[path] = _known_value(case.runtime.fact(name) if part == "runtime" else attrgetter(path)(case))
    for gpu in case.machine.gpus.value_or(())[:_MOST_GPUS]:
        found |= {f"machine.gpus.{gpu.index}.{name}": _known_value(getattr(gpu, name)) for name in OF_A_GPU}
    words = {path: _setting_words(value) for path, value in found.items() if value is not None}
    return {path: text for path, text in words.items() if text}


def _known_value(fact: Any) -> Any:
    """The value; a switch that is no fact counts where it is on."""
    if isinstance(fact, bool):
        return fact or None
    return fact.value if isinstance(fact, Known) else None


def _setting_words(value: Any) -> str:
    match value:
        case bool():
            return _SWITCH[value]
        case float():
            return f"{value:.6g}"
        case list() | tuple():
            return ", ".join(map(_setting_words, value))[:_LONGEST]
        case _:
            text = str(value)
            is_path = text.startswith(("/", "~"))  # folders differ from user to user
            return (text.rpartition("/")[2] if is_path else text)[:_LONGEST]


def conditions_of(telemetry: Telemetry | None, run: Run, machine: Machine) -> dict[str, float]:
    """What the machine was like while tokens were generated, as far as it was watched; each name has its unit."""
    found = dict(_machine_conditions(machine)) | dict(_run_conditions(run)) | dict(_sampled_conditions(telemetry))
    return {name: float(value) for name, value in found.items() if math.isfinite(value) and 0 <= value <= _LARGEST}


def _sampled_conditions(telemetry: Telemetry | None) -> Iterator[tuple[str, float]]:
    phases = {phase.phase: phase for phase in (telemetry.phases if telemetry else ())}
    phase = phases.get("decode") or phases.get("prefill")
    if phase is None:
        return
    yield from ((name, stat.mean) for name, stat in phase.host.items())
    for gpu in phase.gpus:
        own = _gpu_name(gpu.index, len(phase.gpus))
        yield from ((f"{own}_{name}", stat.mean) for name, stat in gpu.figures.items())
        yield from ((f"{own}_reason_{reason}", share) for reason, share in gpu.reasons.items())


def _run_conditions(run: Run) -> Iterator[tuple[str, float]]:
    for name in ("own_cpus", "others_cpus", "cpu_throttled_fraction"):
        if isinstance(fact := getattr(run, name), Known):
            yield name, fact.value
    gpus = run.gpus.value_or(())
    for gpu in gpus:
        own = _gpu_name(gpu.index, len(gpus))
        facts = {
            "clock_hz": gpu.clock_hz,
            "busy": gpu.busy,
            "memory_busy": gpu.memory_busy,
            "temperature_c": gpu.temperature_max_c,
            "power_w": gpu.power_max_w,
            "vram_used_bytes": gpu.vram_used_max_bytes,
        }
        yield from ((f"{own}_{name}", fact.value) for name, fact in facts.items() if isinstance(fact, Known))


def _machine_conditions(machine: Machine) -> Iterator[tuple[str, float]]:
    """What was seen once, before; a GPU's clocks at rest say nothing, so they are not among it."""
    facts = {
        "ram_read_bytes_per_s": machine.memory.read_bytes_per_s,
        "memory_available_bytes": machine.memory.available_bytes,
        "swap_used_bytes": machine.memory.swap_used_bytes,
        "others_cpus": machine.load.busy_cpus,
        "cpu_temperature_c": machine.cpu.temperature_c,
    }
    yield from ((name, fact.value) for name, fact in facts.items() if isinstance(fact, Known))
    gpus = machine.gpus.value_or(())[:_MOST_GPUS]
    for gpu in gpus:
        if isinstance(gpu.vram_free_bytes, Known):
            yield f"{_gpu_name(gpu.index, len(gpus))}_vram_free_bytes", gpu.vram_free_bytes.value


def _gpu_name(index: int, count: int) -> str:
    """What names of one GPU begin with: its number too, where there are several."""
    return "gpu" if count == 1 else f"gpu_{index}"


class _Sign(NamedTuple):
    """A figure that grows: by how many times and by how much at least, before it means something."""

    figure: str
    times: float
    least: float
    unit: float
    words: str


_SIGNS = (
    _Sign("pcie_receive_bytes_per_s", 3.0, 0.5 * GB, GB, "the GPU received {1:.1f} GB/s over PCIe instead of {0:.1f}"),
    _Sign("pcie_transmit_bytes_per_s", 3.0, 0.5 * GB, GB, "the GPU sent {1:.1f} GB/s over PCIe instead of {0:.1f}"),
    _Sign("gtt_used_bytes", 1.5, 0.2 * GIB, GIB, "the GPU used {1:.1f} GiB of host memory instead of {0:.1f}"),
    _Sign("own_cpus", 1.5, 1.0, 1.0, "the runtime used {1:.1f} CPUs instead of {0:.1f}"),
    _Sign("major_faults_per_s", 5.0, 20.0, 1.0, "{1:.0f} page faults/s waited for the disk instead of {0:.0f}"),
    _Sign("swap_in_bytes_per_s", 3.0, 1.0 * MIB, MIB, "{1:.0f} MiB/s were swapped in instead of {0:.0f}"),
    _Sign("disk_read_bytes_per_s", 5.0, 50.0 * MIB, MIB, "{1:.0f} MiB/s were read from disk instead of {0:.0f}"),
)
_ALSO_KEPT = ("vram_used_bytes", "busy", "memory_busy", "clock_hz", "power_w", "others_cpus")
FIGURES = (*(sign.figure for sign in _SIGNS), *_ALSO_KEPT)  # What is worth keeping of a depth
_MORE_BYTES = 1 * GIB
_FULL_BYTES = 600 * MIB  # Free memory of a GPU that is full: what drivers and allocators leave
_IDLE_SHARE = 0.5
_OF_A_GPU = re.compile(r"gpu\d+_")


def spill_signs(before: Mapping[str, float], after: Mapping[str, float], vram_bytes: float = 0.0) -> tuple[str, ...]:
    """What tells of a spill between two depths, in words; nothing where nothing does, or nothing was sampled."""
    signs = []
    for sign in _SIGNS:
        was, now = _most(before, sign.figure), _most(after, sign.figure)
        if was is not None and now is not None and now >= sign.times * was and now - was >= sign.least:
            signs.append(sign.words.format(was / sign.unit, now / sign.unit))
    if not signs:
        return ()
    was, now, used = _most(before, "busy"), _most(after, "busy"), _most(after, "vram_used_bytes")
    if was is not None and now is not None and now < _IDLE_SHARE * was:
        signs.append(f"GPU utilization was {now:.0%} instead of {was:.0%}")
    if used is not None and vram_bytes and vram_bytes - used < _FULL_BYTES:
        signs.append("VRAM was full")  # alone no sign: many fill it on purpose
    return tuple(signs)


def memory_taken(before: Mapping[str, float], after: Mapping[str, float]) -> str:
    """How much more memory of a GPU was in use later, by whomever; empty where it was not clearly more."""
    was, now = _most(before, "vram_used_bytes"), _most(after, "vram_used_bytes")
    if was is None or now is None or now - was < _MORE_BYTES:
        return ""
    return f"{now / GIB:.1f} GiB of VRAM were in use instead of {was / GIB:.1f}"


def worth_keeping(seen: Mapping[str, float]) -> dict[str, float]:
    """The figures that tell a spill from other causes."""
    return {name: value for name, value in seen.items() if value >= 0 and _plain(name) in FIGURES}


def _most(seen: Mapping[str, float], figure: str) -> float | None:
    """The figure, the highest of all GPUs where each has one."""
    return max((value for name, value in seen.items() if _plain(name) == figure), default=None)


def _plain(name: str) -> str:
    return _OF_A_GPU.sub("", name, count=1)
