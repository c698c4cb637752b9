"""A plan that `unslow plan --json` wrote, as apply, verify and tune read it."""

import sys
from pathlib import Path

import msgspec

from unslow.facts.errors import UserError
from unslow.think.plan.report import SCHEMA, PlanReport

LARGEST_BYTES = 16 * 1024**2
STANDARD_INPUT = "-"
HINT = "such a file is written by `unslow plan --json > plan.json`"
_LONGEST_SHOWN = 60


def read_saved(source: str) -> PlanReport:
    """The plan of a file, or of standard input for `-`; UserError where it is none."""
    return parse_saved(_bytes(source), "standard input" if source == STANDARD_INPUT else source)


def _bytes(source: str) -> bytes:
    try:
        if source == STANDARD_INPUT:
            return sys.stdin.buffer.read(LARGEST_BYTES + 1)
        with Path(source).open("rb") as file:
            return file.read(LARGEST_BYTES + 1)
    except (OSError, ValueError) as error:  # a name with a zero in it is no name
        raise UserError(f"{source}: {getattr(error, 'strerror', '') or error}", HINT) from error


def parse_saved(data: bytes, where: str) -> PlanReport:
    """A plan; UserError that names what is wrong with it."""
    if len(data) > LARGEST_BYTES:
        raise UserError(f"{where} is larger than {LARGEST_BYTES >> 20} MiB, so it is no plan", HINT)
    try:
        raw = msgspec.json.decode(data)
        schema = raw.get("schema") if isinstance(raw, dict) else None
        if schema != SCHEMA:
            shown = str(schema)[:_LONGEST_SHOWN]
            raise UserError(f"{where} has the schema {shown!r}; this version reads {SCHEMA}", HINT)
        return msgspec.convert(raw, PlanReport)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise UserError(f"{where} is no plan: {str(error) or type(error).__name__}", HINT) from error
