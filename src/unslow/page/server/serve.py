"""What `unslow serve` does: checks its flags, listens on loopback until Ctrl-C, and opens or names the page."""

import errno
import gc
import getpass
import json
import os
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from types import FrameType
from typing import TYPE_CHECKING, Literal

from unslow import __version__
from unslow.commands.diagnose.request import resolve_request
from unslow.commands.diagnose.target import is_live
from unslow.commands.serve import ServeRequest
from unslow.facts.errors import UserError
from unslow.page.server.guard import ServerIdentity, Ticket
from unslow.page.server.state import ServeOptions, ServerState

if TYPE_CHECKING:
    import uvicorn

Way = Literal["browser", "tunnel", "address"]
_OWN_WINDOWS = ("darwin", "win32")  # Systems on which a session without a display is rare
_USUAL_SSH_PORT = "22"
_PARTS_OF_A_CONNECTION = 4
_ENDING_S = 2  # For answers that are being written when the end comes
_YOUNG_OBJECTS = 10_000
"""New ones between two looks for garbage, which are made by thousands for a slider's answer, and end with it."""


def serve_page(asked: ServeRequest, say: Callable[[str], None]) -> None:
    """Serve the page until Ctrl-C; `say` is told where it is as soon as a browser can connect."""
    wanted = serve_options(asked)
    gc.set_threshold(_YOUNG_OBJECTS)
    with open_listener(asked.port) as listener:
        own, ticket = ServerIdentity(listener.getsockname()[1], secrets.token_urlsafe(32)), Ticket()
        state = ServerState(wanted)
        state.begin()
        if asked.json:
            shown = {"schema": "unslow.serve/1", "unslow_version": __version__, "pid": os.getpid()}
            say(json.dumps({**shown, "url": own.url, "base": own.base, "port": own.port, "token": own.token}))
        else:
            say(address_words(own))
        if not (asked.no_open or asked.json) and way_to_open(os.environ) == "browser":
            import webbrowser

            # without waiting: some browsers return only when they are closed
            threading.Thread(target=webbrowser.open, args=(ticket.url(own),), daemon=True).start()
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # a polite kill ends it as Ctrl-C does
        try:
            make_server(state, own, ticket).run(sockets=[listener])
        except KeyboardInterrupt:
            pass  # how a server usually ends
        finally:
            state.close()
            signal.signal(signal.SIGTERM, before)


def serve_options(asked: ServeRequest) -> ServeOptions:
    """What the flags mean; files are read now, so that a wrong one is told before anything is served."""
    if asked.measure and (asked.passive or not is_live(asked.target)):
        hint = "drop --passive, or give a live TARGET"
        raise UserError("--measure needs a live target and does not work with --passive", hint)
    wanted = ServeOptions(resolve_request(asked), measure=asked.measure)
    if asked.bench:
        from unslow.commands._bench_history import read_benches

        wanted = wanted._replace(benches=tuple(one for path in asked.bench for one in read_benches(path)))
    if asked.verify:
        from unslow.commands.verify.comparison import read_verified

        wanted = wanted._replace(verified=read_verified(asked.verify))
    return wanted


def open_listener(port: int) -> socket.socket:
    """A socket on loopback; 0 takes any free port. UserError where the port is not available."""
    try:
        listener = socket.create_server(("127.0.0.1", port), backlog=128)
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        why = "already in use" if taken else error.strerror or str(error)
        raise UserError(f"port {port}: {why}", "leave out --port to use a free one") from error
    # what it accepts inherits this; else head and body of an answer wait for each other, 40 ms each time
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def make_server(state: ServerState, own: ServerIdentity, ticket: Ticket) -> "uvicorn.Server":
    """The server, ready to run."""
    import uvicorn

    from unslow.page.server.application import application
    from unslow.page.server.connections import MOST, Connection

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            state.closing = True  # streams end themselves
            super().handle_exit(sig, frame)

    config = uvicorn.Config(
        application(state, own, ticket),
        http=Connection,
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_level="critical",  # what goes wrong is said by the application
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MOST,
        h11_max_incomplete_event_size=16 * 1024,
        timeout_graceful_shutdown=_ENDING_S,
    )
    return Server(config)


def address_words(own: ServerIdentity) -> str:
    """The address for a person, and how to get there over SSH."""
    lines = [f"page:  {own.url}"]
    if way_to_open(os.environ) == "tunnel":
        lines += [
            "You are connected over SSH. On your own machine, run:",
            f"  {tunnel_command(own.port, os.environ)}",
            "and open the same address there.",
        ]
    lines.append("Keep the address private: anyone on this machine who has it can open the page. Ctrl-C stops it.")
    return "\n".join(lines)


def way_to_open(environment: Mapping[str, str], platform: str = sys.platform) -> Way:
    """Which way there is: a browser opened over SSH would open on a screen that is not in use."""
    if environment.get("SSH_CONNECTION") or environment.get("SSH_TTY"):
        return "tunnel"
    has_display = environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY")
    return "browser" if has_display or platform in _OWN_WINDOWS else "address"


def tunnel_command(port: int, environment: Mapping[str, str]) -> str:
    """What to run on the machine with the browser. The port is the same on both sides: others are refused."""
    parts = environment.get("SSH_CONNECTION", "").split()
    host, ssh_port = parts[2:4] if len(parts) == _PARTS_OF_A_CONNECTION else ("THIS_MACHINE", _USUAL_SSH_PORT)
    named = "" if ssh_port == _USUAL_SSH_PORT else f" -p {ssh_port}"
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, as in containers
        user = "USER"
    return f"ssh -N -L {port}:127.0.0.1:{port}{named} {user}@{host}"
