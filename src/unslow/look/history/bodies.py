"""A benchmark as it lies in the history: compressed JSON, read back within bounds."""

import zlib
from collections.abc import Sequence

import msgspec

from unslow.facts.bench import LARGEST_BENCH_BYTES, Bench, Failure, Pass, dump_bench, parse_bench
from unslow.facts.errors import UserError

_HINT = "`unslow bench --list` shows the others"


class Piece(msgspec.Struct, frozen=True, omit_defaults=True):
    """What came since the last time something was written down."""

    passes: tuple[Pass, ...] = ()
    failures: tuple[Failure, ...] = ()


def packed_bench(bench: Bench) -> bytes:
    """The benchmark, small; UserError where it is too large to be read again."""
    data = dump_bench(bench)
    if len(data) > LARGEST_BENCH_BYTES:
        raise UserError(f"this benchmark is larger than {LARGEST_BENCH_BYTES >> 20} MiB", "write it to a file instead")
    return zlib.compress(data)


def unpacked_bench(body: object, where: str) -> Bench:
    """The benchmark of a row; UserError where there is none in it."""
    return parse_bench(_inflated(body, where), where)


def packed_piece(passes: Sequence[Pass], failures: Sequence[Failure]) -> bytes:
    """A piece, small."""
    return zlib.compress(msgspec.json.encode(Piece(tuple(passes), tuple(failures))))


def unpacked_piece(body: object) -> Piece | None:
    """The piece of a row, or None where it can't be read: the others still can."""
    try:
        return msgspec.json.decode(_inflated(body, "a piece"), type=Piece)
    except (UserError, msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None


def _inflated(body: object, where: str) -> bytes:
    if not isinstance(body, bytes):
        raise UserError(f"{where} is damaged: it holds no bytes", _HINT)
    inflater = zlib.decompressobj()
    try:
        data = inflater.decompress(body, LARGEST_BENCH_BYTES + 1)
    except zlib.error as error:
        raise UserError(f"{where} is damaged: {error}", _HINT) from error
    if len(data) <= LARGEST_BENCH_BYTES and not inflater.eof:
        raise UserError(f"{where} is damaged: it ends too early", _HINT)
    return data
