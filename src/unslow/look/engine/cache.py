"""Where made-up models are kept between runs: a folder with a limit, in which only this program's files are touched."""

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from unslow.catalog.quants import file_types
from unslow.catalog.shapes import Shape, shapes
from unslow.facts.errors import UserError
from unslow.facts.units import GB, MB
from unslow.look.engine.made_up import MadeUp, Progress, planned, silence, write

FORMAT = 1  # raise it whenever the same shape would give other bytes
CAP_BYTES = 4 * GB
SPARE_BYTES = 500 * MB  # a disk filled to the brim harms everyone
STALE_S = 3600

_MODEL = re.compile(r"made-up-[a-z0-9_]+-[A-Z0-9_]+-v\d+\.gguf")
_PART = re.compile(_MODEL.pattern + r"\..+\.part")
_HINT = "set UNSLOW_CACHE_DIR to a folder that you can write to and that has more room"


def _free_bytes(folder: Path) -> int:
    return shutil.disk_usage(folder).free


@dataclass(frozen=True)
class ModelCache:
    """The folder and its limits."""

    folder: Path
    cap_bytes: int = CAP_BYTES
    free_bytes: Callable[[Path], int] = _free_bytes

    def model(self, shape: str, quant: str = "", progress: Progress = silence) -> Path:
        """The file of a made-up model, written now unless it is there; UserError where it can't be had."""
        form = _shape(shape)
        quant = quant or form.quant
        path = self.folder / f"made-up-{shape}-{quant}-v{FORMAT}.gguf"
        model = _planned(form, shape, quant)
        try:
            if _is_complete(path, model):
                os.utime(path)  # used now, so others are older
            else:
                self._write(model, path, progress)
        except OSError as error:
            raise UserError(f"can't write {path}: {error.strerror or error}", _HINT) from error
        return path

    def _write(self, model: MadeUp, path: Path, progress: Progress) -> None:
        """Write under another name first: whoever looks finds the whole file or none."""
        self.folder.mkdir(parents=True, exist_ok=True)
        handle, part = tempfile.mkstemp(prefix=f"{path.name}.", suffix=".part", dir=self.folder)
        try:
            with os.fdopen(handle, "wb") as file:
                self._remove_stale_parts(Path(part))
                self._make_room(model.file_bytes, path)
                write(model, file, progress)
            os.replace(part, path)  # noqa: PTH105 (both are names here)
        except BaseException:
            Path(part).unlink(missing_ok=True)
            raise

    def _make_room(self, wanted: int, keep: Path) -> None:
        if wanted > self.cap_bytes:
            limit = f"made-up models may take {self.cap_bytes / GB:.1f} GB"
            raise UserError(f"the model would take {wanted / GB:.1f} GB; {limit}", "choose a smaller one")
        self._remove_oldest(self.cap_bytes - wanted, keep)
        free = self.free_bytes(self.folder)
        if free < wanted + SPARE_BYTES:
            what = f"{wanted / GB:.1f} GB and {SPARE_BYTES / GB:.1f} GB to spare"
            raise UserError(f"{self.folder} has {free / GB:.1f} GB free; the model needs {what}", _HINT)

    def _remove_oldest(self, allowed: int, keep: Path) -> None:
        """Let other models take no more than `allowed`, the most recently used ones."""
        models = sorted(self._own_files(_MODEL), key=_used_at, reverse=True)
        for path in (p for p in models if p != keep):
            allowed -= path.stat().st_size
            if allowed < 0:
                path.unlink(missing_ok=True)

    def _remove_stale_parts(self, fresh: Path) -> None:
        """Clear away what a killed run has left; one that is being written is about as new as the fresh one."""
        for path in self._own_files(_PART):
            if _used_at(fresh) - _used_at(path) > STALE_S:
                path.unlink(missing_ok=True)

    def _own_files(self, name: re.Pattern[str]) -> list[Path]:
        """Plain files with a name that this program gives."""
        return [p for p in self.folder.iterdir() if name.fullmatch(p.name) and p.is_file() and not p.is_symlink()]


def _used_at(path: Path) -> float:
    return path.stat().st_mtime


def default_cache(
    environment: Mapping[str, str] = os.environ, platform: str = sys.platform, home: Path | None = None
) -> ModelCache:
    """The user's own cache, where the platform keeps such things."""
    return ModelCache(cache_folder(environment, platform, home) / "models")


def cache_folder(
    environment: Mapping[str, str] = os.environ, platform: str = sys.platform, home: Path | None = None
) -> Path:
    """This program's cache: UNSLOW_CACHE_DIR, or the platform's place for it."""
    home = home or Path.home()
    if chosen := environment.get("UNSLOW_CACHE_DIR"):
        return Path(chosen)
    if platform == "darwin":
        return home / "Library" / "Caches" / "unslow"
    if platform == "win32":
        return Path(environment.get("LOCALAPPDATA") or home / "AppData" / "Local") / "unslow" / "Cache"
    return Path(environment.get("XDG_CACHE_HOME") or home / ".cache") / "unslow"


def _shape(name: str) -> Shape:
    if name not in shapes():
        raise UserError(f"no shape is called {name}", f"there are {', '.join(shapes())}")
    return shapes()[name]


def _planned(shape: Shape, name: str, quant: str) -> MadeUp:
    try:
        return planned(shape, quant, f"made-up {name}")
    except KeyError:
        can = ", ".join(f.name for f, _ in file_types().values() if f.output)
        raise UserError(f"can't make up a model in {quant}", f"there are {can}") from None


def _is_complete(path: Path, model: MadeUp) -> bool:
    """Whether the file is there in full and starts as this version would write it."""
    if not path.is_file() or path.stat().st_size != model.file_bytes:
        return False
    with path.open("rb") as file:
        return file.read(len(model.header)) == model.header
