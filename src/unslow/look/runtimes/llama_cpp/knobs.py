"""How llama-server spells each knob: the flag, and the whole command line to start it again with."""

import shlex
from collections.abc import Mapping, Sequence

from unslow.facts.knob import Change, Knob, Setting
from unslow.facts.runtime import Runtime
from unslow.look.llama_server.arguments import FLAGS, spelled_flags

_NAMES: dict[Knob, tuple[str, ...]] = {
    Knob.GPU_LAYERS: ("gpu_layers",),
    Knob.EXPERTS_ON_CPU: ("n_cpu_moe", "cpu_moe", "override"),
    Knob.CONTEXT_LENGTH: ("context",),
    Knob.KV_CACHE_TYPE: ("kv_type_k", "kv_type_v"),
    Knob.THREADS: ("threads",),
    Knob.DEVICE: ("device",),
    Knob.FIT: ("fit", "gpu_layers", "context"),  # an explicit number of layers or context stops the fit
}


def spell(change: Change, runtime: Runtime) -> list[str]:
    """What to type, from the shortest to the whole command where that is known; [] where there is nothing to type."""
    if change.knob is Knob.FIT and change.value:
        change = Change(Knob.FIT, None, change.why)  # it is on unless something stops it
    command = runtime.command.value_or([])
    environment = runtime.environment.value_or({})
    again = restart(changed_command(command, change), change, environment) if command else ""
    if change.knob is Knob.OTHER_PROCESS:
        return [again] if again else []  # once the memory is free, a restart fits the layers anew
    if change.knob is Knob.OTHER_LOAD:
        return [f"renice -n 19 -p {change.value}"] if change.value else []
    if change.knob is Knob.QUANT:
        return [f"-m FILE, where FILE is this model as {change.value or 'a smaller quant'}"]
    if change.knob is Knob.GPU_BACKEND:
        backend = f" for {change.value}" if change.value else ""
        hidden = "CUDA_VISIBLE_DEVICES" in environment
        unhide = [shlex.join(["env", "-u", "CUDA_VISIBLE_DEVICES", *_without_secrets(command)])] if hidden else []
        return unhide or [f"install a llama.cpp build{backend} and its driver", *([again] if again else [])]
    fragment = _fragment(change, command)
    return [fragment, again] if again else [fragment]


def changed_command(command: Sequence[str], change: Change) -> list[str]:
    """The command line with the knob's flags taken out, and put in anew unless the value is None."""
    names = _NAMES.get(change.knob, ())
    words: list[str] = []
    at = 0
    for name, start, end, _ in spelled_flags(command):
        if name in names:
            words += command[at:start]
            at = end
    return [*words, *command[at:], *_words(_set_by(change.knob), change.value)]


def restart(command: Sequence[str], change: Change, environment: Mapping[str, str]) -> str:
    """One line for a shell; variables that would set the knob again are taken away."""
    variables = [v for name in _NAMES.get(change.knob, ()) for v in FLAGS[name].variables if v in environment]
    prefix = ["env", *(word for variable in variables for word in ("-u", variable))] if variables else []
    return shlex.join([*prefix, *_without_secrets(command)])


def _without_secrets(command: Sequence[str]) -> list[str]:
    """The line is shown to whoever reads the report: keys are for its reader to put in again."""
    words = list(command)
    for name, start, end, _ in spelled_flags(command):
        if name in ("api_key", "hub_token"):
            flag, equals, _ = command[start].partition("=")
            words[start:end] = [f"{flag}=KEY"] if equals else [flag, "KEY"][: end - start]
    return words


def _fragment(change: Change, command: Sequence[str]) -> str:
    names = _NAMES[change.knob]
    if change.value is not None:
        return shlex.join(_words(_set_by(change.knob), change.value))
    given = [shlex.join(command[start:end]) for name, start, end, _ in spelled_flags(command) if name in names]
    return f"remove {' '.join(given) or '/'.join(FLAGS[name].spellings[0] for name in names)}"


def _set_by(knob: Knob) -> tuple[str, ...]:
    """The flags that give a knob its value; others only stand in its way."""
    names = _NAMES.get(knob, ())
    return names[:1] if knob is Knob.EXPERTS_ON_CPU else names


def _words(names: Sequence[str], value: Setting) -> list[str]:
    """The flags that give every name this value; none for None."""
    if value is None:
        return []
    text = ("on" if value else "off") if isinstance(value, bool) else str(value)
    return [word for name in names for word in (_spelling(name), text)]


def _spelling(name: str) -> str:
    """The short flag that people write; for the fit its long one, which reads better."""
    return "--fit" if name == "fit" else FLAGS[name].spellings[0]
