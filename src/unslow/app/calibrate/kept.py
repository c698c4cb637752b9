"""The calibrations that are kept, which of them still hold, and how to be rid of them."""

import msgspec

from unslow.app.calibrate.embedded import ENGINE
from unslow.app.progress import Progress
from unslow.facts.calibration import Calibration
from unslow.facts.errors import UserError
from unslow.facts.machine import Machine
from unslow.facts.merge import overlaid
from unslow.facts.runtime import Runtime
from unslow.facts.values import NOT_LOOKED, reported
from unslow.look.bench.ram_bandwidth import read_ram_bandwidth
from unslow.look.calibration import CalibrationStore, Stored, default_store
from unslow.look.engine.server import engine_version
from unslow.look.probes import read_machine
from unslow.look.system import System
from unslow.think.calibrate import mark_of, same_machine, stale_because


class Kept(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One kept calibration, or a file that is none."""

    path: str
    calibration: Calibration | None = None
    problem: str = ""
    stale: tuple[str, ...] = ()


class KeptReport(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept, newest first."""

    schema: str = "unslow.calibrations/1"
    folder: str
    calibrations: tuple[Kept, ...]


def kept(system: System, progress: Progress, store: CalibrationStore | None = None) -> KeptReport:
    """Every calibration with what has changed since."""
    store = store or default_store()
    found = store.read_all(system)
    progress.step("looking at the machine", 0.5)
    machine = overlaid(read_machine(system)[0], Machine(memory=read_ram_bandwidth(system))) if found else Machine()
    return KeptReport(folder=str(store.folder), calibrations=tuple(_kept(one, machine, system.now()) for one in found))


def _kept(one: Stored, machine: Machine, now: str) -> Kept:
    if one.calibration is None:
        return Kept(path=one.path, problem=one.problem)
    if not same_machine(one.calibration.machine, mark_of(machine)):
        return Kept(path=one.path, calibration=one.calibration, stale=("it was measured on another machine",))
    stale = stale_because(one.calibration, machine, _runtime(one.calibration), now)
    return Kept(path=one.path, calibration=one.calibration, stale=tuple(stale))


def _runtime(calibration: Calibration) -> Runtime:
    """The engine as it is now; a server that is not asked is taken to be what it was."""
    if calibration.engine != ENGINE:
        return Runtime()
    try:
        return Runtime(version=reported(engine_version(), "installed package"))
    except UserError:  # no longer installed
        return Runtime(version=NOT_LOOKED)


def forget(system: System, word: str, store: CalibrationStore | None = None) -> list[str]:
    """Remove the calibrations whose file, engine, device or processor has the word, or all; UserError for none."""
    store = store or default_store()
    gone = [one.path for one in store.read_all(system) if word.casefold() in _described(one)]
    if not gone:
        what = f"no calibration is about {word!r}" if word else "no calibration is kept"
        raise UserError(what, "`unslow calibrate --list` shows them")
    for path in gone:
        store.forget(path)
    return gone


def _described(one: Stored) -> str:
    known = one.calibration
    words = (known.engine, known.device, known.engine_version, known.machine.cpu) if known else ()
    return " ".join((one.path, *words)).casefold()
