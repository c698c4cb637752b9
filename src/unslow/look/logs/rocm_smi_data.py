"""`rocm-smi --json` and `--csv`: the keys of its text, by card."""

import csv
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from unslow.facts.machine import Gpu
from unslow.look.logs.gpu_builder import MOST_GPUS, gpu_of
from unslow.look.logs.numbered import numbered_lines
from unslow.look.logs.rocm_keys import Entry, facts_of, with_free

SOURCE = "rocm-smi"
_LARGEST = 1024**2
_CARD = re.compile(r"card(\d{1,3})")
_HEADER = re.compile(r"(?<!\S)device,(?=[^\n]*\()")


def parse_json(text: str, source: str = SOURCE, first_line: int = 1) -> tuple[Gpu, ...]:
    """The GPUs of the JSON object that begins with a card, wherever it stands; none where there is none."""
    start = re.search(r"\{\s{0,8}\"card\d{1,3}\"", text)
    if start is None:
        return ()
    raw = _object(text[start.start() : start.start() + _LARGEST])
    place = f"{source}:{text.count(chr(10), 0, start.start()) + first_line}"
    common = [Entry(place, str(k), str(v)) for k, v in _items(raw.get("system"))]
    cards = {name: [Entry(place, str(k), str(v)) for k, v in _items(of)] for name, of in raw.items()}
    return _gpus({name: [*entries, *common] for name, entries in cards.items()})


def _items(value: Any) -> Iterator[tuple[Any, Any]]:
    return iter(value.items() if isinstance(value, dict) else ())


def _object(text: str) -> dict[str, Any]:
    """The object at the beginning of the text, whatever follows it."""
    depth, quoted = 0, False
    for place, letter in enumerate(text):
        if letter == '"' and text[place - 1] != "\\":
            quoted = not quoted
        elif not quoted and letter in "{}":
            depth += 1 if letter == "{" else -1
            if depth == 0:
                return _decoded(text[: place + 1])
    return {}


def _decoded(text: str) -> dict[str, Any]:
    try:
        raw = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return {}
    return raw if isinstance(raw, dict) else {}


def parse_csv(text: str, source: str = SOURCE, first_line: int = 1) -> tuple[Gpu, ...]:
    """The GPUs of the table whose first column is `device`; none where there is none."""
    names: list[str] = []
    cards: dict[str, list[Entry]] = {}
    for line in numbered_lines(text, source, first_line):
        if header := _HEADER.search(line.text):
            names = _fields(line.text[header.start() :])
        elif names and _CARD.match(line.text.strip()):
            row = dict(zip(names, _fields(line.text.strip()), strict=False))
            card = cards.setdefault(row["device"].strip(), [])
            card.extend(Entry(line.source, key, value) for key, value in row.items() if key != "device")
    return _gpus(cards)


def _fields(line: str) -> list[str]:
    try:
        return next(csv.reader([line]), [])
    except csv.Error:
        return []


def _gpus(cards: dict[str, list[Entry]]) -> tuple[Gpu, ...]:
    found = {int(match[1]): entries for name, entries in cards.items() if (match := _CARD.fullmatch(name)) and entries}
    facts = {index: with_free(facts_of(found[index])) for index in sorted(found)[:MOST_GPUS]}
    return tuple(gpu_of(index, "AMD", found[index][0].source, of) for index, of in facts.items() if of)
