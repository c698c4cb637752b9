"""Reads a report that `unslow verify --json` wrote."""

import msgspec

from unslow.facts.errors import UserError
from unslow.look.system import LookError, System
from unslow.look.system.live import LiveSystem
from unslow.think.verify.report import VerifyReport

LARGEST_BYTES = 16 * 1024**2
"""A report has some kilobytes; one with every answer in it stays far below this."""
_HINT = "give a file that `unslow verify --json > FILE` wrote"


def read_verified(path: str, system: System | None = None) -> VerifyReport:
    """The report in a file; UserError where it holds none."""
    try:
        data = (system or LiveSystem()).read_bytes(path, LARGEST_BYTES)
        report = msgspec.json.decode(data, type=VerifyReport)
    except LookError as error:
        raise UserError(f"{path}: {error.why}", _HINT) from error
    except msgspec.DecodeError as error:
        raise UserError(f"{path} is no report of `unslow verify`: {error}", _HINT) from error
    if not report.schema.startswith("unslow.verify/"):
        raise UserError(f"{path} is no report of `unslow verify`", _HINT)
    return report
