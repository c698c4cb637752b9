"""Questions that a server may or may not know."""

from typing import Any

from unslow.look.openai_api.server import OK, Server
from unslow.look.prometheus_text import Metrics, parse_metrics
from unslow.look.system import LookError

_UNKNOWN_ADDRESS = (400, 404, 405, 501)


def offered(server: Server, *paths: str) -> tuple[Any, str] | None:
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
    try:
        metrics = parse_metrics(server.text("/metrics"), f"{server.url}/metrics", prefix)
    except LookError:
        return None
    return metrics if metrics.samples else None
