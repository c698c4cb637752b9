"""What serving engines (vLLM, SGLang, TGI) answer over HTTP: JSON and metrics, and the facts that lie in them."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from unslow.facts.values import GIB, LARGEST_COUNT, Known, reported
from unslow.look.openai_api import OK, Server
from unslow.look.server_answers import Metrics, parse_metrics, value_at
from unslow.look.system import LookError, try_look

_UNKNOWN_ADDRESS = (400, 404, 405, 501)
_MOST_GIBIBYTES = 2**30
_LONGEST_TEXT = 200


def answer_if_offered(server: Server, *paths: str) -> tuple[Any, str] | None:
    """The JSON of the first address that the server knows, and which; None where it knows none.

    LookError where nobody answers, or where a key is wanted.
    """
    for path in paths:
        answer = server.ask(path)
        if answer.status in _UNKNOWN_ADDRESS:
            continue
        if answer.status != OK:
            server.json(path)  # raises, with the reason
        try:
            return answer.json(), path
        except LookError:
            continue
    return None


def metrics_of(server: Server, prefix: str) -> Metrics | None:
    """The metrics of this prefix; None where the server has none."""
    metrics = parse_metrics(try_look("", server.text, "/metrics"), f"{server.url}/metrics", prefix)
    return metrics if metrics.samples else None


class Place(NamedTuple):
    """A fact, where it lies, and what kind it must be; a kind gives None for any other."""

    fact: str
    path: tuple[str, ...]
    kind: Callable[[Any], Any]


def facts_at(data: Any, places: Sequence[Place], source: str) -> dict[str, Known[Any]]:
    """The facts that are there; the first place of a fact counts."""
    facts: dict[str, Known[Any]] = {}
    for fact, path, kind in places:
        value = kind(value_at(data, *path))
        if value is not None:
            facts.setdefault(fact, reported(value, f"{source}: {'.'.join(path)}"))
    return facts


def count(value: Any) -> int | None:
    """A whole number above nought."""
    return value if type(value) is int and 0 < value < LARGEST_COUNT else None


def share(value: Any) -> float | None:
    """A share of one."""
    return float(value) if type(value) in (int, float) and 0 < value <= 1 else None


def truth(value: Any) -> bool | None:
    """On or off."""
    return value if isinstance(value, bool) else None


def untruth(value: Any) -> bool | None:
    """Off where it is on, as of `disable_something`."""
    return not value if isinstance(value, bool) else None


def text(value: Any) -> str | None:
    """A word that chooses something."""
    chosen = isinstance(value, str) and value not in ("", "auto")
    return value[:_LONGEST_TEXT].removeprefix("torch.") if chosen else None


def gibibytes(value: Any) -> int | None:
    """A size in GiB, in bytes."""
    return round(value * GIB) if type(value) in (int, float) and 0 <= value < _MOST_GIBIBYTES else None
