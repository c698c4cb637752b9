"""A command line where it belongs: in a shell, in a service of systemd, in a compose file or in a pod."""

import shlex
from collections.abc import Callable, Mapping, Sequence

from unslow.facts.placed import Place, labelled
from unslow.facts.yaml_text import in_compose_quotes, in_quotes
from unslow.look.at_hand import NO_UNIT, Unit
from unslow.look.keys import SHOWN
from unslow.look.paths import is_absolute

Environment = Mapping[str, str | None]
_Entry = Callable[[str, str], str]
COMPOSED = "docker compose"
COMPOSE_UP = "docker compose up -d"
_ENGINES = ("docker", "podman")
_HIDDEN = f"{SHOWN} stands for a secret that is not shown here: put it in"
_LAST = "zz-"
"""Drop-ins are read in the order of their names: this one after `override.conf`, which `systemctl edit` writes."""
_RELATIVE = "systemd starts programs by their whole path: put it before {program}"


def started(
    shown: Sequence[str], environment: Environment, container: str = "", unit: Unit = NO_UNIT, front: str = ""
) -> tuple[str, ...]:
    """Lines that start this command line, by whoever starts it now; secrets are hidden in it already."""
    notes = [_HIDDEN] if SHOWN in shown or any(word.endswith(f"={SHOWN}") for word in shown) else []
    if front and not unit.name:
        notes.append(f"it is started by {front}: change the command there")
    if container:
        return (*_in_container(shown, environment, container), *_by_hand(notes))
    if unit.name:
        if not is_absolute(shown[0]):
            notes.append(_RELATIVE.format(program=shown[0]))
        return (*_by_hand(notes), *drop_in(unit, environment, shown))
    return (*_by_hand(notes), shell_line(shown, environment))


def restarted(shown: Sequence[str], unit: Unit = NO_UNIT) -> list[str]:
    """The line that starts it again as it is: the service that starts it now, else its command line."""
    if unit.name:
        service = unit.name.removesuffix(".service")
        return [f"systemctl --user restart {service}" if unit.of_user else f"sudo systemctl restart {service}"]
    return [shlex.join(shown)]


def _by_hand(notes: Sequence[str]) -> tuple[str, ...]:
    return tuple(labelled(Place.HAND, note) for note in notes)


def shell_line(words: Sequence[str], environment: Environment) -> str:
    """One line for a shell of Unix, with its variables before it."""
    away = [word for name, value in environment.items() if value is None for word in ("-u", name)]
    given = [f"{name}={shlex.quote(value)}" for name, value in environment.items() if value is not None]
    return " ".join([*(["env", *away] if away else []), *given, shlex.join(words)])


def drop_in(unit: Unit, environment: Environment, command: Sequence[str] = ()) -> tuple[str, ...]:
    """Lines that write drop-ins of the service and start it again; each variable has a file of its own.

    So one fix does not take away another, and the same one twice changes nothing.
    """
    texts = {name: drop_in_text({name: value}) for name, value in environment.items()}
    if command:
        texts["command"] = drop_in_text({}, command)
    root, sudo = ("systemctl --user", "") if unit.of_user else ("sudo systemctl", "sudo ")
    folder = f"{'~/.config/systemd/user' if unit.of_user else '/etc/systemd/system'}/{unit.name}.d"
    made = f"{sudo}mkdir -p {folder}"
    written = (
        f"{made} && printf '%s\\n' {shlex.join(text.splitlines())} | {sudo}tee {folder}/{_LAST}{name}.conf"
        for name, text in texts.items()
    )
    return (*written, f"{root} daemon-reload && {root} restart {unit.name.removesuffix('.service')}")


def drop_in_text(environment: Environment, command: Sequence[str] = ()) -> str:
    """The text of a drop-in; an empty ExecStart takes away the command that the unit has."""
    given = [
        f"Environment={in_unit(f'{name}={value}', always=True)}"
        for name, value in environment.items()
        if value is not None
    ]
    away = [f"UnsetEnvironment={name}" for name, value in environment.items() if value is None]
    words = " ".join(in_unit(word, dollars="$$") for word in command)
    return "\n".join(["[Service]", *given, *away, *(["ExecStart=", f"ExecStart={words}"] if command else [])])


def in_unit(word: str, *, dollars: str = "$", always: bool = False) -> str:
    """A word as systemd reads it: `%` and, in commands, `$` stand for something unless they are doubled."""
    safe = word.replace("\\", "\\\\").replace("%", "%%").replace("$", dollars).replace('"', '\\"').replace("\n", "\\n")
    plain = bool(word) and not any(sign in word for sign in " \t\n'\"\\;") and not always
    return safe if plain else f'"{safe}"'


def _in_container(shown: Sequence[str], environment: Environment, container: str) -> tuple[str, ...]:
    """The arguments of a container: its image names the program."""
    if container == "kubernetes":
        text = "\n".join([f"args: {_listed(shown[1:], in_quotes)}", *_variables(environment, "env:", _of_pod)])
        return (labelled(Place.MANIFEST, text), "kubectl apply -f FILE")
    text = "\n".join(
        [f"command: {_listed(shown[1:], in_compose_quotes)}", *_variables(environment, "environment:", _of_compose)]
    )
    composed = (labelled(Place.COMPOSE, text), COMPOSE_UP)
    if container == COMPOSED or container not in _ENGINES:
        return composed
    given = " ".join(f"-e {shlex.quote(f'{name}={value}')}" for name, value in environment.items() if value is not None)
    without = "".join(f", without {name}" for name, value in environment.items() if value is None)
    variables = f", {given} before its image{without}" if given or without else ""
    run = f"or without compose: {container} run with the arguments {shlex.join(shown[1:])} after its image{variables}"
    return (*composed, labelled(Place.HAND, run))


def composed_variables(environment: Environment) -> str:
    """Variables for a compose file."""
    return "\n".join(_variables(environment, "environment:", _of_compose))


def pod_variables(environment: Environment) -> str:
    """Variables for the manifest of a pod."""
    return "\n".join(_variables(environment, "env:", _of_pod))


def _listed(words: Sequence[str], quoted: Callable[[str], str]) -> str:
    return f"[{', '.join(map(quoted, words))}]"


def _variables(environment: Environment, head: str, entry: _Entry) -> list[str]:
    given = [entry(name, value) for name, value in environment.items() if value is not None]
    away = [f"# without {name}" for name, value in environment.items() if value is None]
    return [*([head, *given] if given else []), *away]


def _of_compose(name: str, value: str) -> str:
    return f"  {name}: {in_compose_quotes(value)}"


def _of_pod(name: str, value: str) -> str:
    return f"  - {{name: {name}, value: {in_quotes(value)}}}"
