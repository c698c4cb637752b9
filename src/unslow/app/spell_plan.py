"""A whole plan in the words of the runtime that it is for: the one that runs, or one that the user names."""

import sys
from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from unslow.facts.errors import UserError
from unslow.facts.knob import Change, Knob
from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Case
from unslow.facts.spelled import Spelled
from unslow.facts.values import NOT_LOOKED, Known, first_known, reported
from unslow.look.at_hand import NO_UNIT, AtHand, Unit
from unslow.look.paths import is_absolute
from unslow.look.runtimes import Looker, looker_of, lookers
from unslow.look.shells import for_system
from unslow.look.system import LookError, System
from unslow.look.units import read_unit
from unslow.think.adapt.surroundings import system_of, unit_of

_NO_WORDS = "{runtime} has no setting for it"
_HEAD_BYTES = 4
_SYSTEMS = {"win32": "Windows", "darwin": "macOS"}
_HERE = reported(_SYSTEMS[sys.platform], "this machine") if sys.platform in _SYSTEMS else NOT_LOOKED


def spelled_plan(
    changes: Sequence[Change],
    runtime: Runtime,
    model: Model,
    *,
    system: System | None = None,
    listed: Collection[str] = (),
    program: str = "",
    name: str = "",
) -> Spelled:
    """All changes at once; `name` is the runtime's where nothing runs yet, `listed` the models that were seen.

    With a live system, the program at hand is asked which flags it has, and files are looked at before they are named.
    """
    runtime = _named(runtime, name)
    looker = _looker(runtime)
    seen = frozenset(listed) | {str(fact.value) for fact in (model.name, model.path) if isinstance(fact, Known)}
    kept, gone = _there(changes, system)
    at_hand = AtHand(model, _unit(runtime, system), _options(looker, runtime, system, program), seen, program)
    spell_all: Any = getattr(looker, "spell_all", None)
    said: Spelled = spell_all(kept, runtime, at_hand) if spell_all else _one_by_one(kept, runtime, looker)
    lines = for_system(said.lines, system_of(Case(runtime=runtime)))
    return msgspec.structs.replace(said, lines=tuple(lines), left_out=(*gone, *said.left_out))


def _named(runtime: Runtime, name: str) -> Runtime:
    """The runtime, or one of which only the name is known, as in `llama_cpp`."""
    if isinstance(runtime.name, Known) or not name:
        return runtime
    wanted = _plain(name)
    full = next((looker.NAME for looker in lookers() if _plain(looker.NAME) == wanted), "")
    if not full:
        known = ", ".join(sorted(_plain(looker.NAME) for looker in lookers()))
        raise UserError(f"no runtime is named {name}", f"known are {known}")
    system = first_known(runtime.system, _HERE)  # what does not run yet is started here
    return msgspec.structs.replace(runtime, name=reported(full, "given"), system=system)


def _plain(name: str) -> str:
    """A runtime's name as people type it: llama.cpp, llama_cpp, LM Studio, lm-studio."""
    return "_".join(name.lower().replace(".", " ").replace("-", " ").replace("_", " ").split())


def _looker(runtime: Runtime) -> Looker:
    looker = looker_of(runtime.name.value_or(""))
    if looker is None:
        raise UserError("which runtime the plan is for is not known", "name it, such as llama_cpp or ollama")
    return looker


def _unit(runtime: Runtime, system: System | None) -> Unit:
    """The service that starts it, by its control group now, else by the limits that were seen of it."""
    if isinstance(runtime.unit, Known):
        return Unit.named(runtime.unit.value)
    pid = runtime.pid.value_or(0)
    if system is not None and pid:
        return read_unit(system, pid)
    name = unit_of(Case(runtime=runtime))
    return Unit(name) if name and not name.startswith("user@") else NO_UNIT


def _options(looker: Looker, runtime: Runtime, system: System | None, program: str) -> dict[str, str]:
    """What the program itself says that it has: the very one that runs, or the one that the user names."""
    read_own, read_named = getattr(looker, "read_own_options", None), getattr(looker, "read_options", None)
    if system is None or read_own is None or read_named is None:
        return {}
    runs = isinstance(runtime.pid, Known)
    return dict(read_own(system, runtime) if runs else read_named(system, program) if program else {})


def _there(changes: Sequence[Change], system: System | None) -> tuple[list[Change], tuple[tuple[Change, str], ...]]:
    """Changes that name no file that is gone, and those that do."""
    gone = [
        (change, f"{change.value} can't be read here")
        for change in changes
        if change.knob is Knob.MODEL_FILE and system is not None and not _can_be_read(str(change.value), system)
    ]
    missing = [change for change, _ in gone]
    return [change for change in changes if change not in missing], tuple(gone)


def _can_be_read(path: str, system: System) -> bool:
    """Whether a path leads to a file or a folder; a name that is no path is for the runtime to know."""
    if not is_absolute(path):
        return True
    try:
        return bool(system.read_head(path, _HEAD_BYTES))
    except LookError:
        pass
    try:
        return bool(system.list_dir(path))
    except LookError:
        return False


def _one_by_one(changes: Sequence[Change], runtime: Runtime, looker: Looker) -> Spelled:
    """For a runtime that spells no whole: the shortest words for each change."""
    said = [(change, looker.spell(change, runtime)) for change in changes]
    why = _NO_WORDS.format(runtime=looker.NAME)
    return Spelled(tuple(lines[0] for _, lines in said if lines), tuple((c, why) for c, lines in said if not lines))
