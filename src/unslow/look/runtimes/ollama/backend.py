"""What makes Ollama use a GPU that it does not use: by the reason that it gave, else all that there is to try."""

import re
from collections.abc import Callable

from unslow.facts.knob import Setting
from unslow.facts.placed import Place, labelled
from unslow.facts.runtime import Runtime
from unslow.look.runtimes.ollama.places import home_of, variable
from unslow.look.supervised import COMPOSE_UP

_INSTALL = "curl -fsSL https://ollama.com/install.sh | sh"
_NVIDIA_CONTAINER = "docker run -d --gpus all -v ollama:/root/.ollama -p 11434:11434 --name ollama ollama/ollama"
_AMD_CONTAINER = (
    "docker run -d --device /dev/kfd --device /dev/dri -v ollama:/root/.ollama -p 11434:11434 --name ollama "
    "ollama/ollama:rocm"
)
_NVIDIA_SERVICE = labelled(
    Place.COMPOSE, "deploy: {resources: {reservations: {devices: [{driver: nvidia, count: all, capabilities: [gpu]}]}}}"
)
_AMD_SERVICE = labelled(Place.COMPOSE, 'devices: ["/dev/kfd", "/dev/dri"]')
_AMD_IMAGE = labelled(Place.COMPOSE, "image: ollama/ollama:rocm")
_NVIDIA_POD = labelled(Place.MANIFEST, "resources: {limits: {nvidia.com/gpu: 1}}")
_AMD_POD = labelled(Place.MANIFEST, "resources: {limits: {amd.com/gpu: 1}}")
_GROUPS = "sudo usermod -a -G render,video ollama"
_HIDES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GGML_VK_VISIBLE_DEVICES")
_SIBLINGS = {"90": "9.0.0", "103": "10.3.0", "110": "11.0.0", "115": "11.5.1"}
_VISIBLE = {"cuda": _HIDES[0], "rocm": _HIDES[2], "vulkan": _HIDES[3]}


def backend_lines(value: Setting, runtime: Runtime) -> list[str]:
    """Commands for the reason that the log names, else for the GPU's backend, else for all there are."""
    environment = runtime.environment.value_or({})
    hidden = [name for name in _HIDES if environment.get(name, "x").strip() in ("", "-1")]
    if hidden:
        return variable(hidden[0], None, runtime)
    reason = runtime.gpu_refused.value_or("")
    by_reason = (words(runtime) for pattern, words in _BY_REASON if re.search(pattern, reason))
    return next(by_reason, None) or _anything(str(value or ""), runtime)


def _anything(backend: str, runtime: Runtime) -> list[str]:
    """What hands a GPU on, or installs what it needs; `backend` is the one of the GPU, or empty."""
    home, cuda, rocm = home_of(runtime), backend in ("", "CUDA"), backend in ("", "ROCm")
    if home == "compose":
        return [*([_NVIDIA_SERVICE] if cuda else []), *([_AMD_SERVICE, _AMD_IMAGE] if rocm else []), COMPOSE_UP]
    if home == "pod":
        return [*([_NVIDIA_POD] if cuda else []), *([_AMD_POD] if rocm else [])]
    if home == "container":
        return [*([_NVIDIA_CONTAINER] if cuda else []), *([_AMD_CONTAINER] if rocm else [])]
    if home in ("service", "shell"):
        return [_INSTALL, *(["nvidia-smi"] if cuda else []), *(["rocminfo"] if rocm else [])]
    return [labelled(Place.HAND, "install Ollama anew from https://ollama.com")]


def _opened(runtime: Runtime) -> list[str]:
    home = home_of(runtime)
    if home in ("compose", "pod"):
        return _anything("ROCm", runtime)
    if home == "shell":
        return ["sudo usermod -a -G render,video $USER", labelled(Place.HAND, "log in again and start `ollama serve`")]
    return [_AMD_CONTAINER] if home == "container" else [_GROUPS, "sudo systemctl restart ollama"]


def _other_target(runtime: Runtime) -> list[str]:
    """A sibling that is supported, where its family has one; else the backend that every GPU has."""
    found = re.search(r"gfx(90|103|110|115)[0-9a-f]\b", runtime.gpu_refused.value_or(""))
    if not found or home_of(runtime) == "windows":  # whose ROCm takes no override
        return variable("OLLAMA_VULKAN", 1, runtime)
    return variable("HSA_OVERRIDE_GFX_VERSION", _SIBLINGS[found[1]], runtime)


def _integrated(runtime: Runtime) -> list[str]:
    return variable("OLLAMA_IGPU_ENABLE", 1, runtime)


def _newer_driver(_runtime: Runtime) -> list[str]:
    return [labelled(Place.HAND, "install a newer driver of the GPU, and start the machine again")]


def _libraries(runtime: Runtime) -> list[str]:
    return [_INSTALL] if home_of(runtime) in ("service", "shell") else _anything("", runtime)


_BY_REASON: tuple[tuple[str, Callable[[Runtime], list[str]]], ...] = (
    (r"permission|/dev/kfd|kfd driver", _opened),
    (r"driver.{0,20}too old|old CUDA driver", _newer_driver),
    (r"iGPU|integrated GPU", _integrated),
    (r"gfx\w+|amdgpu is not supported|no rocblas support", _other_target),
    (r"no compatible rocm library|verify rocm library", _libraries),
)


def hiding_variable(runtime: Runtime) -> str:
    """The variable of its environment that hides a device; empty where none does."""
    return next((name for name in _HIDES if name in runtime.environment.value_or({})), "")


def visible_device(value: Setting, runtime: Runtime) -> tuple[str, str] | None:
    """The variable that leaves one device to be seen, and its value; None for what names no device."""
    named = re.fullmatch(r"(CUDA|ROCm|Vulkan)?(\d{1,3})", str(value), re.IGNORECASE)
    if not named:
        return None
    backend = (named[1] or "cuda").lower()
    used = runtime.device_used.value_or("").lower()
    if used.startswith("vulkan") and backend != "vulkan":
        return "OLLAMA_VULKAN", "0"  # then only the other backend is left to choose from
    return _VISIBLE[backend], named[2]
