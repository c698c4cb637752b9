"""Listens on loopback until somebody presses Ctrl-C."""

import errno
import gc
import secrets
import signal
import socket
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING

from unslow.facts.errors import UserError
from unslow.web.desk import Desk
from unslow.web.own import Own, Ticket
from unslow.web.wanted import Wanted

if TYPE_CHECKING:
    import uvicorn

_TOKEN_BYTES = 32
_LONGEST_HEAD_BYTES = 16 * 1024
_ENDING_S = 2
"""For answers that are being written when the end comes."""
LAST_PORT = 65535
_YOUNG_OBJECTS = 10_000
"""New ones between two looks for garbage, which are made by thousands for a slider's answer, and end with it."""


def listening(port: int) -> socket.socket:
    """A socket on loopback; 0 takes any free port. UserError where the port can't be had."""
    if not 0 <= port <= LAST_PORT:
        raise UserError(f"--port {port} can't be", f"it is from 0 to {LAST_PORT}; 0 takes any that is free")
    try:
        listener = socket.create_server(("127.0.0.1", port), backlog=128)
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        why = "something listens there already" if taken else error.strerror or str(error)
        raise UserError(f"port {port}: {why}", "leave out --port to take one that is free") from error
    # what it accepts inherits this; else head and body of an answer wait for each other, 40 ms each time
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def serve(wanted: Wanted, port: int, ready: Callable[[Own, Ticket], None]) -> None:
    """Serve the page; `ready` is told the address as soon as a browser can connect. Returns after Ctrl-C."""
    gc.set_threshold(_YOUNG_OBJECTS)
    with listening(port) as listener:
        own, ticket = owner_of(listener), Ticket()
        desk = Desk(wanted)
        desk.begin()
        ready(own, ticket)
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # a polite kill ends it as Ctrl-C does
        try:
            server_of(desk, own, ticket).run(sockets=[listener])
        except KeyboardInterrupt:
            pass  # how a server usually ends
        finally:
            desk.close()
            signal.signal(signal.SIGTERM, before)


def owner_of(listener: socket.socket) -> Own:
    """The port that was got, and a new token."""
    return Own(listener.getsockname()[1], secrets.token_urlsafe(_TOKEN_BYTES))


def server_of(desk: Desk, own: Own, ticket: Ticket) -> "uvicorn.Server":
    """The server, ready to run."""
    import uvicorn  # noqa: PLC0415 (looking at the machine has begun meanwhile)

    from unslow.web.application import application  # noqa: PLC0415
    from unslow.web.connections import MOST, Connection  # noqa: PLC0415

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            desk.closing = True  # streams end themselves
            super().handle_exit(sig, frame)

    config = uvicorn.Config(
        application(desk, own, ticket),
        http=Connection,
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_level="critical",  # what goes wrong is said by the application
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MOST,
        h11_max_incomplete_event_size=_LONGEST_HEAD_BYTES,
        timeout_graceful_shutdown=_ENDING_S,
    )
    return Server(config)
