"""What a TARGET is (a snapshot, a recording, a folder, a URL, a process), and the snapshot of this machine."""

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from unslow import __version__
from unslow.commands._output import Progress, Silent, write_file
from unslow.commands.diagnose.runtimes import read_runtimes
from unslow.facts.errors import UserError
from unslow.facts.machine import Machine
from unslow.facts.masking import mask_snapshot
from unslow.facts.merge import overlaid
from unslow.facts.snapshot import LARGEST_SNAPSHOT_BYTES, Snapshot, Subject, dump_snapshot, parse_snapshot
from unslow.look.bench.ram_bandwidth import read_ram_bandwidth
from unslow.look.contradictions import added_contradictions, contradictions
from unslow.look.plain_folder import LARGEST_FILE_BYTES, is_plain_folder, read_plain_folder
from unslow.look.probes import read_machine
from unslow.look.running_server import read_model_disks
from unslow.look.runtimes._gguf_server import with_default_threads
from unslow.look.stored import read_calibrations
from unslow.look.system import LookError, System
from unslow.look.system.live import LiveSystem
from unslow.look.system.recorded import RecordedSystem, Recorder, is_recording
from unslow.think.speed.calibration import calibrations_of_machine

SNAPSHOT = "snapshot.json"  # The snapshot of a folder that holds one instead of what it was made from
DIAGNOSIS = "ask diagnosis"  # What a recording holds where all of it was a diagnosis
MOST_LOGS = 16
_HINT = "a TARGET is a URL, a process id, a snapshot file or a recording folder"
_PID = re.compile(r"[0-9]{1,10}")
_ADDRESS = re.compile(
    r"(?:[^@\s/]{1,512}@)?(?:[\w-]{1,63}(?:\.[\w-]{1,63}){0,10}|\[[0-9A-Fa-f:.]{2,45}\]):\d{1,5}(?:/\S*)?"
)
"""Host and port, as they are typed by whoever leaves the scheme out."""
_ENDPOINT = re.compile(
    r"/(?:(?:api/)?v[01](?:/(?:chat/)?completions|/models|/responses)?"
    r"|api/(?:generate|chat|tags|ps)|completion|health|props|slots|metrics)$"
)
"""What people paste: the address that a client is given, or one question of many."""


def is_live(target: str | None) -> bool:
    """Whether the target is something that runs: nothing, a URL or a process id."""
    return target is None or as_url(target) is not None or (bool(_PID.fullmatch(target)) and not Path(target).exists())


def as_url(target: str) -> str | None:
    """The target as a URL, its scheme put in where only host and port are named; None where it is something else."""
    if "://" in target:
        return target
    return f"http://{target}" if _ADDRESS.fullmatch(target) and not Path(target).exists() else None


