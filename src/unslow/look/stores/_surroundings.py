"""What tells where this user's tools keep their models: the home folder and a few variables."""

import os

import msgspec

from unslow.look.system import LookError, System

VARIABLES = (
    "OLLAMA_MODELS",
    "LLAMA_CACHE",
    "HF_HUB_CACHE",
    "HUGGINGFACE_HUB_CACHE",
    "HF_HOME",
    "XDG_CACHE_HOME",
    "LOCALAPPDATA",
)


class Surroundings(msgspec.Struct, frozen=True):
    """Absolute paths: the home folder, and the variables that are set."""

    home: str
    variables: dict[str, str] = {}

    def variable(self, name: str) -> str:
        """A folder that a variable names; empty where it is not set."""
        return self.variables.get(name, "")

    @property
    def cache(self) -> str:
        """Where programs of this user cache things."""
        return self.variable("XDG_CACHE_HOME") or f"{self.home}/.cache"


def read_surroundings(system: System) -> Surroundings:
    """The surroundings of this process."""
    raw = system.ask("surroundings of model stores", lambda: msgspec.to_builtins(_surroundings()))
    try:
        return msgspec.convert(raw, Surroundings)
    except msgspec.ValidationError as error:
        raise LookError(f"the recorded surroundings do not fit: {error}") from error


def _surroundings() -> Surroundings:
    set_ones = {name: value for name in VARIABLES if (value := os.environ.get(name))}
    return Surroundings(_absolute("~"), {name: _absolute(value) for name, value in set_ones.items()})


def _absolute(path: str) -> str:
    return os.path.abspath(os.path.expandvars(os.path.expanduser(path)))  # noqa: PTH100, PTH111 (as the tools do it)
