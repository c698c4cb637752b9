"""Where servers listen, as this machine sees it."""

from urllib.parse import urlsplit

from unslow.look.system.http import is_loopback

LOCAL = "127.0.0.1"
_EVERYWHERE = ("", "0.0.0.0", "::")  # noqa: S104 (read, not bound)
_LARGEST_PORT = 2**16 - 1


def seen_host(host: str) -> str:
    """A host as a URL has it: who listens on every address can be asked on this machine's own."""
    bare = host.strip("[]")
    return LOCAL if bare in _EVERYWHERE else f"[{bare}]" if ":" in bare else bare


def is_port(text: str) -> bool:
    """Whether a text is a port that can be asked."""
    return text.isdecimal() and text.isascii() and len(text) <= len(str(_LARGEST_PORT)) and int(text) <= _LARGEST_PORT


def host_of(url: str) -> str:
    """The host of a URL; empty where it has none, or is none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def is_here(url: str) -> bool:
    """Whether a URL stays on this machine: a path elsewhere says nothing about a file here."""
    return is_loopback(host_of(url))
