"""The models on this machine: all of them, or the one that a user means."""

from collections.abc import Sequence

from unslow.app.progress import Progress
from unslow.app.resolve import UNNAMED, exists, expanded, find_model, resolve
from unslow.facts.errors import UserError
from unslow.facts.stored_model import Inventory, StoredModel
from unslow.look.stores import Seen, described, find_everywhere
from unslow.look.system import System

__all__ = ["find_model", "list_models", "resolve"]

MOST_DESCRIBED = 5000
SLOW_S = 1.0


def list_models(system: System, where: Sequence[str], progress: Progress) -> Inventory:
    """Every model of every store and of further folders or files, sound or broken."""
    for path in where:
        _check(system, path)
    seen = find_everywhere(system, [expanded(path) for path in where])
    models = sorted(_described(system, seen, progress), key=_order)
    notices = list(seen.notices)
    if len(seen.models) > MOST_DESCRIBED:
        notices.append(f"there are {len(seen.models)} models; the first {MOST_DESCRIBED} were looked at")
    return Inventory(
        models=tuple(models), places=tuple(seen.places), total_bytes=_total(models), notices=tuple(notices)
    )


def _described(system: System, seen: Seen, progress: Progress) -> list[StoredModel]:
    models, start = [], system.clock()
    for number, model in enumerate(seen.models[:MOST_DESCRIBED]):
        if system.clock() - start > SLOW_S:
            progress.step("reading the headers of models", number / len(seen.models))
        models.append(described(system, model))
    return models


def _order(model: StoredModel) -> tuple[bool, str, str]:
    return model.tool in UNNAMED, model.tool.casefold(), model.name.casefold()


def _total(models: Sequence[StoredModel]) -> int:
    files = {file.inode or file.path: file.bytes for model in models for file in model.files}
    return sum(files.values())


def _check(system: System, path: str) -> None:
    if not exists(system, expanded(path)):
        raise UserError(f"{path}: no such file or folder", "WHERE is a folder or a file with models")
