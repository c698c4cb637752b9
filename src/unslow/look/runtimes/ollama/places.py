"""Where a setting is put: in a chat, in a model, or in the service of each operating system."""

import re
from typing import Literal

from unslow.facts.knob import Setting
from unslow.facts.runtime import Runtime

Home = Literal["container", "windows", "mac", "linux"]
_WINDOWS = re.compile(r"\b[A-Za-z]:\\|\.exe\b")
_NAMED: dict[str, Home] = {"windows": "windows", "macos": "mac", "darwin": "mac", "linux": "linux"}
_DROP_INS = "/etc/systemd/system/ollama.service.d"
_MAC = re.compile(r"/Users/|/Applications/")


def home_of(runtime: Runtime) -> Home:
    """What it runs on, by the paths that it shows; Linux, where it shows none."""
    if runtime.container.value_or(""):
        return "container"
    if named := _NAMED.get(runtime.system.value_or("").partition(" ")[0].lower()):
        return named
    paths = " ".join(
        [
            *runtime.command.value_or([]),
            *runtime.environment.value_or({}).values(),
            runtime.log_path.value_or(""),
            *(load.model.value_or("") for load in runtime.loads.value_or([])[-1:]),
        ]
    )
    if _WINDOWS.search(paths):
        return "windows"
    return "mac" if _MAC.search(paths) else "linux"


def variable(name: str, value: Setting, runtime: Runtime) -> list[str]:
    """A variable of the server set, or taken away with None, and the server started again."""
    home = home_of(runtime)
    if value is None:
        return [_away(name, home), *_again(home)]
    return [_set(name, _word(value), home), *_again(home)]


def _set(name: str, word: str, home: Home) -> str:
    if home == "container":
        return f"start the container with -e {name}={word}"
    if home == "windows":
        return f'setx {name} "{word}"'
    if home == "mac":
        return f'launchctl setenv {name} "{word}"'
    unit = f"printf '[Service]\\nEnvironment=\"{name}={word}\"\\n'"
    return f"sudo mkdir -p {_DROP_INS} && {unit} | sudo tee {_DROP_INS}/{name}.conf"


def _away(name: str, home: Home) -> str:
    if home == "container":
        return f"start the container without -e {name}"
    if home == "windows":
        return f"reg delete HKCU\\Environment /F /V {name}"
    if home == "mac":
        return f"launchctl unsetenv {name}"
    return f"take {name} out of the unit and of {_DROP_INS}"


def _again(home: Home) -> list[str]:
    if home == "container":
        return []
    if home in ("windows", "mac"):
        return ["quit Ollama and start it again"]
    return ["sudo systemctl daemon-reload && sudo systemctl restart ollama"]


def option(name: str, value: Setting) -> list[str]:
    """An option for a chat, for a request and for a model."""
    word = _word("N" if value is None else value)
    return [f"/set parameter {name} {word}", f'"options": {{"{name}": {word}}}', f"PARAMETER {name} {word}"]


def _word(value: Setting) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def is_at_least(runtime: Runtime, version: tuple[int, ...]) -> bool:
    """Whether the server is of this version or newer; one that does not tell is taken to be."""
    numbers = re.match(r"v?(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?", runtime.version.value_or(""))
    if not numbers or numbers[0] in ("0.0.0", "0.0"):  # builds of distributions often carry no number
        return True
    return tuple(int(part or 0) for part in numbers.groups()) >= version
