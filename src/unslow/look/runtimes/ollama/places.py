"""Where a setting is put: in a chat, in a model, or in the service of each operating system."""

import re
from typing import Literal, NamedTuple

from unslow.facts.knob import Setting
from unslow.facts.placed import Place, labelled
from unslow.facts.runtime import Runtime

Home = Literal["container", "compose", "windows", "mac", "linux"]
_WINDOWS = re.compile(r"\b[A-Za-z]:\\|\.exe\b")
_NAMED: dict[Home, re.Pattern[str]] = {
    "windows": re.compile(r"\bwindows\b", re.IGNORECASE),
    "mac": re.compile(r"\bmac ?os\b|\bdarwin\b|\bmac\b", re.IGNORECASE),
    "linux": re.compile(r"\blinux\b", re.IGNORECASE),
}
"""Systems by a word of their names, such as `Microsoft Windows 11 Pro` or `Darwin arm64`."""
_DROP_INS = "/etc/systemd/system/ollama.service.d"
_APP_AGAIN = (labelled(Place.HAND, "quit Ollama and start it again"),)
_COMPOSED = "docker compose"
COMPOSE_UP = "docker compose up -d"


class _Way(NamedTuple):
    """How a variable is set, how it is taken away, and how the server is started again to see it."""

    put: str
    away: str
    again: tuple[str, ...]


_WAYS: dict[Home, _Way] = {
    "container": _Way(
        labelled(Place.HAND, "start the container with `-e NAME=VALUE`"),
        labelled(Place.HAND, "start the container without `-e NAME`"),
        (),
    ),
    "compose": _Way(
        labelled(Place.COMPOSE, 'environment: ["NAME=VALUE"]'),
        labelled(Place.HAND, "take NAME out of the `environment` of the compose file"),
        (COMPOSE_UP,),
    ),
    "windows": _Way('setx NAME "VALUE"', r"reg delete HKCU\Environment /F /V NAME", _APP_AGAIN),
    "mac": _Way('launchctl setenv NAME "VALUE"', "launchctl unsetenv NAME", _APP_AGAIN),
    "linux": _Way(
        f"sudo mkdir -p {_DROP_INS} && "
        rf"""printf '[Service]\nEnvironment="NAME=VALUE"\n' | sudo tee {_DROP_INS}/NAME.conf""",
        labelled(Place.HAND, f"take NAME out of the unit and of `{_DROP_INS}`"),
        ("sudo systemctl daemon-reload && sudo systemctl restart ollama",),
    ),
}
_MAC = re.compile(r"/Users/|/Applications/")


def home_of(runtime: Runtime) -> Home:
    """What it runs on, by the paths that it shows; Linux, where it shows none."""
    if runtime.container.value_or(""):
        return "compose" if runtime.container.value_or("") == _COMPOSED else "container"
    if named := _named(runtime.system.value_or("")):
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


def _named(system: str) -> Home | None:
    return next((home for home, name in _NAMED.items() if name.search(system)), None)


def variable(name: str, value: Setting, runtime: Runtime) -> list[str]:
    """A variable of the server set, or taken away with None, and the server started again."""
    way = _WAYS[home_of(runtime)]
    first = way.away if value is None else way.put
    return [first.replace("NAME", name).replace("VALUE", "" if value is None else _word(value)), *way.again]


def option(name: str, value: Setting) -> list[str]:
    """An option for a chat, for a request and for a model."""
    word = _word("N" if value is None else value)
    return [
        labelled(Place.CHAT, f"/set parameter {name} {word}"),
        labelled(Place.REQUEST, f'"options": {{"{name}": {word}}}'),
        labelled(Place.MODELFILE, f"PARAMETER {name} {word}"),
    ]


def _word(value: Setting) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def is_known_at_least(runtime: Runtime, version: tuple[int, ...]) -> bool:
    """The same of a server that tells its version; one that does not tell is not."""
    return bool(re.match(r"v?\d", runtime.version.value_or(""))) and is_at_least(runtime, version)


def is_at_least(runtime: Runtime, version: tuple[int, ...]) -> bool:
    """Whether the server is of this version or newer; one that does not tell is taken to be."""
    numbers = re.match(r"v?(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?", runtime.version.value_or(""))
    if not numbers or numbers[0] in ("0.0.0", "0.0"):  # builds of distributions often carry no number
        return True
    return tuple(int(part or 0) for part in numbers.groups()) >= version
