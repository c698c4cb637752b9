"""Waits for a server that failed until it is back, and notes for how long it was not there."""

from http import HTTPStatus

from unslow.facts.bench import Failure
from unslow.look.bench.guest import Target
from unslow.look.system import LookError, System
from unslow.think.bench.availability import Outage

SHORTEST_S, LONGEST_S = 0.25, 10.0
"""Between two looks: soon enough to lose little, seldom enough to be no load."""
_LOOK_TIMEOUT_S = 3.0
_HEALTH = {"llama.cpp": "/health", "vLLM": "/health", "SGLang": "/health", "TGI": "/health", "Ollama": "/api/version"}
_OF_ANY = "/v1/models"


class Patience:
    """What is known of a server that may come and go."""

    def __init__(self, system: System, target: Target, began_s: float) -> None:
        self._system, self._target, self._began_s = system, target, began_s
        self._in_a_row = 0
        self.outages: list[Outage] = []

    def answered(self) -> None:
        """A request went well: whatever was wrong is over."""
        self._in_a_row = 0

    def failed(self, failure: Failure, until_s: float) -> None:
        """Wait until the server is there again, or until that time; longer where it is there and fails all the same."""
        start = failure.started_s if failure.kind == "refused" else failure.started_s + failure.lasted_s
        waits = 0
        try:
            while not is_there(self._system, self._target) and self._system.clock() < until_s:
                waits += 1
                self._sleep(waits - 1, until_s)
        finally:
            if waits:
                self.outages.append(Outage(start, max(start, self._system.clock() - self._began_s)))
        if self._in_a_row and not waits:
            self._sleep(self._in_a_row, until_s)
        self._in_a_row += 1

    def _sleep(self, before: int, until_s: float) -> None:
        """Twice as long as the time before, within bounds."""
        wanted = min(LONGEST_S, SHORTEST_S * 2 ** min(before, 10))
        self._system.sleep(max(0.0, min(wanted, until_s - self._system.clock())))


def is_there(system: System, target: Target) -> bool:
    """Whether the server answers a cheap question as one that could answer others; one that loads does not."""
    try:
        path = _HEALTH.get(target.runtime, _OF_ANY)
        return target.server(system).ask(path, timeout_s=_LOOK_TIMEOUT_S).status < HTTPStatus.INTERNAL_SERVER_ERROR
    except LookError:
        return False
