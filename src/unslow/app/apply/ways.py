"""How a server can be told its new command line: in a drop-in of its unit, in a compose file, or in a script."""

import os
import re
import shlex
import stat
import sys
from typing import NamedTuple

from unslow.act.edits.compose import edited_compose, services
from unslow.act.edits.script import edited_script
from unslow.act.edits.systemd import LAST_NAME, UnitFile, drop_in, exec_start, file_name
from unslow.act.edits.words import NotUnderstoodError
from unslow.act.files import Edit, read_for_edit
from unslow.facts.errors import UserError
from unslow.facts.placed import Place, labelled
from unslow.look.at_hand import Unit
from unslow.look.processes import read_process
from unslow.look.starters import read_composed, read_script, read_unit_files
from unslow.look.system import LookError, System
from unslow.look.units import read_unit
from unslow.think.change.report import How

SYSTEM_UNITS = "/etc/systemd/system"
_COMPOSE = (".yml", ".yaml")
_NO_FILES = ("/dev/", "/proc/")
"""Where names mean something else in another process."""
_SHELLS = ("/sh", "/bash", "/dash", "/zsh")


class Told(NamedTuple):
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


def way_of(system: System, told: Told, file: str | None) -> Way:
    """The way of a file that the user names, else the one that the server's process shows; else by hand."""
    try:
        if file:
            return _of_file(system, told, file)
        unit = read_unit(system, told.pid)
        if unit.of_user and not _is_ours(system, told.pid):
            return Way("by_hand", because=f"{unit.name} is a service of another user: run it as that user")
        if unit.name:
            return _of_unit(system, told, unit)
        return _of_surroundings(system, told)
    except NotUnderstoodError as error:
        return Way("by_hand", because=str(error))
    except LookError as error:
        return Way("by_hand", because=error.why)


def _is_ours(system: System, pid: int) -> bool:
    """Whether a process is of the user who asks."""
    if sys.platform == "win32":  # no process of a user's service unit runs there
        return False
    found = re.search(r"^Uid:\s*(\d{1,10})", read_process(system, pid).text("status"), re.MULTILINE)
    return found is not None and int(found[1]) == os.geteuid()


def _of_file(system: System, told: Told, file: str) -> Way:
    if file.endswith((".service", ".conf")):
        raise UserError(f"{file} is a unit, which is never edited", "leave --file out: a drop-in is written beside it")
    if file.endswith(_COMPOSE):
        return _of_compose(told, file, _service(system, told, file), named=True)
    return _of_script(told, file, named=True)


def _of_surroundings(system: System, told: Told) -> Way:
    try:
        composed = read_composed(system, told.pid)
    except LookError as error:
        script = read_script(system, told.pid)
        if script:
            return _of_script(told, script)
        why = "no service of systemd, compose file or script was seen to start it; one can be named with --file"
        return Way("by_hand", because=f"{error.why}; {why}" if "compose" in error.why else why)
    return _of_compose(told, composed.file, composed.service)


def _service(system: System, told: Told, file: str) -> str:
    """The service of a compose file: by the container, else the only one whose command it is."""
    try:
        return read_composed(system, told.pid).service
    except LookError:
        pass
    text = _text(file, named=True)[1]
    fitting = [name for name in services(text) if _is_edited(text, name, told)]
    if len(fitting) != 1:
        raise NotUnderstoodError(f"{len(fitting)} services of {file} have the command that runs")
    return fitting[0]


def _is_edited(text: str, name: str, told: Told) -> bool:
    try:
        edited_compose(text, name, told.old, told.new)
    except NotUnderstoodError:
        return False
    return True


def _of_compose(told: Told, file: str, service: str, *, named: bool = False) -> Way:
    real, text = _text(file, named=named)
    if told.environment:
        raise NotUnderstoodError(f"variables change too, and of {file} only the command is edited")
    try:
        after = edited_compose(text, service, told.old, told.new)
    except NotUnderstoodError as error:
        raise NotUnderstoodError(f"{file}, service {service}: {error}") from error
    edit = Edit(real, text.encode(), after.encode())
    return Way("compose", (edit,), (shlex.join(["docker", "compose", "-f", real, "up", "-d", service]),))


def _of_script(told: Told, file: str, then: tuple[str, ...] = (), *, named: bool = False) -> Way:
    real, text = _text(file, named=named)
    try:
        after = edited_script(text, told.old, told.new, told.environment)
    except NotUnderstoodError as error:
        raise NotUnderstoodError(f"{file}: {error}") from error
    again = then or (labelled(Place.HAND, f"stop the server and start it again with {real}"),)
    return Way("script", (Edit(real, text.encode(), after.encode()),), again)


def _text(file: str, *, named: bool) -> tuple[str, str]:
    """The text of a file; what is wrong with it is the user's to mend only where the user named it."""
    if not named and file.startswith(_NO_FILES):
        raise NotUnderstoodError(f"what started it reads {file}, which is no file of its own")
    try:
        real, data = _there(file)
    except UserError as error:
        if named:
            raise
        raise NotUnderstoodError(str(error)) from error
    try:
        return real, data.decode()
    except UnicodeDecodeError as error:
        raise NotUnderstoodError(f"{file} is no text in UTF-8") from error


def _there(file: str) -> tuple[str, bytes]:
    real, data = read_for_edit(file)
    if data is None:
        raise UserError(f"{file}: no such file", "nothing was changed")
    return real, data


def _of_unit(system: System, told: Told, unit: Unit) -> Way:
    files = [UnitFile(*file) for file in read_unit_files(system, unit)]
    try:
        edit = unit_edit(files, unit, told)
    except NotUnderstoodError as error:
        script = _script_of(system, files)
        if script:
            return _of_script(told, script, restart_lines(unit)[1:])
        raise NotUnderstoodError(f"{unit.name}: {error}") from error
    return Way("systemd", (edit,), restart_lines(unit))


def unit_edit(files: list[UnitFile], unit: Unit, told: Told, folder: str = "") -> Edit:
    """The drop-in of a unit, anew or over an earlier one of ours."""
    command = told.old != told.new
    there = {path.rpartition("/")[2] for path, _ in files[1:]}
    name = LAST_NAME if LAST_NAME in there else file_name(files, told.environment, command=command)
    path = f"{folder or _drop_ins(unit)}/{unit.name}.d/{name}"
    real, before = read_for_edit(path)
    text = drop_in(files, told.old, told.new, told.environment, (before or b"").decode("utf-8", "replace"))
    return Edit(real, before, text.encode(), _mode(files[0].path))


def _mode(path: str) -> int:
    """As open as the unit: what it hides, the drop-in hides."""
    try:
        return stat.S_IMODE(os.stat(path).st_mode) & 0o666  # noqa: PTH116
    except OSError:
        return 0o644


def _drop_ins(unit: Unit) -> str:
    if not unit.of_user:
        return SYSTEM_UNITS
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111
    return f"{config}/systemd/user"


def _script_of(system: System, files: list[UnitFile]) -> str:
    """The script that a unit starts; empty where it starts something else."""
    try:
        words = [word.value for word in exec_start(files).words if not word.pattern]
        first = next((word for word in words if not word.endswith(_SHELLS)), "")
        return first if system.read_head(first, 2) == b"#!" else ""
    except (NotUnderstoodError, LookError):
        return ""


def restart_lines(unit: Unit) -> tuple[str, ...]:
    """What makes systemd read the unit again, and start the server anew."""
    program = "systemctl --user" if unit.of_user else "systemctl"
    return f"{program} daemon-reload", f"{program} restart {unit.name}"
