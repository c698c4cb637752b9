"""Why a path that a user gives can't be read as a model, in words that tell what it is instead."""

import os

from unslow.catalog.model_names import find_model
from unslow.catalog.quant_in_name import split_quant
from unslow.facts.errors import UserError
from unslow.facts.values import Absence
from unslow.look.system import LookError, System

_POINTER = b"version https://git-lfs"
_ENDINGS = (".gguf", ".safetensors")
_HOSTS = ("hf.co", "huggingface.co")
_PARTS_OF_A_NAME = 2  # publisher and model
_KERNELS = ("/proc", "/sys")


def obstacle(system: System, path: str) -> str:
    """What is wrong with a path; empty for a folder, a file that may be a model, and where nothing is."""
    if _is_folder(system, path):
        return "is too wide a place to look for models" if _is_too_wide(system, path) else ""
    try:
        head = system.read_head(path, len(_POINTER))
    except LookError as error:
        return _unopened(system, path, error)
    if not head:
        return "is empty"
    return "only its Git LFS pointer is here, not the model: `git lfs pull` fetches it" if head == _POINTER else ""


def _unopened(system: System, path: str, error: LookError) -> str:
    if error.absence is Absence.NOT_FOUND:
        return "is a link that leads nowhere" if _is_named(system, path) else ""
    if error.absence is Absence.NOT_SUPPORTED:
        return "is a pipe or a device, not a file; `-` reads what is piped in"
    return error.why.removeprefix(f"{path}: ")


def _is_folder(system: System, path: str) -> bool:
    try:
        system.list_dir(path)
    except LookError:
        return False
    return True


def _is_named(system: System, path: str) -> bool:
    """Whether the folder of a path has an entry of that name."""
    folder, name = os.path.split(path)
    try:
        return bool(name) and name in system.list_dir(folder or ".")
    except LookError:
        return False


def _is_too_wide(system: System, path: str) -> bool:
    """Whether it is all there is, or what the kernel makes up."""
    try:
        real = system.read_link(path)
    except LookError:
        real = path
    return real in ("/", "/dev") or any(real == kernel or real.startswith(f"{kernel}/") for kernel in _KERNELS)


def is_path(word: str) -> bool:
    """Whether a word can only be a path: those of models have one slash at most, after a host two."""
    parts = [part for part in word.split("/") if part]
    named = parts[1:] if parts and parts[0].lower() in _HOSTS else parts
    starts = word.startswith(("/", "./", "../", "~"))
    return starts or "\\" in word or word.lower().endswith(_ENDINGS) or len(named) > _PARTS_OF_A_NAME


def missing_file(word: str) -> UserError:
    """That there is no such file, and how to ask for the model that its name tells of."""
    try:
        name = find_model(word).name
    except UserError:
        return UserError(f"{word}: no such file or folder", "`unslow models` lists what is here")
    _, quant = split_quant(os.path.splitext(word)[0] if word.lower().endswith(_ENDINGS) else word)  # noqa: PTH122
    asked = f"{name} --quant {quant}" if quant else name
    return UserError(f"{word}: no such file or folder", f"without the file: `unslow fit {asked}`")
