"""Reads the header of a model from its files, from standard input, or from a server on the web."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

import msgspec

from unslow.facts.model_bounds import check_metadata
from unslow.facts.values import Absence
from unslow.look.models.gguf.header import read_header
from unslow.look.models.gguf.model import Assembly, Gguf
from unslow.look.models.gguf.parts import check_part, is_part, part_paths, part_urls
from unslow.look.models.gguf.sources import FileSource, PipeSource, Source, is_file, opened
from unslow.look.system import LookError, System

STANDARD_INPUT = 0
WEB_TIMEOUT_S = 120.0


def read_gguf(system: System, path: str) -> Gguf:
    """The header of the model at `path`, with all of its parts; the weights stay where they are."""
    return _asked(system, path, lambda: _whole(path, part_paths(path), _file))


def read_gguf_pipe(system: System, descriptor: int = STANDARD_INPUT) -> Gguf:
    """The header of what is piped in, which is read no farther than that."""
    return _asked(system, "-", lambda: _whole("-", ["standard input"], lambda _: _pipe(descriptor)))


def read_gguf_url(system: System, url: str, timeout_s: float = WEB_TIMEOUT_S) -> Gguf:
    """The header of the model at a URL that the user gave, with all of its parts; only their headers are fetched."""
    from unslow.look.system.web_file import opened_url  # noqa: PLC0415 (as heavy as all the rest: sockets, TLS)

    return _asked(system, url, lambda: _whole(url, part_urls(url), lambda part: opened_url(part, timeout_s)))


def _asked(system: System, name: str, look: Callable[[], Gguf]) -> Gguf:
    raw = system.ask(f"gguf {name}", lambda: msgspec.to_builtins(look()))
    try:
        gguf = msgspec.convert(raw, Gguf)
    except msgspec.ValidationError as error:
        raise LookError(f"{name}: the recorded header does not fit: {error}") from error
    try:
        check_metadata(gguf.metadata.get("general.architecture"), gguf.metadata)
    except ValueError as error:
        raise LookError(f"{name} {error}") from error
    return gguf


def _whole(path: str, names: Sequence[str], opening: Callable[[str], AbstractContextManager[Source]]) -> Gguf:
    assembly = Assembly(path)
    for number, name in enumerate(names):
        with _named(name), opening(name) as source:
            header = read_header(source)
            check_part(header, number, len(names))
            assembly.add(header, source.size)
    return assembly.gguf()


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Whatever fails is told with the name of the file, once."""
    try:
        yield
    except LookError as error:
        why = error.why if error.why.startswith(name) else f"{name}: {error.why}"
        raise LookError(why, error.absence, error.how_to_get) from error
    except FileNotFoundError as error:
        hint = "the model needs all of its parts in one folder" if is_part(name) else ""
        raise LookError(f"{name}: not there", Absence.NOT_FOUND, hint) from error
    except (OSError, ValueError) as error:  # ValueError: a path with a null byte
        raise LookError(f"{name}: {getattr(error, 'strerror', None) or error}") from error


@contextmanager
def _file(path: str) -> Iterator[Source]:
    with opened(path) as file:
        yield FileSource(file, os.fstat(file.fileno()).st_size)


@contextmanager
def _pipe(descriptor: int) -> Iterator[Source]:
    """Standard input is a file where the shell was told `< model.gguf`, and a person where it was told nothing."""
    if os.isatty(descriptor):
        raise LookError("is a terminal; pipe a model into it")
    if is_file(descriptor):
        with open(descriptor, "rb", buffering=0, closefd=False) as file:
            yield FileSource(file, os.fstat(descriptor).st_size)
    else:
        yield PipeSource(descriptor)
