"""Who starts a server - a shell, a service of systemd, a container - and the lines that start it again in that way."""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from unslow.facts import commands
from unslow.facts.commands import WINDOWS, Place, by_hand, labelled_line
from unslow.facts.masking import SHOWN_KEY
from unslow.facts.values import Fact, failed_fact, not_found, reported_fact
from unslow.look.command_line import is_absolute_path
from unslow.look.processes import Process, read_process, words_of
from unslow.look.system import LookError, System, read_text

Environment = Mapping[str, str | None]
COMPOSED = "docker compose"
COMPOSE_UP = "docker compose up -d"
_HIDDEN = f"{SHOWN_KEY} stands for a secret that is not shown: fill it in"
_LAST = "zz-"
"""Drop-ins are read in the order of their names: this one after `override.conf`, which `systemctl edit` writes."""
_RELATIVE = "systemd needs the full path of a program: put it before {program}"
_MANAGER = "systemd"
_OF_USER = "user@"
_CONTAINER = re.compile(r"(?:docker[-/]|libpod-|/docker/)([0-9a-f]{64})")
_LABELS = "com.docker.compose.project.config_files", "com.docker.compose.service"
_SHELLS = ("sh", "bash", "dash", "zsh", "ksh", "ash")
_MOST_FILES = 64
_NAME = r"[A-Za-z_][A-Za-z0-9_]{0,80}"
_VALUE = r"(?:[^\s']|'[^']*')++"  # A word as `shlex.quote` writes it
_GIVEN = re.compile(rf"((?:{_NAME}={_VALUE} )++)(\S.*)")


class Unit(NamedTuple):
    """A service of systemd, of the system or of a user."""

    name: str = ""
    of_user: bool = False

    @classmethod
    def from_text(cls, text: str) -> "Unit":
        """By the words that systemctl takes for it, as facts have them."""
        return cls(text.rpartition(" ")[2], of_user=text.startswith("--user "))

    @property
    def service(self) -> str:
        """Its name without the ending."""
        return self.name.removesuffix(".service")

    @property
    def words(self) -> str:
        """Those words."""
        return f"--user {self.name}" if self.of_user else self.name


NO_UNIT = Unit()


class ComposeService(NamedTuple):
    """Where compose has a service from."""

    file: str
    service: str


def read_unit(system: System, pid: int) -> Unit:
    """The service whose first process this is; none for what a shell or another process of a service started."""
    process = read_process(system, pid)
    unit = parse_unit(process.text("cgroup"))
    return unit if unit.name and read_process(system, process.parent_pid()).name == _MANAGER else NO_UNIT


def unit_fact(process: Process) -> Fact[str]:
    """The same as a fact: the service, or who started it instead."""
    source = f"/proc/{process.pid}/cgroup"
    text = process.text("cgroup")
    if not text:
        return failed_fact(f"{source} can't be read")
    unit, parent = parse_unit(text), read_process(process.system, process.parent_pid()).name
    if unit.name and parent in (_MANAGER, ""):  # whose name may not be recorded
        return reported_fact(unit.words, source)
    return not_found(f"{source}: not in a systemd service" + (f"; {parent} started it" if parent else ""))


def parse_unit(text: str) -> Unit:
    """The innermost service in a control group; a scope, such as that of a session or a container, is none."""
    path = text.strip().splitlines()[-1].rpartition(":")[2] if text.strip() else ""
    parts = path.split("/")
    services = [part for part in parts if part.endswith(".service") and not part.startswith(_OF_USER)]
    if not services or any(part.endswith(".scope") for part in parts):
        return NO_UNIT
    return Unit(services[-1], of_user=any(part.startswith(_OF_USER) for part in parts))


def read_unit_files(system: System, unit: Unit) -> list[tuple[str, str]]:
    """Paths and texts of a unit and its drop-ins in the order in which they hold; LookError where systemd is silent."""
    scope = ["--user"] if unit.of_user else []
    done = system.run(["systemctl", *scope, "show", unit.name, "--property=FragmentPath", "--property=DropInPaths"])
    said = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    if done.status or not said.get("FragmentPath"):
        raise LookError(f"systemctl does not say where {unit.name} is: {(done.stderr or 'no file').strip()[:200]}")
    paths = [said["FragmentPath"], *said.get("DropInPaths", "").split()]
    return [(path, read_text(system, path)) for path in paths[:_MOST_FILES]]


