"""What is stored: texts of a verb in one file to read, JSON and HTML of a verb in one compressed file."""

import json
import lzma
import re
from functools import cache
from pathlib import Path

STORED = Path(__file__).parent / "stored"
PACKED = ("json", "html", "file")
"""The kinds of output that are compressed; what is read by people is not."""
_HEAD = re.compile(r"^━━━━ (\S+) ━━━━ ?(.*)\n", re.MULTILINE)

Outputs = dict[str, str]
"""Outputs of a case by their kind: text, json, html, or a file for another program."""


@cache
def stored(verb: str) -> dict[str, Outputs]:
    """What is stored of a verb, by its cases."""
    found: dict[str, Outputs] = {}
    text, packed = _text_file(verb), _packed_file(verb)
    if text.exists():
        pieces = _HEAD.split(text.read_text("utf-8"))[1:]
        for name, body in zip(pieces[::3], pieces[2::3], strict=True):
            found.setdefault(name, {})["text"] = body
    if packed.exists():
        for name, outputs in json.loads(lzma.decompress(packed.read_bytes())).items():
            found.setdefault(name, {}).update(outputs)
    return found


def store(verb: str, cases: dict[str, Outputs], titles: dict[str, str]) -> None:
    """Write all outputs of a verb; the same outputs give the same bytes."""
    STORED.mkdir(exist_ok=True)
    pieces = []
    for name, outputs in cases.items():
        if "text" in outputs:
            assert not _HEAD.search(outputs["text"]), f"{verb} {name} prints a line that looks like a heading"
            pieces.append(f"━━━━ {name} ━━━━ {titles[name]}\n{outputs['text']}")
    packed = {name: {k: v for k, v in outputs.items() if k in PACKED} for name, outputs in cases.items()}
    packed = {name: outputs for name, outputs in packed.items() if outputs}
    _write(_text_file(verb), "".join(pieces).encode())
    data = json.dumps(packed, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()
    _write(_packed_file(verb), lzma.compress(data, preset=9 | lzma.PRESET_EXTREME) if packed else b"")
    stored.cache_clear()


def _write(path: Path, data: bytes) -> None:
    if data:
        path.write_bytes(data)
    else:
        path.unlink(missing_ok=True)


def _text_file(verb: str) -> Path:
    return STORED / f"{verb}.txt"


def _packed_file(verb: str) -> Path:
    return STORED / f"{verb}.json.xz"
