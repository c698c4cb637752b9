"""Ollama's changes: a derived model for what a model can have, a drop-in of its service for the rest."""

import re

from unslow.act.edits.systemd import UnitFile
from unslow.act.edits.words import NotUnderstoodError
from unslow.act.files import Edit
from unslow.act.journal import ModelStep
from unslow.act.ollama import checked_name
from unslow.app.apply.ways import Told, restart_lines, unit_edit
from unslow.facts.commands import Commands
from unslow.facts.placed import Place, line_of
from unslow.facts.runtime import Runtime
from unslow.look.at_hand import NO_UNIT, Unit
from unslow.look.processes import read_process
from unslow.look.runtimes.ollama.names import derived_name
from unslow.look.runtimes.ollama.places import is_at_least
from unslow.look.starters import read_unit_files
from unslow.look.system import LookError, System
from unslow.look.units import read_unit

DERIVES_SINCE = (0, 5, 5)
"""The first version whose API takes `from` and `parameters` (api/types.go, CreateRequest)."""
_PARAMETER = re.compile(r"PARAMETER (\w+) (\S+)")
_INTEGER, _NUMBER = re.compile(r"-?\d{1,12}"), re.compile(r"-?\d{1,12}\.\d{1,12}")
_MOST_PARENTS = 4


def derived(commands: Commands, runtime: Runtime, own: str, name: str | None) -> ModelStep | None:
    """The model to derive; None where only variables change, or the version, or a file, needs another way."""
    text = next((line.text for line in map(line_of, commands.lines) if line.place is Place.WHOLE_MODELFILE), "")
    base = text.partition("\n")[0].removeprefix("FROM ").strip()
    parameters = {match[1]: _value(match[2]) for match in _PARAMETER.finditer(text)}
    url = runtime.url.value_or("").rstrip("/")
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
    unit = _unit(system, pid)
    if not unit.name:
        raise NotUnderstoodError("no service of systemd was seen to start it")
    try:
        files = [UnitFile(*file) for file in read_unit_files(system, unit)]
    except LookError as error:
        raise NotUnderstoodError(error.why) from error
    return unit_edit(files, unit, Told(pid, (), (), environment)), restart_lines(unit)


def _unit(system: System, pid: int) -> Unit:
    """The service of the server, of which a model's process is a child."""
    for _ in range(_MOST_PARENTS):
        if pid <= 1:
            break
        unit = read_unit(system, pid)
        if unit.name:
            return unit
        pid = read_process(system, pid).parent_pid()
    return NO_UNIT


def lines_left(commands: Commands, *, model: bool, service: bool) -> tuple[str, ...]:
    """The lines for a person, without those of what is done here."""
    if service and model:
        return ()
    made = [n for n, line in enumerate(commands.lines) if line_of(line).place is Place.WHOLE_MODELFILE]
    cut = made[0] if made else len(commands.lines)
    return commands.lines[:cut] if model else commands.lines[cut:] if service else commands.lines
