"""Series of the last minutes sent to a Prometheus by its own protocol: no text, no disk, and one head as in real life.

The message (https://prometheus.io/docs/concepts/remote_write_spec/) is protobuf in snappy's block format. Both are
written here for the two shapes that are needed: samples of a fixed size, and snappy without any compression.
"""

import http.client
import struct
from collections.abc import Iterable, Iterator
from urllib.parse import urlsplit

import numpy as np
from lab.fleet.blocks import OFFSETS, Span
from lab.fleet.instance import Target
from lab.fleet.lines import Line, placed

_SAMPLE = np.dtype([("tags", "u1", 3), ("value", "<f8"), ("time_tag", "u1"), ("time", "u1", 6)])
"""A sample as field 2 of a series: its tag and length, then value and time, each after a tag of its own."""
_BATCH_BYTES = 4 * 2**20
_LITERAL = 60 + 2 - 1
"""Snappy's tag for a literal whose length takes two bytes, shifted by two."""
_LONGEST = 2**16
_DONE = 204
DOWN_S = 600.0
"""How long before the end a target went down."""
_STALE = np.array([0x7FF0000000000002], np.uint64).view(np.float64)[0]
"""What Prometheus writes where a series ends."""


def send(url: str, targets: Iterable[Target], span: Span) -> int:
    """Every sample of these targets over the span; how many series."""
    sent = 0
    server = urlsplit(url)
    connection = http.client.HTTPConnection(server.hostname or "", server.port, timeout=300)
    try:
        for body, series in _batches(_messages(targets, span)):
            _post(connection, body)
            sent += series
    finally:
        connection.close()
    return sent


def _post(connection: http.client.HTTPConnection, body: bytes) -> None:
    headers = {
        "Content-Encoding": "snappy",
        "Content-Type": "application/x-protobuf",
        "X-Prometheus-Remote-Write-Version": "0.1.0",
    }
    connection.request("POST", "/api/v1/write", snappy(body), headers)
    answer = connection.getresponse()
    said = answer.read()
    if answer.status != _DONE:
        raise RuntimeError(f"Prometheus takes no series: {answer.status} {said[:500]!r}")


def _batches(messages: Iterable[bytes]) -> Iterator[tuple[bytes, int]]:
    held, size = list[bytes](), 0
    for message in messages:
        held.append(message)
        size += len(message)
        if size > _BATCH_BYTES:
            yield b"".join(held), len(held)
            held, size = [], 0
    if held:
        yield b"".join(held), len(held)


def _messages(targets: Iterable[Target], span: Span) -> Iterator[bytes]:
    nought = span.end_s if span.nought_s is None else span.nought_s
    times = [np.array(span.times(n / OFFSETS)) for n in range(OFFSETS)]
    samples = [_timed(each) for each in times]
    for place, target in enumerate(targets):
        moments, prepared = times[place % OFFSETS] - nought, samples[place % OFFSETS]
        lost = int(np.searchsorted(moments, moments[-1] - DOWN_S)) if target.down else len(moments)
        up = Line("up", target.labels, 1.0)
        prepared["value"] = np.where(np.arange(len(moments)) < lost, 1.0, 0.0)
        yield series_message(up, prepared.tobytes())
        for line in placed(target.lines, target.labels, honor=target.honor_labels):
            prepared["value"] = line.over(moments)
            prepared["value"][lost:] = _STALE
            yield series_message(line, prepared[: lost + 1].tobytes())


def _timed(times: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> "np.ndarray[tuple[int], np.dtype[np.void]]":
    """Samples with everything but their values: a time of today in ms takes six bytes of seven bits."""
    out = np.zeros(len(times), _SAMPLE)
    out["tags"] = (0x12, 16, 0x09)
    out["time_tag"] = 0x10
    stamps = np.round(times * 1000).astype(np.int64)
    for byte in range(6):
        out["time"][:, byte] = (stamps >> (7 * byte)) & 0x7F | (0x80 if byte < 5 else 0)
    return out


def series_message(line: Line, samples: bytes) -> bytes:
    """One series of a write request: labels by name, then the samples."""
    named = sorted({**line.labels, "__name__": line.name}.items())
    labels = b"".join(_field(1, _field(1, name.encode()) + _field(2, value.encode())) for name, value in named if value)
    return _field(1, labels + samples)


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def snappy(data: bytes) -> bytes:
    """The data as literals: a valid block that is as long as what is in it."""
    pieces = [_varint(len(data))]
    for start in range(0, len(data), _LONGEST):
        piece = data[start : start + _LONGEST]
        pieces += [bytes([_LITERAL << 2]), struct.pack("<H", len(piece) - 1), piece]
    return b"".join(pieces)
