"""The command line and the environment of llama-server, as settings by meaning.

A flag on the command line beats its environment variable; the last of several flags counts.
"""

from collections.abc import Mapping, Sequence

from unslow.look.command_line import COMMAND, ENVIRONMENT, Setting, Spelled, hidden
from unslow.look.llama_server.flags import FLAGS, OFF, ON, SECRET, Flag

_BY_SPELLING = {word: name for name, flag in FLAGS.items() for word in flag.spellings + flag.opposites}
_REPEATABLE = ("override",)
_EVERYTHING = "2147483647"


def parse_settings(command: Sequence[str], environment: Mapping[str, str]) -> dict[str, Setting]:
    """Every setting that was given, by name."""
    settings = {name: s for name, flag in FLAGS.items() if (s := _from_environment(flag, environment))}
    return settings | _from_command(command)


def spelled_flags(command: Sequence[str]) -> list[Spelled]:
    """The known flags of a command line, in order."""
    found, at = [], 1
    while at < len(command):
        word, equals, attached = command[at].partition("=")
        word = word.replace("_", "-") if word.startswith("--") else word
        name = _BY_SPELLING.get(word)
        if name is None:
            at += 1
            continue
        value, end = _value(FLAGS[name], word, command, at, attached if equals else None)
        found.append(Spelled(name, at, end, value))
        at = end
    return found


def without_secrets(command: Sequence[str]) -> list[str]:
    """The command line as anybody may see it."""
    secrets = [flag for flag in spelled_flags(command) if flag.name in SECRET]
    return hidden(command, [(flag.start, _next_flag(command, flag.end)) for flag in secrets])


def _next_flag(command: Sequence[str], at: int) -> int:
    """Where the next flag stands: llama-server takes no word without one, so what is left between may be a key too."""
    return next((place for place in range(at, len(command)) if command[place].startswith("-")), len(command))


def _value(flag: Flag, word: str, command: Sequence[str], at: int, attached: str | None) -> tuple[str, int]:
    following = command[at + 1] if at + 1 < len(command) else ""
    if flag.switch:
        return ("off" if word in flag.opposites else "on"), at + 1
    if attached is not None:
        return attached, at + 1
    if word in FLAGS["flash_attention"].spellings and following not in (*ON, *OFF, "auto", "-1"):
        return "on", at + 1  # before b6325 the flag stood alone
    return following, min(at + 2, len(command))


def _from_command(command: Sequence[str]) -> dict[str, Setting]:
    settings: dict[str, Setting] = {}
    for name, start, end, value in spelled_flags(command):
        source = COMMAND if name in SECRET else f"{COMMAND}: {' '.join(command[start:end])}"
        before = f"{settings[name].value}," if name in _REPEATABLE and name in settings else ""
        settings[name] = Setting(before + value, source)
    if "log_level" not in settings and {"-v", "--verbose", "--log-verbose"} & set(command):
        settings["log_level"] = Setting(_EVERYTHING, f"{COMMAND}: -v")
    return settings


def _from_environment(flag: Flag, environment: Mapping[str, str]) -> Setting | None:
    for variable in flag.variables:
        opposite = variable.replace("LLAMA_ARG_", "LLAMA_ARG_NO_")
        if flag.opposites and opposite in environment:
            return Setting("off", f"{ENVIRONMENT}: {opposite}")
        if variable in environment:
            return Setting(environment[variable], f"{ENVIRONMENT}: {variable}")
    return None
