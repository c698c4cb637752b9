"""The model that a user means by what they type: a path, or a name as its tool has it, or a part of one."""

import difflib
import os
from collections.abc import Callable, Sequence

from unslow.app.obstacles import is_path, missing_file, obstacle
from unslow.facts.errors import UserError
from unslow.facts.stored_model import RUNNABLE, Kind, StoredModel
from unslow.look.stores import described, find_at, find_everywhere
from unslow.look.system import LookError, System

MOST_CANDIDATES = 64
UNNAMED = ("file", "folder")
"""What a user puts somewhere has no name but its path."""
_SHOWN = 8


def resolve(system: System, word: str, kinds: Sequence[Kind] = RUNNABLE) -> StoredModel:
    """The model on this machine that a user means by a path or a name; UserError where that is none or several.

    Of a file that is cut short the header is read all the same; `broken` then says what is missing.
    """
    model = find_model(system, word, kinds)
    if model is not None:
        return model
    names = sorted({m.name for m in find_everywhere(system).models})
    near = difflib.get_close_matches(word.casefold(), [n.casefold() for n in names], 3, 0.5)
    close = [n for n in names if n.casefold() in near]
    hint = f"did you mean {' or '.join(close)}?" if close else "`unslow models` lists what is here"
    raise UserError(f"there is no model {word!r} on this machine", hint)


def find_model(system: System, word: str, kinds: Sequence[Kind] = RUNNABLE) -> StoredModel | None:
    """As `resolve`; None where nothing here is called so, such as a model that only the catalogue knows."""
    if not word or "\0" in word:
        raise UserError("an empty name names no model", "give a file, a folder or a name that `unslow models` lists")
    found = _found_at(system, word) or matching(find_everywhere(system).models, word)
    if not found and is_path(word):
        raise missing_file(word)
    return _one(system, found, word, kinds) if found else None


def _found_at(system: System, word: str) -> list[StoredModel]:
    """The models at a path; none where the word is no path, or one without models and may be a name as well."""
    path, only_a_path = expanded(word), word.startswith(("/", "./", "../", "~"))
    if why := obstacle(system, path):
        raise UserError(f"{word}: {why}", "give a file, the folder that holds it, or a name that `unslow models` lists")
    if not exists(system, path):
        if only_a_path:
            raise missing_file(word)
        return []
    try:
        found = find_at(system, path)
    except LookError as error:
        raise UserError(error.why, "give a file, a folder or a name that `unslow models` lists") from error
    if only_a_path and not found:
        raise UserError(f"{word}: no model is in there", "models end in .gguf or .safetensors")
    return found


def matching(models: Sequence[StoredModel], word: str) -> list[StoredModel]:
    """The models that a word may mean: those that fit it best, by name, file or repository."""
    wanted = word.casefold()
    for names_of in _LADDER:
        found = [m for m in models if wanted in names_of(m)]
        if found:
            return [m for m in found if not m.superseded] or found
    return []


def _name(model: StoredModel) -> set[str]:
    name = model.name.casefold()
    return {name, name.removesuffix(":latest")}


def _file(model: StoredModel) -> set[str]:
    names = {os.path.basename(model.path), *(os.path.basename(f.path) for f in model.files[:1])}  # noqa: PTH119
    lower = {name.casefold() for name in names}
    return lower | {name.removesuffix(".gguf").removesuffix(".safetensors") for name in lower}


def _repository(model: StoredModel) -> set[str]:
    name = model.name.casefold()
    whole = name.rpartition(":")[0] or name
    return {whole, name.rpartition("/")[2], whole.rpartition("/")[2]}


_LADDER: tuple[Callable[[StoredModel], set[str]], ...] = (lambda m: {m.name.casefold()}, _name, _file, _repository)


def _one(system: System, found: Sequence[StoredModel], word: str, kinds: Sequence[Kind]) -> StoredModel:
    """The one model of these kinds among those found, and a sound one."""
    told = [described(system, m) for m in found[:MOST_CANDIDATES]]
    fitting = [m for m in told if m.kind in kinds] or told
    sound = [m for m in fitting if not m.broken] or fitting
    different = {_contents(m): m for m in reversed(sound)}
    if len(different) > 1 or len(found) > MOST_CANDIDATES:
        raise UserError(f"{word!r} can mean {len(different)} models", f"say which: {_choice(list(different.values()))}")
    model = sound[0]
    if model.kind is Kind.REMOTE:
        raise UserError(f"{word} runs elsewhere: {model.tool} has no weights of it", "give a model that is here")
    if model.broken and model.architecture is None:
        raise UserError(f"{word} can't be read: {model.broken}", "`unslow models` lists what is here")
    return model  # one that is only cut short still tells what it would need


def _contents(model: StoredModel) -> tuple[str, ...]:
    """What two entries share that are one model: their files, or, of copies, their name and size."""
    if model.tool in UNNAMED:
        return tuple(file.inode or file.path for file in model.files)
    return (model.name.casefold(), str(model.size_bytes))


def _choice(models: Sequence[StoredModel]) -> str:
    """The models' names, or their paths where the names do not tell them apart."""
    clear = len({m.name for m in models}) == len(models) and not any(m.tool in UNNAMED for m in models)
    names = [m.name if clear else m.path for m in models]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(sorted(names)[:_SHOWN]) + more


def expanded(path: str) -> str:
    """A path as typed, with the home folder put in."""
    return os.path.expanduser(path)  # noqa: PTH111 (a path as typed stays as typed)


def exists(system: System, path: str) -> bool:
    """Whether there is a folder or a file that can be read."""
    try:
        system.list_dir(path)
    except LookError:
        try:
            system.read_head(path, 1)
        except LookError:
            return False
    return True
