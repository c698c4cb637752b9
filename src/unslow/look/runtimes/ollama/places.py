"""Where a setting of Ollama is put: in its service, in a chat, or in a model made from another one, and its name."""

import re
from collections.abc import Callable, Mapping
from typing import Literal

from unslow.facts.commands import Place, by_hand, labelled_line
from unslow.facts.knob import Setting
from unslow.facts.masking import SHOWN_KEY
from unslow.facts.runtime import Runtime
from unslow.facts.values import Absence, Known, Unknown
from unslow.look.command_writer import starters
from unslow.look.command_writer.starters import COMPOSE_UP, COMPOSED, Unit, drop_in

Home = Literal["container", "pod", "compose", "windows", "mac", "service", "shell"]
_WINDOWS = re.compile(r"\b[A-Za-z]:\\|\.exe\b")
_MAC = re.compile(r"/Users/|/Applications/")
_NAMED: dict[Home, re.Pattern[str]] = {
    "windows": re.compile(r"\bwindows\b", re.IGNORECASE),
    "mac": re.compile(r"\bmac ?os\b|\bdarwin\b|\bmac\b", re.IGNORECASE),
    "service": re.compile(r"\blinux\b", re.IGNORECASE),
}
"""Systems by a word of their names, such as `Microsoft Windows 11 Pro` or `Darwin arm64`."""
_INSTALLED = Unit("ollama.service")  # What Ollama's installer makes on Linux
_APP_AGAIN = by_hand("quit Ollama and start it again")
_BY_COMMAND = {
    "windows": (r"reg delete HKCU\Environment /F /V {}", 'setx {} "{}"'),
    "mac": ("launchctl unsetenv {}", 'launchctl setenv {} "{}"'),
}
"""How the app's variables are taken away and set."""
MADE = "unslow"  # The end of the name of every model that is made here
USUAL_TAG = "latest"  # What Ollama takes for a name without a tag
_NOT_TAG = re.compile(r"[^\w.-]")
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


def home_of(runtime: Runtime) -> Home:
    """How it was started, by its control group and by the paths that it shows; as a service, where it shows nothing."""
    if container := runtime.process.container.value_or(""):
        return "compose" if container == COMPOSED else "pod" if container == "kubernetes" else "container"
    system = runtime.process.system.value_or("")
    home = next((home for home, name in _NAMED.items() if name.search(system)), None)
    if home is None:
        process, loads = runtime.process, runtime.history.loads.value_or([])[-1:]
        given = [*process.command.value_or([]), *process.environment.value_or({}).values()]
        paths = " ".join([*given, process.log_path.value_or(""), *(load.model.value_or("") for load in loads)])
        home = "windows" if _WINDOWS.search(paths) else "mac" if _MAC.search(paths) else "service"
    # its process was seen, and no service of systemd starts it
    in_no_unit = isinstance(runtime.process.unit, Unknown) and runtime.process.unit.absence is Absence.NOT_FOUND
    return "shell" if home == "service" and in_no_unit else home


def variables_set(variables: Mapping[str, str | None], runtime: Runtime) -> list[str]:
    """Variables where this server reads them, and the server started again once."""
    if not variables:
        return []
    match home_of(runtime):
        case "service" if isinstance(runtime.process.unit, Known):
            return list(drop_in(Unit.from_text(runtime.process.unit.value), variables))
        case "service":
            by_shell = f"in a shell: {_serve_line(variables, runtime)}"
            note = by_hand(f"this is for the service that its installer creates; {by_shell}")
            return [*drop_in(_INSTALLED, variables), note]
        case "shell":
            lines = [by_hand("stop the server, then start it again so"), _serve_line(variables, runtime)]
        case "windows" | "mac" as home:
            away, given = _BY_COMMAND[home]
            lines = [(away if value is None else given).format(name, value) for name, value in variables.items()]
            lines.append(_APP_AGAIN)
        case "compose":
            lines = [labelled_line(Place.COMPOSE, starters.yaml_variables(variables)), COMPOSE_UP]
        case "pod":
            text = starters.yaml_variables(variables, pod=True)
            lines = [labelled_line(Place.MANIFEST, text), "kubectl apply -f FILE"]
        case "container":
            given = " ".join(f"-e {name}={value}" for name, value in variables.items() if value is not None)
            away = " or ".join(f"-e {name}" for name, value in variables.items() if value is None)
            parts = [f"with `{given}`" if given else "", f"without `{away}`" if away else ""]
            lines = [by_hand(f"start the container again {' and '.join(filter(None, parts))}")]
    return lines


def variable(name: str, value: Setting, runtime: Runtime) -> list[str]:
    """A variable of the server set, or taken away with None, and the server started again."""
    return variables_set({name: None if value is None else word_of(value)}, runtime)


def _serve_line(variables: Mapping[str, str | None], runtime: Runtime) -> str:
    """The server in a shell, with what it has of its own variables by now."""
    own = runtime.process.environment
    is_own = isinstance(own, Known) and own.source.startswith("/proc/")  # a log lists every default too
    kept = {name: value for name, value in own.value_or({}).items() if name.startswith("OLLAMA_") and is_own}
    kept = {name: value for name, value in kept.items() if SHOWN_KEY not in value and name not in variables}
    return starters.shell_line(("ollama", "serve"), {**kept, **variables})


