"""What was changed, written down before it is changed: one folder for each change, with what was there before."""

import contextlib
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from unslow.act.disk import OPEN_FLAGS, Disk, Looks, read_whole
from unslow.facts.errors import UserError

State = Literal["prepared", "backed up", "written", "done", "undoing", "undone"]
SCHEMA = "unslow.change/1"
UNFINISHED: tuple[State, ...] = ("prepared", "backed up", "written", "undoing")
MOST_CHANGES = 10_000
_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{4}")
_FILE = "journal.json"
_PRIVATE, _OWN_FOLDER = 0o600, 0o700  # a unit or a script may hold keys


class FileStep(msgspec.Struct, frozen=True, kw_only=True):
    """A file that is changed or made; contents by their SHA-256, None for no file."""

    path: str
    before: str | None
    after: str
    looks: Looks  # As it was; of a file that was not there, as it is made
    folders: tuple[str, ...] = ()  # Those that have to be made for it, the outermost first

    def beside(self, change: str, what: Literal["new", "old"]) -> str:
        """A name next to it that nobody else has: what takes its place, and what can take it back."""
        folder, name = os.path.split(self.path)
        return os.path.join(folder, f".{name}.unslow-{change}.{what}")


class ModelStep(msgspec.Struct, frozen=True, kw_only=True):
    """A model that is derived from another through the API of Ollama."""

    url: str
    name: str
    parent: str
    parameters: dict[str, int | float | str | bool]
    digest: str = ""  # Of what was made; empty until it is


class DamagedJournal(NamedTuple):
    """A change whose journal can't be read, and why."""

    id: str
    why: str


class Journal(msgspec.Struct, frozen=True, kw_only=True):
    """One change and how far it has come."""

    schema: str = SCHEMA
    unslow_version: str
    id: str
    at: str
    what: str  # In words
    state: State
    files: tuple[FileStep, ...] = ()
    models: tuple[ModelStep, ...] = ()
    then: tuple[str, ...] = ()  # What makes the server see it: lines for a shell
    reason: str = ""  # Why it was taken back
    forced: bool = False  # Whether it is taken back over what somebody else has written since
    process: str = ""
    """Of the server that it is for, which does not see it before it is started again; empty where that is not known."""


class Journals:
    """The folder of all changes; one at a time may be made."""

    def __init__(self, folder: Path, disk: Disk) -> None:
        self.folder, self._disk = folder, disk

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Nobody else changes anything meanwhile; the lock of a process that dies is free again."""
        if sys.platform == "win32":
            hint = "run the commands of `unslow plan` yourself"
            raise UserError("unslow makes changes on Linux and macOS only", hint)
        import fcntl  # noqa: PLC0415 (not on Windows)

        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=_OWN_FOLDER)
            descriptor = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | OPEN_FLAGS, _PRIVATE)
        except OSError as error:
            hint = "set XDG_STATE_HOME or --journal DIR to a writable folder; nothing was changed"
            raise UserError(f"{self.folder}: {error.strerror or error}", hint) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        except BlockingIOError as error:
            raise UserError("another unslow process is making a change", "wait for it to finish") from error
        finally:
            os.close(descriptor)

    def new_id(self, at: str) -> str:
        """A name for a change by its time, such as 20260102-030405-0000; after all others, whatever the clock says."""
        digits = re.sub(r"\D", "", at)[:14].ljust(14, "0")
        first = f"{digits[:8]}-{digits[8:]}-0000"
        last = (self.ids() or [""])[-1]
        return first if first > last else f"{last[:16]}{int(last[16:], 16) + 1:04x}"

    def ids(self) -> list[str]:
        """Every change there is a folder of, the oldest first."""
        try:
            names = os.listdir(self.folder)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise UserError(f"{self.folder}: {error.strerror or error}", "name another with --journal DIR") from error
        return sorted(name for name in names if _ID.fullmatch(name))[-MOST_CHANGES:]

    def place(self, change: str, name: str = "") -> str:
        return str(self.folder / change / name) if name else str(self.folder / change)

    def read(self, change: str) -> Journal | None:
        """A change; None where it died before it was written down, UserError where it can't be read."""
        path = self.place(change, _FILE)
        try:
            data = read_whole(path)
            if data is None:
                self._check_unwritten(change)
            return None if data is None else _parse_journal(data, change)
        except (OSError, ValueError, msgspec.MsgspecError, RecursionError) as error:
            why = error.strerror or error if isinstance(error, OSError) else error
            hint = f"the previous contents are in {self.place(change)}"
            raise UserError(f"cannot read {path}: {why}", hint) from error

    def _check_unwritten(self, change: str) -> None:
        """ValueError of a change that was written down, as the copies beside its journal tell."""
        if any(not name.startswith(_FILE) for name in os.listdir(self.place(change))):
            raise ValueError("it is missing, although its backups exist")

    def all(self) -> list[Journal]:
        """Every change that was written down and can be read, the oldest first."""
        return [journal for journal in self._read_all() if isinstance(journal, Journal)]

    def damaged_journals(self) -> list[DamagedJournal]:
        """Every change that was written down and can't be read, the oldest first."""
        return [journal for journal in self._read_all() if isinstance(journal, DamagedJournal)]

    def _read_all(self) -> Iterator[Journal | DamagedJournal | None]:
        for change in self.ids():
            try:
                yield self.read(change)
            except UserError as error:
                yield DamagedJournal(change, f"{error.message}; {error.hint}")

    def begin(self, journal: Journal) -> None:
        """A folder for the change, and the change in it, before anything else happens."""
        self._disk.make_folder(self.place(journal.id), _OWN_FOLDER)
        self.write(journal)

    def write(self, journal: Journal) -> Journal:
        """The change as it stands now, whole and on the disk."""
        path = self.place(journal.id, _FILE)
        self._disk.remove(f"{path}.part")
        data = msgspec.json.format(msgspec.json.encode(journal), indent=1) + b"\n"
        self._disk.write_new(f"{path}.part", data, Looks(mode=_PRIVATE))
        self._disk.replace(f"{path}.part", path)
        return journal

    def keep(self, change: str, name: str, data: bytes) -> None:
        """Bytes that must not be lost, in the folder of the change; one of an earlier try is written anew."""
        path = self.place(change, name)
        self._disk.remove(path)
        self._disk.write_new(path, data, Looks(mode=_PRIVATE))

    def read_copy(self, change: str, name: str) -> bytes | None:
        return read_whole(self.place(change, name))

    def forget(self, change: str) -> None:
        """A change that changed nothing; its folder has only files of ours."""
        folder = self.place(change)
        if not os.path.isdir(folder):
            return
        for name in sorted(os.listdir(folder), reverse=True):
            self._disk.remove(os.path.join(folder, name))
        self._disk.remove_folder(folder)


def _parse_journal(data: bytes, change: str) -> Journal:
    """The journal of that change; ValueError where it is that of another one, or of another version."""
    journal = msgspec.json.decode(data, type=Journal)
    if journal.schema != SCHEMA:
        raise ValueError(f"its schema is {journal.schema[:60]!r}, and this version reads {SCHEMA}")
    if journal.id != change:
        raise ValueError(f"it is the journal of {journal.id[:60]!r}")
    return journal


def default_folder(environment: Mapping[str, str] = os.environ, home: Path | None = None) -> Path:
    """The user's own, where state is kept."""
    state = environment.get("XDG_STATE_HOME") or str((home or Path.home()) / ".local" / "state")
    return Path(state) / "unslow" / "changes"
