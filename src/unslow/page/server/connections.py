"""A connection that can't keep others out: who sends nothing is hung up on, and the longest idle one makes room."""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST = 64  # One page has a handful; those that are being answered beyond it are told to wait (503)
HEAD_S = 10.0  # For the head of a request to come whole: on loopback it takes a millisecond


class Connection(H11Protocol):
    """A connection of one browser or program, or of one that only takes up room."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._late: asyncio.TimerHandle | None = None
        self.idle_since_s = 0.0

    @property
    def is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a head, but not for ever."""
        super().connection_made(transport)
        self.idle_since_s = self.loop.time()
        self._late = self.loop.call_later(HEAD_S, self._hang_up)
        # Hang up on whoever is idle for the longest time, where there are too many
        there = [one for one in self.connections if isinstance(one, Connection) and not one.transport.is_closing()]
        idle = [one for one in there if one.is_idle and one is not self]
        if len(there) >= MOST and idle:
            min(idle, key=lambda one: one.idle_since_s).transport.close()

    def data_received(self, data: bytes) -> None:
        """More of a head or of a body; a head that comes in drops has no more time than another."""
        super().data_received(data)
        if not self.is_idle:
            self._wait_no_more()
        elif self._late is None:
            self._late = self.loop.call_later(HEAD_S, self._hang_up)

    def on_response_complete(self) -> None:
        """Idle from now on, until the next head begins or the time to keep it alive is over."""
        self.idle_since_s = self.loop.time()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait_no_more()
        super().connection_lost(exc)

    def _wait_no_more(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _hang_up(self) -> None:
        self._late = None
        if self.is_idle:
            self.transport.close()
