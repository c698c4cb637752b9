"""The stored model that a user means, by a path or by a name as its tool has it; and the list of all of them."""

import os
from collections.abc import Sequence
from contextlib import suppress
from difflib import get_close_matches

from unslow.catalog.models import find_model as find_known_model
from unslow.catalog.quants import split_quant
from unslow.commands._output import Progress
from unslow.facts.errors import UserError
from unslow.facts.stored_model import RUNNABLE, Inventory, Kind, StoredModel
from unslow.facts.values import Absence
from unslow.look.models.stores import find_at, find_everywhere, with_header
from unslow.look.system import LookError, System

MOST_CANDIDATES = 64
MOST_DESCRIBED = 5000
SLOW_S = 1.0
UNNAMED = ("file", "folder")  # What a user puts somewhere has no name but its path
_SHOWN = 8
_POINTER = b"version https://git-lfs"
_ENDINGS = (".gguf", ".safetensors")
_PARTS_OF_A_NAME = 2  # publisher and model


def resolve(system: System, word: str) -> StoredModel:
    """The model on this machine that a user means by a path or a name; UserError where that is none or several.

    Of a file that is cut short the header is read all the same; `broken` then says what is missing.
    """
    model = find_model(system, word)
    if model is not None:
        return model
    names = sorted({m.name for m in find_everywhere(system).models})
    near = get_close_matches(word.casefold(), [n.casefold() for n in names], 3, 0.5)
    close = [n for n in names if n.casefold() in near]
    hint = f"did you mean {' or '.join(close)}?" if close else "`unslow models` lists the local models"
    raise UserError(f"no model {word!r} on this machine", hint)


def find_model(system: System, word: str) -> StoredModel | None:
    """As `resolve`; None where nothing here is called so, such as a model that only the catalog knows."""
    if not word or "\0" in word:
        raise UserError("the model name is empty", "give a file, a folder or a name listed by `unslow models`")
    found = _found_at(system, word) or matching(find_everywhere(system).models, word)
    if not found:
        if is_path(word):
            raise missing_file(word)
        return None
    told = [with_header(system, m) for m in found[:MOST_CANDIDATES]]
    fitting = [m for m in told if m.kind in RUNNABLE] or told
    sound = [m for m in fitting if not m.broken] or fitting
    different = {}  # what two entries share that are one model: their files, or, of copies, their name and size
    for m in reversed(sound):
        files = tuple(file.inode or file.path for file in m.files)
        different[files if m.tool in UNNAMED else (m.name.casefold(), str(m.size_bytes))] = m
    if len(different) > 1 or len(found) > MOST_CANDIDATES:
        models = different.values()
        clear = len({m.name for m in models}) == len(models) and not any(m.tool in UNNAMED for m in models)
        names = sorted(m.name if clear else m.path for m in models)  # paths where names do not tell them apart
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        raise UserError(f"{word!r} matches {len(names)} models", f"choose one: {', '.join(names[:_SHOWN])}{more}")
    model = sound[0]
    if model.kind is Kind.REMOTE:
        raise UserError(f"{word} runs remotely: {model.tool} has no weights for it", "give a local model")
    if model.broken and model.architecture is None:
        raise UserError(f"cannot read {word}: {model.broken}", "`unslow models` lists the local models")
    return model  # one that is only cut short still tells what it would need


def _found_at(system: System, word: str) -> list[StoredModel]:
    """The models at a path; none where the word is no path, or one without models and may be a name as well."""
    path, only_a_path = expand_path(word), word.startswith(("/", "./", "../", "~"))
    if why := obstacle(system, path):
        raise UserError(f"{word}: {why}", "give a file, its folder, or a name listed by `unslow models`")
    if not exists(system, path):
        if only_a_path:
            raise missing_file(word)
        return []
    try:
        found = find_at(system, path)
    except LookError as error:
        raise UserError(error.why, "give a file, a folder or a name listed by `unslow models`") from error
    if only_a_path and not found:
        raise UserError(f"{word}: no model found there", "model files end in .gguf or .safetensors")
    return found


