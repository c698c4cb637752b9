"""How an Ollama that does not use its GPU gets it: what hands the device on, lets it be opened, or shows it."""

import re
from collections.abc import Callable, Mapping

from unslow.facts.commands import Place, by_hand, labelled_line
from unslow.facts.knob import Setting
from unslow.facts.runtime import Runtime
from unslow.look.command_writer.starters import COMPOSE_UP
from unslow.look.runtimes.ollama.places import home_of, variable

_INSTALL = "curl -fsSL https://ollama.com/install.sh | sh"
_NVIDIA_CONTAINER = "docker run -d --gpus all -v ollama:/root/.ollama -p 11434:11434 --name ollama ollama/ollama"
_AMD_CONTAINER = (
    "docker run -d --device /dev/kfd --device /dev/dri -v ollama:/root/.ollama -p 11434:11434 --name ollama "
    "ollama/ollama:rocm"
)
_NVIDIA_SERVICE = labelled_line(
    Place.COMPOSE, "deploy: {resources: {reservations: {devices: [{driver: nvidia, count: all, capabilities: [gpu]}]}}}"
)
_AMD_SERVICE = labelled_line(Place.COMPOSE, 'devices: ["/dev/kfd", "/dev/dri"]')
_AMD_IMAGE = labelled_line(Place.COMPOSE, "image: ollama/ollama:rocm")
_NVIDIA_POD = labelled_line(Place.MANIFEST, "resources: {limits: {nvidia.com/gpu: 1}}")
_AMD_POD = labelled_line(Place.MANIFEST, "resources: {limits: {amd.com/gpu: 1}}")
_HANDED_ON: Mapping[str, tuple[list[str], ...]] = {
    "compose": ([], [_NVIDIA_SERVICE], [_AMD_SERVICE, _AMD_IMAGE], [COMPOSE_UP]),
    "pod": ([], [_NVIDIA_POD], [_AMD_POD], []),
    "container": ([], [_NVIDIA_CONTAINER], [_AMD_CONTAINER], []),
    **dict.fromkeys(("service", "shell"), ([_INSTALL], ["nvidia-smi"], ["rocminfo"], [])),
}
"""By the home of the server: the lines before, for a GPU of NVIDIA, for one of AMD, and after."""
_GROUPS = "sudo usermod -a -G render,video ollama"
HIDES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GGML_VK_VISIBLE_DEVICES")
"""Variables that leave only some devices to be seen: none where they are empty."""
_SIBLINGS = {"90": "9.0.0", "103": "10.3.0", "110": "11.0.0", "115": "11.5.1"}
_VISIBLE = {"cuda": HIDES[0], "rocm": HIDES[2], "vulkan": HIDES[3]}


def backend_lines(value: Setting, runtime: Runtime) -> list[str]:
    """Commands for the reason that the log names, else for the GPU's backend, else for all there are."""
    environment = runtime.environment.value_or({})
    hidden = [name for name in HIDES if environment.get(name, "x").strip() in ("", "-1")]
    if hidden:
        return variable(hidden[0], None, runtime)
    reason = runtime.gpu_refused.value_or("")
    by_reason = (words(runtime) for pattern, words in _BY_REASON if re.search(pattern, reason))
    return next(by_reason, None) or _anything(str(value or ""), runtime)


def _opened(runtime: Runtime) -> list[str]:
    home = home_of(runtime)
    if home in ("compose", "pod"):
        return _anything("ROCm", runtime)
    if home == "shell":
        return ["sudo usermod -a -G render,video $USER", by_hand("log in again and start `ollama serve`")]
    return [_AMD_CONTAINER] if home == "container" else [_GROUPS, "sudo systemctl restart ollama"]


def _other_target(runtime: Runtime) -> list[str]:
    """A sibling that is supported, where its family has one; else the backend that every GPU has."""
    found = re.search(r"gfx(90|103|110|115)[0-9a-f]\b", runtime.gpu_refused.value_or(""))
    if not found or home_of(runtime) == "windows":  # whose ROCm takes no override
        return variable("OLLAMA_VULKAN", 1, runtime)
    return variable("HSA_OVERRIDE_GFX_VERSION", _SIBLINGS[found[1]], runtime)


_BY_REASON: tuple[tuple[str, Callable[[Runtime], list[str]]], ...] = (
    (r"permission|/dev/kfd|kfd driver", _opened),
    (
        r"driver.{0,20}too old|old CUDA driver",
        lambda _: [by_hand("install a newer driver of the GPU, and start the machine again")],
    ),
    (r"iGPU|integrated GPU", lambda runtime: variable("OLLAMA_IGPU_ENABLE", 1, runtime)),
    (r"gfx\w+|amdgpu is not supported|no rocblas support", _other_target),
    (
        r"no compatible rocm library|verify rocm library",
        lambda runtime: [_INSTALL] if home_of(runtime) in ("service", "shell") else _anything("", runtime),
    ),
)


def _anything(backend: str, runtime: Runtime) -> list[str]:
    """What hands a GPU on, or installs what it needs; `backend` is the one of the GPU, or empty."""
    anew = [by_hand("install Ollama anew from https://ollama.com")]
    first, nvidia, amd, last = _HANDED_ON.get(home_of(runtime), (anew, [], [], []))
    return [*first, *(nvidia if backend in ("", "CUDA") else []), *(amd if backend in ("", "ROCm") else []), *last]


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