def read_composed(system: System, pid: int) -> ComposeService:
    """The compose file and the service of a container; LookError where docker does not say."""
    container = _CONTAINER.search(read_process(system, pid).text("cgroup"))
    if not container:
        raise LookError("its control group names no docker container")
    done = system.run(["docker", "inspect", "--format", "{{json .Config.Labels}}", container[1]])
    try:
        labels = msgspec.json.decode(done.stdout or "{}", type=dict[str, str] | None) or {}
    except msgspec.MsgspecError as error:
        raise LookError("docker does not show the labels of the container") from error
    file, service = (labels.get(label, "") for label in _LABELS)
    if done.status or not service or not file or "," in file:
        raise LookError("docker does not name one compose file for the container")
    return ComposeService(file, service)


def read_script(system: System, pid: int) -> str:
    """The script whose shell started the process; empty where it is not to be seen."""
    parent = read_process(system, read_process(system, pid).parent_pid())
    words = words_of(parent.command())
    if len(words) < 2 or words[0].rpartition("/")[2].lstrip("-") not in _SHELLS or words[1].startswith("-"):  # noqa: PLR2004
        return ""
    folder = parent.folder().value_or("")
    return words[1] if words[1].startswith("/") else f"{folder}/{words[1]}" if folder else ""


def starting_lines(
    shown: Sequence[str], environment: Environment, container: str = "", unit: Unit = NO_UNIT, front: str = ""
) -> tuple[str, ...]:
    """Lines that start this command line, by whoever starts it now; secrets are hidden in it already."""
    notes = [_HIDDEN] if any(word == SHOWN_KEY or word.endswith(f"={SHOWN_KEY}") for word in shown) else []
    if front and not unit.name:
        notes.append(f"it is started by {front}: change the command there")
    if container:
        return (*_in_container(shown, environment, container), *map(by_hand, notes))
    if unit.name:
        if not is_absolute_path(shown[0]):
            notes.append(_RELATIVE.format(program=shown[0]))
        return (*map(by_hand, notes), *drop_in(unit, environment, shown))
    return (*map(by_hand, notes), shell_line(shown, environment))


def shell_line(words: Sequence[str], environment: Environment) -> str:
    """One line for a shell of Unix, with its variables before it."""
    away = [word for name, value in environment.items() if value is None for word in ("-u", name)]
    given = [f"{name}={shlex.quote(value)}" for name, value in environment.items() if value is not None]
    return " ".join([*(["env", *away] if away else []), *given, shlex.join(words)])


def drop_in(unit: Unit, environment: Environment, command: Sequence[str] = ()) -> tuple[str, ...]:
    """Lines that write drop-ins of the service and restart it; a file for each variable, so that other fixes stay."""
    texts = {
        name: f"UnsetEnvironment={name}" if value is None else f"Environment={in_unit(f'{name}={value}', always=True)}"
        for name, value in environment.items()
    }
    if command:  # an empty ExecStart takes away the command that the unit has
        texts["command"] = f"ExecStart=\nExecStart={' '.join(in_unit(word, dollars='$$') for word in command)}"
    root, sudo = ("systemctl --user", "") if unit.of_user else ("sudo systemctl", "sudo ")
    folder = f"{'~/.config/systemd/user' if unit.of_user else '/etc/systemd/system'}/{unit.name}.d"
    written = []
    for name, text in texts.items():
        lines = shlex.join(["[Service]", *text.splitlines()])
        written.append(f"{sudo}mkdir -p {folder} && printf '%s\\n' {lines} | {sudo}tee {folder}/{_LAST}{name}.conf")
    return (*written, f"{root} daemon-reload && {root} restart {unit.service}")


def in_unit(word: str, *, dollars: str = "$", always: bool = False) -> str:
    """A word as systemd reads it: `%` and, in commands, `$` stand for something unless they are doubled."""
    safe = word.replace("\\", "\\\\").replace("%", "%%").replace("$", dollars).replace('"', '\\"').replace("\n", "\\n")
    plain = bool(word) and not any(sign in word for sign in " \t\n'\"\\;") and not always
    return safe if plain else f'"{safe}"'


