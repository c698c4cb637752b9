"""GPUs that a runtime can't reach, whatever is installed: by the system, the container, the environment, the card."""

import re
from typing import NamedTuple

from unslow.catalog.gpu_families import find_gpu_family
from unslow.facts.machine import Gpu
from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.adapt.hardware import device_of, is_apple
from unslow.think.adapt.versions import dotted
from unslow.think.adapt.vram import gpus_of, gpus_used

_HIDING = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")
_NOTHING = {"", "-1", "none", "void", "nodevfiles"}
_CPU_LIBRARY = re.compile(r"^cpu(?:_\w+)?$", re.IGNORECASE)
OLDEST_CUDA = (5, 0)
"""Compute capability below which the CUDA libraries that runtimes ship have no code."""
_AMD = re.compile(r"\bamd\b|\bradeon\b", re.IGNORECASE)
VULKAN_IN_OLLAMA = (0, 12, 6)
"""The version from which Ollama can reach such GPUs, through Vulkan."""


class Unreached(NamedTuple):
    """Why a GPU can't be reached, the fact that says so, and whether its architecture is the reason."""

    why: str
    fact: str
    by_architecture: bool = False


def unreached(case: Case) -> Unreached | None:
    """Why the runtime at hand has no way to the machine's GPU; None where there may be one."""
    return hidden_by_environment(case) or _by_container(case) or _by_system(case) or _by_card(case)


def hidden_by_environment(case: Case) -> Unreached | None:
    """A variable of the runtime's environment that hides the GPU from it; None where there is none."""
    environment = case.runtime.environment.value_or({})
    for name in _HIDING:
        if name in environment and environment[name].strip().strip("\"'").lower() in _NOTHING:
            return Unreached(f"{name}={environment[name]!r} hides it", "runtime.environment")
    if _CPU_LIBRARY.match(environment.get("OLLAMA_LLM_LIBRARY", "").strip("\"'")):
        return Unreached("OLLAMA_LLM_LIBRARY asks for the CPU", "runtime.environment")
    return None


def _by_container(case: Case) -> Unreached | None:
    """A container on a Mac is a Linux of its own, to which macOS does not lend its GPU."""
    system, runtime = case.machine.system, case.runtime
    where = system.container if isinstance(system.container, Known) else runtime.container
    if not where.value_or("").startswith("docker") or not is_apple(case):
        return None
    fact = "machine.system.container" if isinstance(system.container, Known) else "runtime.container"
    return Unreached("Docker on macOS runs in a virtual machine that has no access to the GPU", fact)


def _by_system(case: Case) -> Unreached | None:
    """Metal as the runtimes use it needs Apple's own chips."""
    if case.machine.system.name.value_or("") != "macOS" or "ollama" not in case.runtime.name.value_or("").lower():
        return None
    gpu = next((g for g in gpus_of(case) if _AMD.search(f"{g.vendor.value_or('')} {g.name.value_or('')}")), None)
    return _of_card(case, gpu, "Ollama uses the GPU of a Mac only where it is Apple's own") if gpu else None


def _by_card(case: Case) -> Unreached | None:
    """The reason of the first GPU that settings leave to the runtime, where each of these has one."""
    reasons = [(gpu, _unsupported(case, gpu)) for gpu in gpus_used(case)]
    return _of_card(case, *reasons[0]) if reasons and all(why for _, why in reasons) else None


def _unsupported(case: Case, gpu: Gpu) -> str:
    """Why the libraries of the runtime have no code for a GPU; empty where they may have."""
    name = gpu.name.value_or("")
    family = find_gpu_family(name)
    capability = dotted(gpu.compute_capability.value_or(family.compute_capability if family else ""))
    if capability and capability < OLDEST_CUDA:
        return f"{name or 'the GPU'} is older than the CUDA libraries have code for"
    if gpu.vendor.value_or("") == "Intel" and _ships_rocm(case):
        return f"this version of Ollama has no backend for {name or 'GPUs of Intel'}"
    missing = _ships_rocm(case) and family is not None and family.rocm is False
    return f"the ROCm libraries of Ollama have no code for {name}" if missing else ""


def _ships_rocm(case: Case) -> bool:
    """Whether it is an Ollama from before Vulkan."""
    version = dotted(case.runtime.version.value_or(""))
    return "ollama" in case.runtime.name.value_or("").lower() and bool(version) and version < VULKAN_IN_OLLAMA


def _of_card(case: Case, gpu: Gpu, why: str) -> Unreached:
    index = case.machine.gpus.value_or(()).index(gpu)
    capable = isinstance(gpu.compute_capability, Known) and device_of(gpu) is None
    return Unreached(why, f"machine.gpus.{index}.{'compute_capability' if capable else 'name'}", by_architecture=True)