def option(name: str, value: Setting) -> list[str]:
    """An option for a chat, for a request and for a model."""
    word = word_of("N" if value is None else value)
    return [
        labelled_line(Place.CHAT, f"/set parameter {name} {word}"),
        labelled_line(Place.REQUEST, f'"options": {{"{name}": {word}}}'),
        labelled_line(Place.MODELFILE, f"PARAMETER {name} {word}"),
    ]


def word_of(value: Setting) -> str:
    """A value as Ollama reads it: a switch is 1 or 0."""
    return str(int(value)) if isinstance(value, bool) else str(value)


def is_at_least(runtime: Runtime, version: tuple[int, ...]) -> bool:
    """Whether the server is of this version or newer; one that does not tell is taken to be."""
    numbers = re.match(r"v?(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?", runtime.version.value_or(""))
    if not numbers or numbers[0] in ("0.0.0", "0.0"):  # builds of distributions often carry no number
        return True
    return tuple(int(part or 0) for part in numbers.groups()) >= version


def full_name(name: str) -> str:
    """A name as the server lists it."""
    return name if ":" in name.rpartition("/")[2] else f"{name}:{USUAL_TAG}"


def derived_name(model: str) -> str:
    """A name beside the one of the model: another tag of it, or another name where it has none but the usual."""
    name, _, tag = re.split(r"[\\/]", model)[-1].removesuffix(".gguf").partition(":")
    plain = _NOT_TAG.sub("-", name).lower()
    return f"{plain}-{MADE}" if tag in ("", USUAL_TAG) else f"{plain}:{tag}-{MADE}"


def backend_lines(value: Setting, runtime: Runtime) -> list[str]:
    """Commands for the reason that the log names, else for the GPU's backend, else for all there are."""
    environment = runtime.process.environment.value_or({})
    hidden = [name for name in HIDES if environment.get(name, "x").strip() in ("", "-1")]
    if hidden:
        return variable(hidden[0], None, runtime)
    reason = runtime.placement.gpu_refused.value_or("")
    by_reason = (words(runtime) for pattern, words in _BY_REASON if re.search(pattern, reason))
    return next(by_reason, None) or _anything(str(value or ""), runtime)


def _permission_lines(runtime: Runtime) -> list[str]:
    home = home_of(runtime)
    if home in ("compose", "pod"):
        return _anything("ROCm", runtime)
    if home == "shell":
        return ["sudo usermod -a -G render,video $USER", by_hand("log in again and start `ollama serve`")]
    return [_AMD_CONTAINER] if home == "container" else [_GROUPS, "sudo systemctl restart ollama"]


def _other_target(runtime: Runtime) -> list[str]:
    """A sibling that is supported, where its family has one; else the backend that every GPU has."""
    found = re.search(r"gfx(90|103|110|115)[0-9a-f]\b", runtime.placement.gpu_refused.value_or(""))
    if not found or home_of(runtime) == "windows":  # whose ROCm takes no override
        return variable("OLLAMA_VULKAN", 1, runtime)
    return variable("HSA_OVERRIDE_GFX_VERSION", _SIBLINGS[found[1]], runtime)


_BY_REASON: tuple[tuple[str, Callable[[Runtime], list[str]]], ...] = (
    (r"permission|/dev/kfd|kfd driver", _permission_lines),
    (r"driver.{0,20}too old|old CUDA driver", lambda _: [by_hand("install a newer GPU driver and reboot")]),
    (r"iGPU|integrated GPU", lambda runtime: variable("OLLAMA_IGPU_ENABLE", 1, runtime)),
    (r"gfx\w+|amdgpu is not supported|no rocblas support", _other_target),
    (
        r"no compatible rocm library|verify rocm library",
        lambda runtime: [_INSTALL] if home_of(runtime) in ("service", "shell") else _anything("", runtime),
    ),
)


def _anything(backend: str, runtime: Runtime) -> list[str]:
    """What hands a GPU on, or installs what it needs; `backend` is the one of the GPU, or empty."""
    anew = [by_hand("reinstall Ollama from https://ollama.com")]
    first, nvidia, amd, last = _HANDED_ON.get(home_of(runtime), (anew, [], [], []))
    return [*first, *(nvidia if backend in ("", "CUDA") else []), *(amd if backend in ("", "ROCm") else []), *last]


def visible_device(value: Setting, runtime: Runtime) -> tuple[str, str] | None:
    """The variable that leaves one device to be seen, and its value; None for what names no device."""
    named = re.fullmatch(r"(CUDA|ROCm|Vulkan)?(\d{1,3})", str(value), re.IGNORECASE)
    if not named:
        return None
    backend = (named[1] or "cuda").lower()
    used = runtime.placement.device_used.value_or("").lower()
    if used.startswith("vulkan") and backend != "vulkan":
        return "OLLAMA_VULKAN", "0"  # then only the other backend is left to choose from
    return _VISIBLE[backend], named[2]
