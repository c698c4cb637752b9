"""Where a URL that the user gave may lead: redirects are followed, but never from outside into a private network."""

import ipaddress
import socket
from collections.abc import Iterable
from urllib.parse import urljoin

from unslow.look.system.door import LookError
from unslow.look.system.http import split_url

MOST_REDIRECTS = 5

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Route:
    """The way from the URL that was given to the one that answers."""

    def __init__(self, given: str) -> None:
        self.given = self.url = given
        self._redirects_left = MOST_REDIRECTS
        self._from_inside: bool | None = None

    def addresses(self) -> list[Address]:
        """Where to connect to, looked up once and checked; LookError where the way must not lead there."""
        found = addresses(self.url)
        if self._from_inside is None:
            self._from_inside = is_inside(found)
        if is_inside(found) and not self._from_inside:
            raise LookError(f"leads to {split_url(self.url)[1]}, in a private network, which is not followed")
        return found

    def follow(self, location: str | None) -> None:
        """Go where an answer sends to."""
        self._redirects_left -= 1
        if self._redirects_left < 0:
            raise LookError(f"redirects more than {MOST_REDIRECTS} times")
        self.url = redirected(self.url, location)


def addresses(url: str) -> list[Address]:
    """What the host of a URL resolves to."""
    _, host, port, _ = split_url(url)
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise LookError(f"the host {host!r} is not known: {error}") from error
    return [ipaddress.ip_address(str(where[0]).partition("%")[0]) for *_, where in found]


def is_inside(found: Iterable[Address]) -> bool:
    """Whether any of them is not an address of the public internet: loopback, a home or a company's network."""
    return any(a.is_multicast or not a.is_global for a in found)


def redirected(url: str, location: str | None) -> str:
    """The URL that an answer sends to; LookError where that is no web address, or no longer an encrypted one."""
    if not location:
        raise LookError("redirects to nowhere")
    try:
        target = urljoin(url, location)
    except ValueError as error:
        raise LookError(f"redirects to {location[:64]!r}: {error}") from error
    scheme, host, _, _ = split_url(target)
    if (split_url(url)[0], scheme) == ("https", "http"):
        raise LookError(f"redirects from https:// to http://{host}, which is not followed")
    return target
