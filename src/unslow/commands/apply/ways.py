"""How a server can be given its new command line: a drop-in of its unit, a compose file, a script, a derived model."""

import os
import re
import shlex
import stat
import sys
from contextlib import suppress
from typing import NamedTuple

from unslow.act.changes import Edit, read_for_edit
from unslow.act.command_words import NotUnderstoodError
from unslow.act.compose import edited_compose, services
from unslow.act.journal import ModelStep
from unslow.act.ollama import checked_name
from unslow.act.script import edited_script
from unslow.act.systemd import LAST_NAME, UnitFile, drop_in, drop_in_name, exec_start
from unslow.facts.commands import Commands, Place, by_hand, parse_line
from unslow.facts.errors import UserError
from unslow.facts.runtime import Runtime
from unslow.look.command_writer.starters import NO_UNIT, Unit, read_composed, read_script, read_unit, read_unit_files
from unslow.look.processes import read_process
from unslow.look.runtimes.ollama.places import derived_name, is_at_least
from unslow.look.system import LookError, System
from unslow.think.change import How

SYSTEM_UNITS = "/etc/systemd/system"
DERIVES_SINCE = (0, 5, 5)  # The first version whose API takes `from` and `parameters` (api/types.go, CreateRequest)
_NO_FILES = ("/dev/", "/proc/")  # Where names mean something else in another process
_PARAMETER = re.compile(r"PARAMETER (\w+) (\S+)")
_INTEGER, _NUMBER = re.compile(r"-?\d{1,12}"), re.compile(r"-?\d{1,12}\.\d{1,12}")
_MOST_PARENTS = 4


class StartWords(NamedTuple):
    """What a server was started with, and what it shall be started with."""

    pid: int
    old: tuple[str, ...]
    new: tuple[str, ...]
    environment: dict[str, str | None]


class Way(NamedTuple):
    """The edits of one way, what makes the server see them, or why there is no way."""

    how: How
    edits: tuple[Edit, ...] = ()
    then: tuple[str, ...] = ()
    because: str = ""


def way_of(system: System, told: StartWords, file: str | None) -> Way:
    """The way of a file that the user names, else the one that the server's process shows; else by hand."""
    if file and file.endswith((".service", ".conf")):
        hint = "omit --file: unslow writes a drop-in next to it"
        raise UserError(f"{file} is a systemd unit, which unslow never edits", hint)
    try:
        if file and file.endswith((".yml", ".yaml")):
            return _of_compose(told, file, _service(system, told, file), named=True)
        if file:
            return _of_script(told, file, named=True)
        unit = read_unit(system, told.pid)
        if unit.of_user and not _is_ours(system, told.pid):
            return Way("by_hand", because=f"{unit.name} is another user's service: run unslow as that user")
        if unit.name:
            return _of_unit(system, told, unit)
        try:
            composed = read_composed(system, told.pid)
        except LookError as error:
            if script := read_script(system, told.pid):
                return _of_script(told, script)
            why = "no systemd service, compose file or script was found that starts it; name one with --file"
            return Way("by_hand", because=f"{error.why}; {why}" if "compose" in error.why else why)
        return _of_compose(told, composed.file, composed.service)
    except (NotUnderstoodError, LookError) as error:
        return Way("by_hand", because=error.why if isinstance(error, LookError) else str(error))


def _is_ours(system: System, pid: int) -> bool:
    if sys.platform == "win32":  # no process of a user's service unit runs there
        return False
    found = re.search(r"^Uid:\s*(\d{1,10})", read_process(system, pid).text("status"), re.MULTILINE)
    return found is not None and int(found[1]) == os.geteuid()


def _of_compose(told: StartWords, file: str, service: str, *, named: bool = False) -> Way:
    real, text = _text(file, named=named)
    if told.environment:
        raise NotUnderstoodError(f"variables change too, and unslow edits only the command in {file}")
    try:
        after = edited_compose(text, service, told.old, told.new)
    except NotUnderstoodError as error:
        raise NotUnderstoodError(f"{file}, service {service}: {error}") from error
    edit = Edit(real, text.encode(), after.encode())
    return Way("compose", (edit,), (shlex.join(["docker", "compose", "-f", real, "up", "-d", service]),))


def _service(system: System, told: StartWords, file: str) -> str:
    """The service of a compose file: by the container, else the only one whose command it is."""
    with suppress(LookError):
        return read_composed(system, told.pid).service
    text = _text(file, named=True)[1]
    fitting = []
    for name in services(text):
        with suppress(NotUnderstoodError):
            edited_compose(text, name, told.old, told.new)
            fitting.append(name)
    if len(fitting) != 1:
        raise NotUnderstoodError(f"{len(fitting)} services in {file} have the running command")
    return fitting[0]


def _of_script(told: StartWords, file: str, then: tuple[str, ...] = (), *, named: bool = False) -> Way:
    real, text = _text(file, named=named)
    try:
        after = edited_script(text, told.old, told.new, told.environment)
    except NotUnderstoodError as error:
        raise NotUnderstoodError(f"{file}: {error}") from error
    again = then or (by_hand(f"restart the server with {real}"),)
    return Way("script", (Edit(real, text.encode(), after.encode()),), again)


