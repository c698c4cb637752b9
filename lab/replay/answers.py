"""Recorded answers: one JSON file for each endpoint of a runtime.

`request` is a method and a path, with a query where that matters ("GET /api/ps"), or a method and `*` for any other
path; `when` is what the JSON of a request must hold for this answer to be given (optional); `source` says where the
answer comes from. It is `body` (JSON), `text` (anything else) or `stream`: `[{"after_s": 0.05, "line": "..."}, ...]`;
`status` and `headers` where they matter. A file may also hold one moment of a server: `answers`, by their paths.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

_NONE: Mapping[str, Any] = MappingProxyType({})
FOLDER = Path(__file__).parents[2] / "tests" / "replay"
QUIET = "idle"
"""The moment that is replayed where a folder holds several."""


class Piece(NamedTuple):
    """A line of a streamed answer, and how long after the one before it came."""

    after_s: float
    line: str


class Recorded(NamedTuple):
    """One answer, and the request that it belongs to."""

    request: str
    source: str
    status: int = 200
    headers: Mapping[str, str] = _NONE
    body: Any = None
    text: str | None = None
    stream: tuple[Piece, ...] = ()
    when: Mapping[str, Any] = _NONE


def runtimes() -> list[str]:
    """The runtimes that answers were recorded of."""
    return sorted(path.name for path in FOLDER.iterdir() if path.is_dir())


def read_answers(path: Path) -> list[Recorded]:
    """Every answer in a folder or of one moment, those with conditions first; ValueError where there is none."""
    if not path.exists():
        raise ValueError(f"{path}: not there")
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    data = {file: json.loads(file.read_text(encoding="utf-8")) for file in files}
    single = [_recorded(file, part) for file, part in data.items() if "request" in part]
    moments = [file for file, part in data.items() if "answers" in part]
    chosen = next((file for file in moments if file.stem == QUIET), next(iter(moments), None))
    answers = single + (_moment(chosen, data[chosen]) if chosen else [])
    if not answers:
        raise ValueError(f"{path}: no recorded answers")
    return sorted(answers, key=lambda answer: -len(answer.when))


def _recorded(file: Path, data: dict[str, Any]) -> Recorded:
    if "source" not in data:
        raise ValueError(f"{file}: does not say where it comes from")
    pieces = tuple(Piece(float(piece["after_s"]), piece["line"]) for piece in data.get("stream", ()))
    known = {name: value for name, value in data.items() if name in Recorded._fields}
    return Recorded(**{**known, "stream": pieces})


def _moment(file: Path, data: dict[str, Any]) -> list[Recorded]:
    """What a server answered to several questions at one moment, bodies as they were sent."""
    return [_sent(file, path, answer) for path, answer in data["answers"].items()]


def _sent(file: Path, path: str, answer: dict[str, Any]) -> Recorded:
    kind, body = answer.get("content_type") or "text/plain", answer.get("body") or ""
    parsed = {"body": json.loads(body)} if kind.startswith("application/json") and body else {"text": body}
    return Recorded(f"GET {path}", file.name, answer.get("status", 200), {"Content-Type": kind}, **parsed)


def answer_to(answers: Iterable[Recorded], method: str, target: str, sent: Any) -> Recorded | None:
    """The answer to a request: the one with its query before the one for any query, before the one for any path."""
    fitting = [answer for answer in answers if _fits(answer.when, sent)]
    for wanted in (f"{method} {target}", f"{method} {target.partition('?')[0]}", f"{method} *"):
        if found := next((answer for answer in fitting if answer.request == wanted), None):
            return found
    return None


def _fits(when: Mapping[str, Any], sent: Any) -> bool:
    return not when or (isinstance(sent, dict) and all(sent.get(name) == value for name, value in when.items()))