def check_url(url: str) -> str:
    """The base of a URL; UserError where it is none."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise UserError(f"{url!r} is not a URL: {error}", "for example http://127.0.0.1:8080") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UserError(f"{url!r} is not a URL of a server", "for example http://127.0.0.1:8080")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    path = _ENDPOINT.sub("", parts.path.rstrip("/"))
    return f"{parts.scheme}://{host}" + (f":{port}" if port else "") + path


def read_stored(target: str) -> Snapshot:
    """The snapshot in a file, or built from a folder."""
    path = Path(target)
    if not target:
        raise UserError("TARGET is empty", _HINT)
    try:
        if path.is_dir():
            return _read_folder(path)
        if path.exists() and not path.is_file():
            raise UserError(f"{target} is not a file", _HINT)
        with path.open("rb") as file:
            data = file.read(LARGEST_SNAPSHOT_BYTES + 1)
    except FileNotFoundError as error:
        raise UserError(f"{target}: no such file or folder", _HINT) from error
    except OSError as error:
        raise UserError(f"{target[:300]}: {error.strerror or error}", _HINT) from error
    return parse_snapshot(data, target)


def _read_logs(folder: Path) -> Snapshot | None:
    """What the logs of a folder tell, a subject each, unless llama-server wrote them: then other files belong to them.

    Of several logs, `server.log` is the present one and the others are older, as Ollama keeps them.
    """
    from unslow.look.paste import read_paste

    logs = [folder / "server.log"] if is_plain_folder(folder) else sorted(folder.glob("*.log"))[:MOST_LOGS]
    machine, told = Machine(), list[Subject]()
    for log in filter(Path.is_file, logs):
        with log.open("rb") as file:
            pasted = read_paste([file.read(LARGEST_FILE_BYTES)], log.name)
        if any(subject.runtime.name.value_or("") not in ("", "llama.cpp") for subject in pasted.subjects):
            machine = overlaid(machine, pasted.machine)
            told += [with_machine(subject, pasted.machine) for subject in pasted.subjects]
    return Snapshot(unslow_version=__version__, machine=machine, subjects=tuple(told)) if told else None


def _read_folder(folder: Path) -> Snapshot:
    from unslow.commands.diagnose.look import replay_diagnosis as replayed_diagnosis
    from unslow.live.transformers import CALLS, replay_watch

    try:
        if is_recording(folder):
            recorded = RecordedSystem(folder)
            if recorded.holds(DIAGNOSIS):
                return replayed_diagnosis(recorded, Silent()).snapshot
            if recorded.holds(f"ask {CALLS}"):
                return replay_watch(recorded)
            return collect(recorded, bandwidth=recorded.holds("ask ram_bandwidth"))
        if is_plain_folder(folder):
            snapshot = _read_logs(folder) or read_plain_folder(folder)
            subjects = tuple(with_machine(subject, snapshot.machine) for subject in snapshot.subjects)
            return msgspec.structs.replace(snapshot, subjects=subjects)
        if (folder / SNAPSHOT).is_file():
            return read_stored(str(folder / SNAPSHOT))
        if told := _read_logs(folder):
            return told
    except OSError as error:
        raise UserError(f"{folder}: {error.strerror or error}", _HINT) from error
    except LookError as error:
        raise UserError(f"{folder}: {error.why}", "the recording may be incomplete") from error
    seen = ", ".join(sorted(os.listdir(folder))[:5]) or "nothing"
    hint = "`unslow collect --record DIR` writes a recording; it can also be a folder with server.log, run.json, ..."
    raise UserError(f"{folder} is not a recorded machine: it contains {seen}", hint)


def recorded_diagnosis(folder: Path) -> RecordedSystem | None:
    """The recording of a whole diagnosis in a folder; None where it is anything else."""
    try:
        recording = RecordedSystem(folder) if folder.is_dir() and is_recording(folder) else None
    except OSError as error:
        raise UserError(f"{folder}: {error.strerror or error}", _HINT) from error
    return recording if recording and recording.holds(DIAGNOSIS) else None


def collect(system: System, *, bandwidth: bool, api_key: str = "", port: int | None = None) -> Snapshot:
    """Everything that can be seen without sending traffic to a runtime; with a port, of the servers only that there."""
    taken_at = system.now()
    machine, outcomes = read_machine(system)
    if bandwidth:
        machine = overlaid(machine, Machine(memory=read_ram_bandwidth(system)))
    subjects, looked = read_runtimes(system, api_key, port)
    machine = overlaid(machine, Machine(disks=read_model_disks(system, subjects)))
    return Snapshot(
        unslow_version=__version__,
        taken_at=taken_at,
        machine=machine,
        subjects=tuple(with_machine(subject, machine) for subject in subjects),
        calibrations=calibrations_of_machine(read_calibrations(system), machine),
        probes=(*outcomes, *looked),
    )


def with_machine(subject: Subject, machine: Machine) -> Subject:
    """The subject with its default threads, and with what the devices say against its own account."""
    runtime = subject.runtime
    if runtime.name.value_or("").endswith("llama.cpp"):
        runtime = with_default_threads(runtime, machine)
    found = added_contradictions(subject.contradictions, contradictions([("seen", runtime)], subject.model, machine))
    return msgspec.structs.replace(subject, runtime=runtime, contradictions=found)


def with_subjects(snapshot: Snapshot, subjects: tuple[Subject, ...]) -> Snapshot:
    """The snapshot with other subjects."""
    return msgspec.structs.replace(snapshot, subjects=subjects)


def write_snapshot(output: str, target: str | None, record: str | None, *, bandwidth: bool, progress: Progress) -> None:
    """Collect, live or from a stored target, and write the masked snapshot."""
    if target is not None:
        if is_live(target):
            hint = "for one server: unslow diagnose URL --save FILE"
            raise UserError("collect reads this machine or a recording", hint)
        save(read_stored(target), output, progress)
        return
    progress.step("inspecting the machine", 0.3)
    with recording(LiveSystem(), record, progress) as system:
        save(collect(system, bandwidth=bandwidth), output, progress)


@contextmanager
def recording(system: System, folder: str | None, progress: Progress, secrets: Sequence[str] = ()) -> Iterator[System]:
    """The system, recorded into a folder where one is named; UserError where that can't be written."""
    if not folder:
        yield system
        return
    try:
        recorder = Recorder(system, Path(folder), secrets)
    except OSError as error:
        raise UserError(f"{folder}: {error.strerror or error}", "name a writable folder") from error
    try:
        yield recorder
    finally:
        recorder.close()
    progress.say(f"wrote the recording {folder}")


def save(snapshot: Snapshot, output: str, progress: Progress) -> None:
    """Write it to a file, or to standard output for `-`; UserError where that can't be written."""
    write_whole(dump_snapshot(mask_snapshot(snapshot)) + b"\n", output)
    if output != "-":
        progress.say(f"wrote {output}")


def write_whole(data: bytes, output: str) -> None:
    """Whole or not at all; `-` is standard output."""
    if output == "-":
        sys.stdout.buffer.write(data)
    else:
        write_file(data, output)
