"""One file for each format of model file; and the stores in which tools keep them."""

import os
import stat
from typing import BinaryIO

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
