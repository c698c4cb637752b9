"""The files of LM Studio on this machine: the model that is loaded, and the log of its server."""

import re
from collections.abc import Sequence

import msgspec

from unslow.facts.merge import overlaid
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import Fact, Known, estimated, not_found, reported
from unslow.look.llama_server.log_file import read_log
from unslow.look.llama_server.settle import settled
from unslow.look.models.safetensors import model_facts, read_checkpoint
from unslow.look.runtimes.lm_studio.rest import Instance
from unslow.look.stores import find_at
from unslow.look.stores import lm_studio as store
from unslow.look.system import LookError, System

LOGS = "server-logs"
_SAFE = re.compile(r"(?!.*(?:^|/)\.\.(?:/|$))[^/\0][^\0]*")


def read_model_path(system: System, homes: Sequence[str], instance: Instance, below: str) -> Fact[str]:
    """The file of a loaded model: as `lms ps` has it, else the only one of exactly its size."""
    folders = [store.downloads(system, home) for home in homes]
    if folders and _SAFE.fullmatch(below):
        folder = next((folder for folder in folders if _is_file(system, f"{folder}/{below}")), folders[0])
        return reported(f"{folder}/{below}", "lms ps: path")
    for folder in folders:
        if path := _of_size(system, folder, instance.size_bytes):
            return estimated(path, f"the only file in {folder} of this size")
    return not_found(
        "no file of just this size lies where LM Studio keeps its models", "`lms ps --json` tells the path"
    )


def _is_file(system: System, path: str) -> bool:
    try:
        return bool(system.read_head(path, 4))
    except LookError:
        return False


def _of_size(system: System, folder: str, size: Fact[int]) -> str:
    if not isinstance(size, Known):
        return ""
    try:
        models = find_at(system, folder)
    except LookError:
        return ""
    paths = {model.path for model in models if model.size_bytes == size.value}
    return paths.pop() if len(paths) == 1 else ""


def with_folder(system: System, subject: Subject) -> Subject:
    """With what the files of a model for MLX say of it, which is a folder of safetensors."""
    path = subject.model.path
    try:
        read = model_facts(read_checkpoint(system, path.value_or("")), path.value_or(""))
    except LookError:
        return subject
    named = msgspec.structs.replace(overlaid(subject.model, read), name=subject.model.name, path=path)
    return msgspec.structs.replace(subject, model=named)


def read_logged(system: System, homes: Sequence[str], subject: Subject) -> Subject:
    """With what the server's newest log says of this model; versions since 0.4.15 write nothing of its load."""
    for home in homes:
        try:
            path = _newest(system, f"{home}/{LOGS}")
            log = read_log(system, path)
        except LookError:
            continue
        noted = msgspec.structs.replace(subject.runtime, log_path=reported(path, home))
        subject = msgspec.structs.replace(subject, runtime=noted)
        if not _same_file(log.model.path, subject.model.path):
            return subject
        decided = settled(Runtime(), subject, Subject(runtime=log.runtime, model=log.model))
        named = msgspec.structs.replace(decided.runtime, name=noted.name, url=noted.url)
        return msgspec.structs.replace(decided, runtime=named)
    return subject


def _newest(system: System, folder: str) -> str:
    """The last file of the last month: `2026-08/2026-08-13.1.log`."""
    months = [name for name in system.list_dir(folder) if re.fullmatch(r"\d{4}-\d{2}", name)]
    if not months:
        raise LookError(f"{folder}: no logs")
    names = [name for name in system.list_dir(f"{folder}/{months[-1]}") if name.endswith(".log")]
    if not names:
        raise LookError(f"{folder}/{months[-1]}: no logs")
    return f"{folder}/{months[-1]}/{max(names, key=_in_order)}"


def _in_order(name: str) -> tuple[str, int]:
    day, _, number = name.removesuffix(".log").partition(".")
    return day, int(number) if number.isdecimal() else 0


def _same_file(logged: Fact[str], loaded: Fact[str]) -> bool:
    """Whether a log speaks of the model that is loaded; both know its file by name."""
    names = [fact.value.replace("\\", "/").rpartition("/")[2] for fact in (logged, loaded) if isinstance(fact, Known)]
    return len(names) == 2 and names[0] == names[1]  # noqa: PLR2004 (both are known)
