"""Looks at the machine and at what runs on it, and writes the snapshot."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from unslow import __version__
from unslow.app.progress import Progress
from unslow.app.read_target import is_live, read_stored
from unslow.app.runtimes import read_runtimes
from unslow.app.save import save
from unslow.app.with_machine import with_machine
from unslow.facts.errors import UserError
from unslow.facts.machine import Machine
from unslow.facts.merge import overlaid
from unslow.facts.snapshot import Snapshot, Subject
from unslow.look.bench.ram_bandwidth import read_ram_bandwidth
from unslow.look.calibration import read_calibrations
from unslow.look.model_disks import read_model_disks
from unslow.look.probes import read_machine
from unslow.look.system import System
from unslow.look.system.live import LiveSystem
from unslow.look.system.recorded import Recorder
from unslow.think.calibrate import of_machine


def collect(system: System, *, bandwidth: bool, api_key: str = "", port: int | None = None) -> Snapshot:
    """Everything that can be seen without sending traffic to a runtime; with a port, of the servers only that there."""
    taken_at = system.now()
    machine, outcomes = read_machine(system)
    if bandwidth:
        machine = overlaid(machine, Machine(memory=read_ram_bandwidth(system)))
    found = read_runtimes(system, api_key, port)
    machine = overlaid(machine, Machine(disks=read_model_disks(system, found.subjects)))
    return Snapshot(
        unslow_version=__version__,
        taken_at=taken_at,
        machine=machine,
        subjects=tuple(with_machine(subject, machine) for subject in found.subjects),
        calibrations=of_machine(read_calibrations(system), machine),
        probes=(*outcomes, *found.outcomes),
    )


def write_snapshot(output: str, target: str | None, record: str | None, *, bandwidth: bool, progress: Progress) -> None:
    """Collect, live or from a stored target, and write the masked snapshot."""
    if target is not None and not is_live(target):
        save(read_stored(target), output, progress)
        return
    if target is not None:
        raise UserError(
            "collect looks at this machine or at a recording", "for one server: unslow diagnose URL --save FILE"
        )
    progress.step("looking at the machine", 0.3)
    live: System = LiveSystem()
    recorder = recorder_of(live, record) if record else None
    try:
        snapshot = collect(recorder or live, bandwidth=bandwidth)
    finally:
        if recorder:
            recorder.close()
    save(snapshot, output, progress)
    if record:
        progress.say(f"wrote the recording {record}")


def recorder_of(system: System, folder: str, secrets: Sequence[str] = ()) -> Recorder:
    """A door that records into a folder; UserError where that can't be written."""
    try:
        return Recorder(system, Path(folder), secrets)
    except OSError as error:
        raise UserError(f"{folder}: {error.strerror or error}", "name a folder that can be written") from error


def with_subjects(snapshot: Snapshot, subjects: tuple[Subject, ...]) -> Snapshot:
    """The snapshot with other subjects."""
    return msgspec.structs.replace(snapshot, subjects=subjects)
