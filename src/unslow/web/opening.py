"""How the user gets to see the page: a browser here, a tunnel from where they sit, or the address alone."""

import getpass
import sys
import threading
from collections.abc import Mapping
from typing import Literal

Way = Literal["browser", "tunnel", "address"]
_OWN_WINDOWS = ("darwin", "win32")
"""Systems on which a session without a display is rare."""
_USUAL_SSH_PORT = "22"
_PARTS_OF_A_CONNECTION = 4


def way_to_open(environment: Mapping[str, str], platform: str = sys.platform) -> Way:
    """Which way there is: a browser opened over SSH would open on a screen that nobody looks at."""
    if environment.get("SSH_CONNECTION") or environment.get("SSH_TTY"):
        return "tunnel"
    has_display = environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY")
    return "browser" if has_display or platform in _OWN_WINDOWS else "address"


def tunnel_command(port: int, environment: Mapping[str, str]) -> str:
    """What to run on the machine with the browser. The port is the same on both sides: others are refused."""
    parts = environment.get("SSH_CONNECTION", "").split()
    host, ssh_port = parts[2:4] if len(parts) == _PARTS_OF_A_CONNECTION else ("THIS_MACHINE", _USUAL_SSH_PORT)
    named = "" if ssh_port == _USUAL_SSH_PORT else f" -p {ssh_port}"
    return f"ssh -N -L {port}:127.0.0.1:{port}{named} {_user()}@{host}"


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, as in containers
        return "USER"


def open_browser(url: str) -> None:
    """Open it without waiting: some browsers return only when they are closed."""
    import webbrowser  # noqa: PLC0415 (only where there is a display)

    threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
