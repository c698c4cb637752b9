"""NVIDIA GPUs: through NVML, else through nvidia-smi, else as the PCI bus shows them."""

from typing import Any

import msgspec

from unslow.facts.machine import Gpu, GpuProcess, Machine
from unslow.facts.values import Absence, Known, reported
from unslow.look.logs.nvidia_smi_csv import parse_compute_apps
from unslow.look.logs.nvidia_smi_q import SOURCE as SMI
from unslow.look.logs.nvidia_smi_q import parse_nvidia_smi_q
from unslow.look.probes.nvml.parse import SOURCE, parse_nvml
from unslow.look.probes.nvml.pci_bus import read_signs
from unslow.look.probes.nvml.query import query_nvml
from unslow.look.system import LookError, System
from unslow.look.system.door import read_text

QUERY = ("nvidia-smi", "-q")
QUERY_PROCESSES = ("nvidia-smi", "--query-compute-apps=pid,process_name,used_gpu_memory", "--format=csv")


def read(system: System) -> Machine:
    """All NVIDIA GPUs of the machine."""
    try:
        return Machine(gpus=reported(read_nvml(system), SOURCE))
    except LookError as no_nvml:
        why = no_nvml.why
    try:
        return Machine(gpus=reported(read_nvidia_smi(system), SMI))
    except LookError:
        return Machine(gpus=read_signs(system, why))


def read_nvml(system: System) -> tuple[Gpu, ...]:
    """The GPUs that NVML lists; LookError where it can't be asked or lists none."""
    gpus = parse_nvml(system.ask("nvml", _ask_nvml))
    if not gpus:
        raise LookError("NVML lists no GPU", Absence.NOT_FOUND)
    return tuple(_with_names(system, gpu) for gpu in gpus)


def _ask_nvml() -> Any:
    try:
        import pynvml  # noqa: PLC0415 (only a machine that is really asked needs it)
    except ImportError as error:
        raise LookError("nvidia-ml-py is not installed", Absence.NOT_FOUND) from error
    return query_nvml(pynvml)


def read_nvidia_smi(system: System) -> tuple[Gpu, ...]:
    """The GPUs as `nvidia-smi -q` prints them; LookError where it lists none."""
    done = system.run(QUERY)
    gpus = parse_nvidia_smi_q(done.stdout)
    if not gpus:
        raise LookError(f"nvidia-smi: {(done.stdout.strip() or done.stderr.strip())[:200]}")
    if len(gpus) == 1 and not isinstance(gpus[0].processes, Known):
        gpus = (_with_compute_apps(system, gpus[0]),)
    return tuple(_with_names(system, gpu) for gpu in gpus)


def _with_compute_apps(system: System, gpu: Gpu) -> Gpu:
    """The GPU with the processes that the second command lists; that one does not say on which GPU they are."""
    try:
        done = system.run(QUERY_PROCESSES)
    except LookError:
        return gpu
    processes = parse_compute_apps(done.stdout)
    return msgspec.structs.replace(gpu, processes=processes) if isinstance(processes, Known) else gpu


def _with_names(system: System, gpu: Gpu) -> Gpu:
    if not isinstance(gpu.processes, Known):
        return gpu
    named = [_named(system, process) for process in gpu.processes.value]
    return msgspec.structs.replace(gpu, processes=msgspec.structs.replace(gpu.processes, value=named))


def _named(system: System, process: GpuProcess) -> GpuProcess:
    """The process with the kernel's name for it, where the driver had none."""
    if isinstance(process.name, Known):
        return process
    path = f"/proc/{process.pid}/comm"
    try:
        name = read_text(system, path).strip()
    except LookError:
        return process
    return msgspec.structs.replace(process, name=reported(name, path))
