"""Facts in JSON files of this program: each names its schema, and another version's is refused."""

from typing import Any, TypeVar

import msgspec

from unslow.facts.errors import UserError

T = TypeVar("T", bound=msgspec.Struct)


def parse_stored(data: bytes, kind: type[T], where: str, what: str, largest_bytes: int, hint: str) -> T:
    """The facts of a file, whose first field is its `schema`; UserError where it is something else."""
    if len(data) > largest_bytes:
        raise UserError(f"{where} is larger than {largest_bytes >> 20} MiB, so it is not a {what}", hint)
    try:
        raw = msgspec.json.decode(data)
        schema, own = raw.get("schema") if isinstance(raw, dict) else None, msgspec.structs.fields(kind)[0].default
        if schema != own:
            raise UserError(f"{where} has the schema {str(schema)[:60]!r}; this version reads {own}", hint)
        return msgspec.convert(raw, kind)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise UserError(f"{where} is not a {what}: {str(error) or type(error).__name__}", hint) from error


def dump_stored(facts: Any) -> bytes:
    """The facts as JSON; the schema is always in it."""
    return msgspec.json.format(msgspec.json.encode({"schema": facts.schema, **msgspec.to_builtins(facts)}), indent=1)