def _text(file: str, *, named: bool) -> tuple[str, str]:
    """The text of a file; what is wrong with it is the user's to mend only where the user named it."""
    if not named and file.startswith(_NO_FILES):
        raise NotUnderstoodError(f"it was started from {file}, which is not a file of its own")
    try:
        real, data = read_for_edit(file)
    except UserError as error:
        if named:
            raise
        raise NotUnderstoodError(str(error)) from error
    if data is None:
        gone = UserError(f"{file}: no such file", "nothing was changed")
        raise gone if named else NotUnderstoodError(str(gone))
    try:
        return real, data.decode()
    except UnicodeDecodeError as error:
        raise NotUnderstoodError(f"{file} is not UTF-8 text") from error


def _of_unit(system: System, told: StartWords, unit: Unit) -> Way:
    files = [UnitFile(*file) for file in read_unit_files(system, unit)]
    try:
        edit = unit_edit(files, unit, told)
    except NotUnderstoodError as error:
        if script := _script_of(system, files):
            return _of_script(told, script, restart_lines(unit)[1:])
        raise NotUnderstoodError(f"{unit.name}: {error}") from error
    return Way("systemd", (edit,), restart_lines(unit))


def unit_edit(files: list[UnitFile], unit: Unit, told: StartWords) -> Edit:
    """The drop-in of a unit, anew or over an earlier one of ours."""
    command = told.old != told.new
    there = {path.rpartition("/")[2] for path, _ in files[1:]}
    name = LAST_NAME if LAST_NAME in there else drop_in_name(files, told.environment, command=command)
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111
    folder = f"{config}/systemd/user" if unit.of_user else SYSTEM_UNITS
    real, before = read_for_edit(f"{folder}/{unit.name}.d/{name}")
    text = drop_in(files, told.old, told.new, told.environment, (before or b"").decode("utf-8", "replace"))
    try:  # as open as the unit: what it hides, the drop-in hides
        mode = stat.S_IMODE(os.stat(files[0].path).st_mode) & 0o666  # noqa: PTH116
    except OSError:
        mode = 0o644
    return Edit(real, before, text.encode(), mode)


def _script_of(system: System, files: list[UnitFile]) -> str:
    try:
        words = [word.value for word in exec_start(files).words if not word.pattern]
        first = next((word for word in words if not word.endswith(("/sh", "/bash", "/dash", "/zsh"))), "")
        return first if system.read_head(first, 2) == b"#!" else ""
    except (NotUnderstoodError, LookError):
        return ""


def restart_lines(unit: Unit) -> tuple[str, ...]:
    """What makes systemd read the unit again, and start the server anew."""
    program = "systemctl --user" if unit.of_user else "systemctl"
    return f"{program} daemon-reload", f"{program} restart {unit.name}"


def ollama_changes(commands: Commands, runtime: Runtime, own: str, name: str | None) -> ModelStep | None:
    """The model to derive; None where only variables change, or the version, or a file, needs another way."""
    text = next((line.text for line in map(parse_line, commands.lines) if line.place is Place.WHOLE_MODELFILE), "")
    base = text.partition("\n")[0].removeprefix("FROM ").strip()
    parameters = {match[1]: _value(match[2]) for match in _PARAMETER.finditer(text)}
    url = runtime.process.url.value_or("").rstrip("/")
    if not parameters or not url or base.endswith(".gguf") or not is_at_least(runtime, DERIVES_SINCE):
        return None
    chosen = checked_name(name or derived_name(own or base))
    return ModelStep(url=url, name=chosen, parent=base, parameters=parameters)


def _value(word: str) -> int | float | str | bool:
    if word in ("true", "false"):
        return word == "true"
    if _INTEGER.fullmatch(word):
        return int(word)
    return float(word) if _NUMBER.fullmatch(word) else word


def service_edit(system: System, pid: int, environment: dict[str, str | None]) -> tuple[Edit, tuple[str, ...]]:
    """The drop-in with the server's variables, and the restart; NotUnderstoodError where no service is seen."""
    unit = NO_UNIT
    for _ in range(_MOST_PARENTS):  # of which a model's process is a child
        if pid <= 1 or (unit := read_unit(system, pid)).name:
            break
        pid = read_process(system, pid).parent_pid()
    if not unit.name:
        raise NotUnderstoodError("no systemd service was found that starts it")
    try:
        files = [UnitFile(*file) for file in read_unit_files(system, unit)]
    except LookError as error:
        raise NotUnderstoodError(error.why) from error
    return unit_edit(files, unit, StartWords(pid, (), (), environment)), restart_lines(unit)


def lines_left(commands: Commands, *, model: bool, service: bool) -> tuple[str, ...]:
    """The lines for a person, without those of what is done here."""
    if service and model:
        return ()
    made = [n for n, line in enumerate(commands.lines) if parse_line(line).place is Place.WHOLE_MODELFILE]
    cut = made[0] if made else len(commands.lines)
    return commands.lines[:cut] if model else commands.lines[cut:] if service else commands.lines
