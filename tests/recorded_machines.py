"""The machines of `machines`, each read once for all tests of a process: a snapshot never changes."""

from functools import cache
from pathlib import Path

from unslow.commands.diagnose.target import read_stored
from unslow.facts.snapshot import Case, Snapshot

MACHINES = Path(__file__).parent / "machines"
FOLDERS = sorted(path.parent for path in MACHINES.glob("*/expected.toml"))


@cache
def recorded(folder: Path) -> Snapshot:
    """The snapshot of a machine; only those of `machines` are kept so."""
    assert folder.parent == MACHINES, folder
    return read_stored(str(folder))


def first_case(name: str) -> Case:
    """The first subject of a machine by its name, on its machine."""
    return next(recorded(MACHINES / name).cases())
