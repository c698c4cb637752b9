"""Servers that nobody should trust: each mode spoils every answer in one way, in what it says or in how it is sent."""

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from lab.replay import sending, spoiling
from lab.replay.sending import Wire


class Mode(NamedTuple):
    """One way to be hostile."""

    meaning: str
    changed: Callable[[Any, str], Any] | None = None
    """The JSON of an answer (or its text) as it is sent instead, by the key that was sent."""
    encoded: Callable[[bytes], bytes] = lambda data: data
    send: Callable[[Wire, bytes], None] | None = None


MODES: dict[str, Mode] = {
    "cut": Mode("hangs up in the middle of every answer", send=sending.cut),
    "cut_at_once": Mode("hangs up without a word", send=sending.cut_at_once),
    "endless": Mode("answers without an end", send=sending.endless),
    "huge": Mode("answers 10 GB", send=sending.huge),
    "nested": Mode("answers JSON 100 000 levels deep", send=sending.nested),
    "numbers": Mode("negative and impossibly large numbers", spoiling.numbers),
    "not_numbers": Mode("NaN and infinity for every number", spoiling.not_numbers),
    "types": Mode("every value of a wrong type", spoiling.types),
    "shapes": Mode("lists for objects and objects for lists", spoiling.shapes),
    "escapes": Mode("terminal escape sequences in every text", spoiling.escapes),
    "not_utf8": Mode("bytes that are no UTF-8 in every text", spoiling.marked, spoiling.spoiled),
    "echo_key": Mode("the API key that was sent, in every text", spoiling.echo),
    "refused": Mode("an error that repeats the API key", send=sending.refused),
    "slow_headers": Mode("a header that never ends, a letter at a time", send=sending.slow_headers),
    "many_headers": Mode("two thousand headers", send=sending.many_headers),
    "redirect": Mode("sends to another host, with the API key in the address", send=sending.redirect),
    "rubbish": Mode("no HTTP at all", send=sending.rubbish),
}


def sent_as(mode: Mode | None, value: Any, key: str) -> bytes:
    """JSON (or text) as it goes over the wire in a mode."""
    if mode and mode.changed:
        value = mode.changed(value, key)
    data = (value if isinstance(value, str) else json.dumps(value)).encode()
    return mode.encoded(data) if mode else data


def lines_as(mode: Mode | None, lines: Iterator[str], key: str) -> Iterator[bytes]:
    """Lines of a stream, each with its JSON changed and its `data:` kept."""
    for line in lines:
        prefix, brace, rest = line.partition("{")
        if not brace:
            yield line.encode()
            continue
        yield prefix.encode() + sent_as(mode, json.loads(brace + rest), key)
