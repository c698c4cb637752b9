"""An answer in one piece: how long it took, and the same words for what goes wrong as with a stream."""

from typing import Any, NamedTuple

from unslow.look.bench.guest import Question
from unslow.look.openai_api.server import OK, Server
from unslow.look.openai_api.stream import checked
from unslow.look.system.door import ExchangeError

_SHOWN = 200


class Whole(NamedTuple):
    """The JSON of an answer, and when all of it was there."""

    answer: dict[str, Any]
    total_s: float


def read_whole(server: Server, path: str, body: dict[str, Any], question: Question) -> Whole:
    """POST and wait, as long as the question allows."""
    start = server.system.clock()
    answer = server.ask(path, "POST", body, question.deadline_s)
    total_s = max(0.0, server.system.clock() - start)
    if answer.status != OK:
        text = answer.body[:_SHOWN].decode("utf-8", "replace").strip()
        raise ExchangeError("error", f"{server.url}{path} answered {answer.status}: {text}")
    return Whole(checked(answer.json()), total_s)
