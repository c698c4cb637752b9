"""Where a setting of Ollama is put: in its service, in a chat, or in a model made from another one, and its name."""

import re
from collections.abc import Mapping
from typing import Literal

from unslow.facts.commands import Place, by_hand, labelled_line
from unslow.facts.knob import Setting
from unslow.facts.masking import SHOWN_KEY
from unslow.facts.runtime import Runtime
from unslow.facts.values import Absence, Known, Unknown
from unslow.look.command_writer.starters import (
    COMPOSE_UP,
    COMPOSED,
    Unit,
    composed_variables,
    drop_in,
    pod_variables,
    shell_line,
)

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


def home_of(runtime: Runtime) -> Home:
    """How it was started, by its control group and by the paths that it shows; as a service, where it shows nothing."""
    if container := runtime.container.value_or(""):
        return "compose" if container == COMPOSED else "pod" if container == "kubernetes" else "container"
    system = runtime.system.value_or("")
    home = next((home for home, name in _NAMED.items() if name.search(system)), None)
    if home is None:
        paths = " ".join(
            [
                *runtime.command.value_or([]),
                *runtime.environment.value_or({}).values(),
                runtime.log_path.value_or(""),
                *(load.model.value_or("") for load in runtime.loads.value_or([])[-1:]),
            ]
        )
        home = "windows" if _WINDOWS.search(paths) else "mac" if _MAC.search(paths) else "service"
    # its process was seen, and no service of systemd starts it
    in_no_unit = isinstance(runtime.unit, Unknown) and runtime.unit.absence is Absence.NOT_FOUND
    return "shell" if home == "service" and in_no_unit else home


def variables_set(variables: Mapping[str, str | None], runtime: Runtime) -> list[str]:
    """Variables where this server reads them, and the server started again once."""
    if not variables:
        return []
    match home_of(runtime):
        case "service" if isinstance(runtime.unit, Known):
            return list(drop_in(Unit.named(runtime.unit.value), variables))
        case "service":
            by_shell = f"this is for the service that its installer makes; in a shell: {_served(variables, runtime)}"
            return [*drop_in(_INSTALLED, variables), by_hand(by_shell)]
        case "shell":
            lines = [by_hand("stop the server, then start it again so"), _served(variables, runtime)]
        case "windows" | "mac" as home:
            away, given = _BY_COMMAND[home]
            lines = [(away if value is None else given).format(name, value) for name, value in variables.items()]
            lines.append(_APP_AGAIN)
        case "compose":
            lines = [labelled_line(Place.COMPOSE, composed_variables(variables)), COMPOSE_UP]
        case "pod":
            lines = [labelled_line(Place.MANIFEST, pod_variables(variables)), "kubectl apply -f FILE"]
        case "container":
            given = " ".join(f"-e {name}={value}" for name, value in variables.items() if value is not None)
            away = " or ".join(f"-e {name}" for name, value in variables.items() if value is None)
            parts = [f"with `{given}`" if given else "", f"without `{away}`" if away else ""]
            lines = [by_hand(f"start the container again {' and '.join(filter(None, parts))}")]
    return lines


def variable(name: str, value: Setting, runtime: Runtime) -> list[str]:
    """A variable of the server set, or taken away with None, and the server started again."""
    return variables_set({name: None if value is None else word_of(value)}, runtime)


def _served(variables: Mapping[str, str | None], runtime: Runtime) -> str:
    """The server in a shell, with what it has of its own variables by now."""
    own, seen = runtime.environment, runtime.environment.value_or({})
    is_own = isinstance(own, Known) and own.source.startswith("/proc/")  # a log lists every default too
    kept = {
        name: value for name, value in seen.items() if is_own and name.startswith("OLLAMA_") and SHOWN_KEY not in value
    }
    return shell_line(("ollama", "serve"), {**{n: v for n, v in kept.items() if n not in variables}, **variables})


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


def is_known_at_least(runtime: Runtime, version: tuple[int, ...]) -> bool:
    """The same of a server that tells its version; one that does not tell is not."""
    return bool(re.match(r"v?\d", runtime.version.value_or(""))) and is_at_least(runtime, version)


def full_name(name: str) -> str:
    """A name as the server lists it."""
    return name if ":" in name.rpartition("/")[2] else f"{name}:{USUAL_TAG}"


def derived_name(model: str) -> str:
    """A name beside the one of the model: another tag of it, or another name where it has none but the usual."""
    name, _, tag = re.split(r"[\\/]", model)[-1].removesuffix(".gguf").partition(":")
    plain = _NOT_TAG.sub("-", name).lower()
    return f"{plain}-{MADE}" if tag in ("", USUAL_TAG) else f"{plain}:{tag}-{MADE}"
