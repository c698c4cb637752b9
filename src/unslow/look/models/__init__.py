"""One file for each format of model file; and the stores in which tools keep them."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from unslow.facts.values import Absence
from unslow.look.system import READ_FLAGS, LookError


def opened_file(path: str) -> BinaryIO:
    """A regular file, open; OSError where there is none, LookError where it is something else."""
    descriptor = os.open(path, READ_FLAGS)
    if not is_file(descriptor):
        os.close(descriptor)
        raise LookError("is not a file")
    return open(descriptor, "rb")


def is_file(descriptor: int) -> bool:
    """Whether it is a regular file, whose size is known and which can be read at any place."""
    return stat.S_ISREG(os.fstat(descriptor).st_mode)


@contextmanager
def named_failures(name: str, hint_where_missing: str) -> Iterator[None]:
    """Whatever fails is a LookError with the name of the file, once."""
    try:
        yield
    except LookError as error:
        why = error.why if error.why.startswith(name) else f"{name}: {error.why}"
        raise LookError(why, error.absence, error.how_to_get) from error
    except FileNotFoundError as error:
        raise LookError(f"{name}: not there", Absence.NOT_FOUND, hint_where_missing) from error
    except (OSError, ValueError) as error:  # ValueError: a path with a null byte
        raise LookError(f"{name}: {getattr(error, 'strerror', None) or error}") from error