def obstacle(system: System, path: str) -> str:
    """What is wrong with a path; empty for a folder, a file that may be a model, and where nothing is."""
    if is_folder(system, path):
        real = path
        with suppress(LookError):
            real = system.read_link(path)
        # All there is, or what the kernel makes up
        is_wide = real in ("/", "/dev") or f"{real}/".startswith(("/proc/", "/sys/"))
        return "is too large to search for models" if is_wide else ""
    try:
        head = system.read_head(path, len(_POINTER))
    except LookError as error:
        if error.absence is Absence.NOT_FOUND:
            folder, name = os.path.split(path)
            with suppress(LookError):
                return "is a broken link" if name and name in system.list_dir(folder or ".") else ""
            return ""
        if error.absence is Absence.NOT_SUPPORTED:
            return "is a pipe or a device, not a file; `-` reads standard input"
        return error.why.removeprefix(f"{path}: ")
    if not head:
        return "is empty"
    return "only its Git LFS pointer is here, not the model: `git lfs pull` fetches it" if head == _POINTER else ""


def is_folder(system: System, path: str) -> bool:
    """Whether it can be listed."""
    with suppress(LookError):
        system.list_dir(path)
        return True
    return False


def exists(system: System, path: str) -> bool:
    """Whether there is a folder or a file that can be read."""
    if is_folder(system, path):
        return True
    with suppress(LookError):
        system.read_head(path, 1)
        return True
    return False


def expand_path(path: str) -> str:
    """A path as typed, with the home folder put in."""
    return os.path.expanduser(path)  # noqa: PTH111 (a path as typed stays as typed)


def is_path(word: str) -> bool:
    """Whether a word can only be a path: those of models have one slash at most, after a host two."""
    parts = [part for part in word.split("/") if part]
    named = parts[1:] if parts and parts[0].lower() in ("hf.co", "huggingface.co") else parts
    starts = word.startswith(("/", "./", "../", "~"))
    return starts or "\\" in word or word.lower().endswith(_ENDINGS) or len(named) > _PARTS_OF_A_NAME


def missing_file(word: str) -> UserError:
    """That there is no such file, and how to ask for the model that its name tells of."""
    try:
        name = find_known_model(word).name
    except UserError:
        return UserError(f"{word}: no such file or folder", "`unslow models` lists the local models")
    _, quant = split_quant(os.path.splitext(word)[0] if word.lower().endswith(_ENDINGS) else word)  # noqa: PTH122
    asked = f"{name} --quant {quant}" if quant else name
    return UserError(f"{word}: no such file or folder", f"without the file: `unslow fit {asked}`")


def matching(models: Sequence[StoredModel], word: str) -> list[StoredModel]:
    """The models that a word may mean: those that fit it best, by name, file or repository."""
    wanted = word.casefold()
    for names in zip(*map(_names_of, models), strict=True):
        found = [model for model, known in zip(models, names, strict=True) if wanted in known]
        if found:
            return [m for m in found if not m.superseded] or found
    return []


def _names_of(model: StoredModel) -> tuple[set[str], ...]:
    """What a model may be called, the closest first: its name, its tag's default, its file, its repository."""
    name = model.name.casefold()
    paths = (model.path, *(file.path for file in model.files[:1]))
    files = {os.path.basename(path).casefold() for path in paths}  # noqa: PTH119
    stems = {file.removesuffix(".gguf").removesuffix(".safetensors") for file in files}
    whole = name.rpartition(":")[0] or name
    repository = {whole, name.rpartition("/")[2], whole.rpartition("/")[2]}
    return {name}, {name.removesuffix(":latest")}, files | stems, repository


def list_models(system: System, where: Sequence[str], progress: Progress) -> Inventory:
    """Every model of every store and of further folders or files, sound or broken."""
    for path in where:
        if not exists(system, expand_path(path)):
            raise UserError(f"{path}: no such file or folder", "WHERE must be a folder or a file with models")
    seen = find_everywhere(system, [expand_path(path) for path in where])
    models, start = [], system.clock()
    for number, model in enumerate(seen.models[:MOST_DESCRIBED]):
        if system.clock() - start > SLOW_S:
            progress.step("reading model headers", number / len(seen.models))
        models.append(with_header(system, model))
    models.sort(key=lambda model: (model.tool in UNNAMED, model.tool.casefold(), model.name.casefold()))
    notices = list(seen.notices)
    if len(seen.models) > MOST_DESCRIBED:
        notices.append(f"found {len(seen.models)} models; read the first {MOST_DESCRIBED}")
    files = {file.inode or file.path: file.bytes for model in models for file in model.files}
    return Inventory(
        models=tuple(models), places=tuple(seen.places), total_bytes=sum(files.values()), notices=tuple(notices)
    )
