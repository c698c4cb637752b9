"""What a TARGET is: a snapshot, a recording, a folder of raw files, a URL, a process."""

import os
import re
from pathlib import Path
from urllib.parse import urlsplit

from unslow.app.progress import Silent
from unslow.app.with_machine import all_with_machine
from unslow.facts.errors import UserError
from unslow.facts.snapshot import LARGEST_SNAPSHOT_BYTES, Snapshot, parse_snapshot
from unslow.look.plain_folder import is_plain_folder, read_plain_folder
from unslow.look.system import LookError
from unslow.look.system.recorded import RecordedSystem, is_recording

_ENDPOINT = re.compile(
    r"/(?:(?:api/)?v[01](?:/(?:chat/)?completions|/models|/responses)?"
    r"|api/(?:generate|chat|tags|ps)|completion|health|props|slots|metrics)$"
)
"""What people paste: the address that a client is given, or one question of many."""
_LONGEST_SHOWN = 300
SNAPSHOT = "snapshot.json"
"""The snapshot of a folder that holds one instead of what it was made from."""
DIAGNOSIS = "ask diagnosis"
"""What a recording holds where all of it was a diagnosis."""
_PID = re.compile(r"[0-9]{1,10}")
_HINT = "a TARGET is a URL, a process id, a snapshot file or a recording folder"


_ADDRESS = re.compile(
    r"(?:[^@\s/]{1,512}@)?(?:[\w-]{1,63}(?:\.[\w-]{1,63}){0,10}|\[[0-9A-Fa-f:.]{2,45}\]):\d{1,5}(?:/\S*)?"
)
"""Host and port, as they are typed by whoever leaves the scheme out."""


def as_url(target: str) -> str | None:
    """The target as a URL, its scheme put in where only host and port are named; None where it is something else."""
    if "://" in target:
        return target
    return f"http://{target}" if _ADDRESS.fullmatch(target) and not Path(target).exists() else None


def is_live(target: str | None) -> bool:
    """Whether the target is something that runs: nothing, a URL or a process id."""
    return target is None or as_url(target) is not None or (bool(_PID.fullmatch(target)) and not Path(target).exists())


def check_url(url: str) -> str:
    """The base of a URL; UserError where it is none."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise UserError(f"{url!r} is not a URL: {error}", "such as http://127.0.0.1:8080") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UserError(f"{url!r} is not a URL that can be asked", "such as http://127.0.0.1:8080")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    path = _ENDPOINT.sub("", parts.path.rstrip("/"))
    return f"{parts.scheme}://{host}" + (f":{port}" if port else "") + path


def read_stored(target: str) -> Snapshot:
    """The snapshot in a file, or built from a folder."""
    path = Path(target)
    if not target:
        raise UserError("an empty TARGET names nothing", _HINT)
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
        raise UserError(f"{target[:_LONGEST_SHOWN]}: {error.strerror or error}", _HINT) from error
    return parse_snapshot(data, target)


def recorded_diagnosis(folder: Path) -> RecordedSystem | None:
    """The recording of a whole diagnosis in a folder; None where it is anything else."""
    try:
        recording = RecordedSystem(folder) if folder.is_dir() and is_recording(folder) else None
    except OSError as error:
        raise UserError(f"{folder}: {error.strerror or error}", _HINT) from error
    return recording if recording and recording.holds(DIAGNOSIS) else None


def _read_folder(folder: Path) -> Snapshot:
    from unslow.app.collect import collect  # noqa: PLC0415 (collect reads targets too)
    from unslow.app.looking import replayed as replayed_diagnosis  # noqa: PLC0415 (which reads targets too)
    from unslow.app.watch import CALLS, replayed  # noqa: PLC0415 (only a recording of one needs it)

    try:
        if is_recording(folder):
            recorded = RecordedSystem(folder)
            if recorded.holds(DIAGNOSIS):
                return replayed_diagnosis(recorded, Silent()).snapshot
            if recorded.holds(f"ask {CALLS}"):
                return replayed(recorded)
            return collect(recorded, bandwidth=recorded.holds("ask ram_bandwidth"))
        if is_plain_folder(folder):
            return all_with_machine(read_plain_folder(folder))
        if (folder / SNAPSHOT).is_file():
            return read_stored(str(folder / SNAPSHOT))
    except OSError as error:
        raise UserError(f"{folder}: {error.strerror or error}", _HINT) from error
    except LookError as error:
        raise UserError(f"{folder}: {error.why}", "was the recording cut short?") from error
    seen = ", ".join(sorted(os.listdir(folder))[:5]) or "nothing"
    hint = "a recording is written by `unslow collect --record DIR`; or it holds server.log, run.json, ..."
    raise UserError(f"{folder} is not a recorded machine: it holds {seen}", hint)
