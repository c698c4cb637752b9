"""Who the server is: its port and its secrets, and by which names it may be called."""

import secrets
import threading
import time
from hmac import compare_digest
from typing import NamedTuple
from urllib.parse import quote


class Own(NamedTuple):
    """The port that is listened to, and the token that only the user's terminal was told."""

    port: int
    token: str

    @property
    def hosts(self) -> tuple[str, ...]:
        """What a Host header may say. A name that somebody rebinds to loopback is not among them."""
        return tuple(f"{name}:{self.port}" for name in ("127.0.0.1", "localhost", "[::1]"))

    @property
    def origins(self) -> tuple[str, ...]:
        """What an Origin header may say."""
        return tuple(f"http://{host}" for host in self.hosts)

    @property
    def base(self) -> str:
        """The address without the token."""
        return f"http://{self.hosts[0]}"

    @property
    def url(self) -> str:
        """What the user opens."""
        return f"{self.base}/?token={quote(self.token)}"

    def knows(self, token: str) -> bool:
        """Whether it is the token, compared in a time that tells nothing."""
        return compare_digest(token.encode(), self.token.encode())


class Ticket:
    """Lets a browser in once. Its command line, which every user of the machine can read, has this and no token."""

    LASTS_S = 120.0
    """Longer than any browser takes to start."""

    def __init__(self) -> None:
        self.text = secrets.token_urlsafe(32)
        self._until_s = time.monotonic() + self.LASTS_S
        self._lock = threading.Lock()

    def take(self, text: str) -> bool:
        """Whether it is this ticket and was not used before; from now on it is."""
        with self._lock:
            good = compare_digest(text.encode(), self.text.encode()) and time.monotonic() < self._until_s
            if good:
                self._until_s = 0.0
            return good

    def url(self, own: Own) -> str:
        """What a browser is started with; it leads to the page's own address."""
        return f"{own.base}/?ticket={quote(self.text)}"
