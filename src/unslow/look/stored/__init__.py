"""What this program keeps of its own on a machine: benchmarks and calibrations, in the user's data folder."""

import hashlib
import os
import re
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from unslow.facts.calibration import LARGEST_BYTES, Calibration, parse_calibration
from unslow.facts.errors import UserError
from unslow.facts.stored_json import dump_stored
from unslow.look.system import LookError, System, try_look

MOST_FILES = 256
_NAME = re.compile(r"calibration-[a-z0-9_]{1,40}-[0-9a-f]{12}\.json")
_HINT = "set UNSLOW_DATA_DIR to a folder that you can write to"
_PLACES = {"DATA": ("Application Support", "unslow", ".local/share"), "CACHE": ("Caches", "unslow/Cache", ".cache")}
"""Below the place that a Mac, Windows and any other system have for such things."""


def own_folder(
    kind: Literal["CACHE", "DATA"],
    environment: Mapping[str, str] = os.environ,
    platform: str = sys.platform,
    home: Path | None = None,
) -> Path:
    """This program's data or cache: UNSLOW_DATA_DIR or UNSLOW_CACHE_DIR, or the platform's place for it."""
    home = home or Path.home()
    of_mac, of_windows, of_linux = _PLACES[kind]
    if chosen := environment.get(f"UNSLOW_{kind}_DIR"):
        return Path(chosen)
    if platform == "darwin":
        return home / "Library" / of_mac / "unslow"
    if platform == "win32":
        return Path(environment.get("LOCALAPPDATA") or home / "AppData" / "Local") / of_windows
    return Path(environment.get(f"XDG_{kind}_HOME") or home / of_linux) / "unslow"


class StoredCalibration(NamedTuple):
    """A calibration and its file; a file that cannot be read has the reason in its place."""

    path: str
    calibration: Calibration | None
    problem: str = ""


@dataclass(frozen=True)
class CalibrationStore:
    """A folder of calibrations; other files in it are left alone."""

    folder: Path

    def read_all(self, system: System) -> list[StoredCalibration]:
        """Every calibration, newest first, and every file that should be one and is not."""
        names = [name for name in try_look([], system.list_dir, str(self.folder)) if _NAME.fullmatch(name)]
        found = []
        for path in (str(self.folder / name) for name in names[:MOST_FILES]):
            try:
                found.append(StoredCalibration(path, parse_calibration(system.read_bytes(path, LARGEST_BYTES), path)))
            except (LookError, UserError) as error:
                problem = error.why if isinstance(error, LookError) else error.message
                found.append(StoredCalibration(path, None, problem))
        return sorted(found, key=lambda s: s.calibration.taken_at if s.calibration else "", reverse=True)

    def save(self, calibration: Calibration) -> Path:
        """Write it in the place of an older one of the same kind, whole or not at all."""
        # One name for each machine, engine, device and number of threads; not for each version of an engine
        mark, model = calibration.machine, calibration.scale.model if calibration.scale else ""
        key = [mark.cpu, mark.cores, mark.memory_bytes, mark.gpus, calibration.device, calibration.threads, model]
        engine = re.sub(r"[^a-z0-9]+", "_", calibration.engine.lower())[:40].strip("_") or "engine"
        digest = hashlib.sha256(repr(key).encode()).hexdigest()[:12]
        path, part = self.folder / f"calibration-{engine}-{digest}.json", ""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            handle, part = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=self.folder)
            with os.fdopen(handle, "wb") as file:
                file.write(dump_stored(calibration) + b"\n")
            os.replace(part, path)  # noqa: PTH105 (both are names here)
        except OSError as error:
            if part:
                Path(part).unlink(missing_ok=True)
            raise UserError(f"can't write {path}: {error.strerror or error}", _HINT) from error
        return path

    def forget(self, path: str) -> None:
        try:
            (self.folder / Path(path).name).unlink(missing_ok=True)
        except OSError as error:
            raise UserError(f"can't remove {path}: {error.strerror or error}", "remove it by hand") from error


def read_calibrations(system: System, store: CalibrationStore | None = None) -> list[Calibration]:
    """The calibrations that can be used, newest first; broken files are passed over (`unslow calibrate --list`)."""
    stored = (store or default_store()).read_all(system)
    return [one.calibration for one in stored if one.calibration]


def default_store() -> CalibrationStore:
    """The user's own, where the platform keeps data."""
    return CalibrationStore(own_folder("DATA") / "calibrations")