def _in_container(shown: Sequence[str], environment: Environment, container: str) -> tuple[str, ...]:
    if container == "kubernetes":
        texts = [f"args: [{', '.join(map(commands.yaml_quoted, shown[1:]))}]", yaml_variables(environment, pod=True)]
        return (labelled_line(Place.MANIFEST, "\n".join(filter(None, texts))), "kubectl apply -f FILE")
    texts = [f"command: [{', '.join(map(commands.compose_quoted, shown[1:]))}]", yaml_variables(environment)]
    composed = (labelled_line(Place.COMPOSE, "\n".join(filter(None, texts))), COMPOSE_UP)
    if container == COMPOSED or container not in ("docker", "podman"):
        return composed
    given = " ".join(f"-e {shlex.quote(f'{name}={value}')}" for name, value in environment.items() if value is not None)
    without = "".join(f", without {name}" for name, value in environment.items() if value is None)
    variables = f", {given} before its image{without}" if given or without else ""
    run = f"or without compose: {container} run with the arguments {shlex.join(shown[1:])} after its image{variables}"
    return (*composed, by_hand(run))


def yaml_variables(environment: Environment, *, pod: bool = False) -> str:
    """Variables for a compose file, or for the manifest of a pod."""
    head, entry, quoted = "environment:", "  {}: {}", commands.compose_quoted
    if pod:
        head, entry, quoted = "env:", "  - {{name: {}, value: {}}}", commands.yaml_quoted
    given = [entry.format(name, quoted(value)) for name, value in environment.items() if value is not None]
    away = [f"# without {name}" for name, value in environment.items() if value is None]
    return "\n".join([*([head, *given] if given else []), *away])


def lines_for_system(lines: Sequence[str], system: str) -> list[str]:
    """The lines for the shells of a system; as they are where it is none of Windows."""
    if system != WINDOWS:
        return list(lines)
    said: list[str] = []
    for line in lines:
        if commands.parse_line(line).place is not Place.SHELL:
            said.append(line)
            continue
        for part in line.split(" && "):  # which older PowerShells do not know: each command gets a line of its own
            forms = (write(found) for pattern, write in _FORMS if (found := pattern.fullmatch(part)))
            said += next(forms, [_for_windows(part)] if "'" in part else [part])
    return said


def _export(found: re.Match[str]) -> list[str]:
    value = _requote(found[2])
    in_cmd = [labelled_line(Place.CMD, f"set {found[1]}={value}")] if commands.is_plain_word(value) else []
    return [_powershell(_set(found[1], found[2])), *in_cmd]


def _with_variables(command: str) -> str:
    found = _GIVEN.fullmatch(command)
    if not found:
        return _for_windows(command)
    pairs = re.findall(rf"({_NAME})=({_VALUE}) ", found[1])
    return "; ".join([*(_set(name, value) for name, value in pairs), _for_windows(found[2])])


_FORMS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], list[str]]], ...] = (
    (
        re.compile(rf"unset ({_NAME})"),
        lambda found: [_powershell(f"Remove-Item Env:{found[1]}"), labelled_line(Place.CMD, f"set {found[1]}=")],
    ),
    (re.compile(rf"export ({_NAME})=(\S.*)"), _export),
    (
        re.compile(rf"env((?: -u {_NAME})+) (\S.*)"),
        lambda found: [
            _powershell(f"Remove-Item {found[1].replace(' -u ', ', Env:')[2:]}; {_with_variables(found[2])}")
        ],
    ),
    (
        # `curl` is another program in older PowerShells, and quotes inside an argument get lost on the way to it
        re.compile(r"curl (\S+) -H 'Content-Type: application/json' -d ('.*')"),
        lambda found: [
            _powershell(
                f"Invoke-RestMethod {found[1]} -Method Post -ContentType application/json "
                f"-Body {commands.powershell_word(_requote(found[2]))}"
            )
        ],
    ),
    (_GIVEN, lambda found: [_powershell(_with_variables(found[0]))]),
    (re.compile(r"sudo (\S.*)"), lambda found: [by_hand(f"in an administrator prompt: {found[1]}")]),
)


def _powershell(text: str) -> str:
    return labelled_line(Place.POWERSHELL, text)


def _set(name: str, value: str) -> str:
    return f"$env:{name} = {commands.powershell_text(_requote(value))}"


def _requote(text: str, joined: Callable[[Sequence[str]], str] = " ".join) -> str:
    """The words of a text, of which the quotes are those of Unix; the text itself where a quote is not closed."""
    try:
        words = shlex.split(text)
    except ValueError:
        words = []
    return joined(words) if words else text


_for_windows = partial(_requote, joined=lambda words: commands.shell_joined(words, WINDOWS))
"""A command line whose words are quoted as Windows reads them."""
