"""Where a server listens, by its command line."""

from collections.abc import Mapping
from urllib.parse import urlsplit

from unslow.facts.values import Fact, not_supported, reported
from unslow.look.serving.arguments import Setting
from unslow.look.system.http import is_loopback

_EVERYWHERE = ("0.0.0.0", "::", "", "localhost")  # noqa: S104 (read, not bound)


def url_of(settings: Mapping[str, Setting], port: str) -> Fact[str]:
    """The address as this machine sees it; `port` is the usual one."""
    if "socket" in settings:
        return not_supported(f"it listens on the socket {settings['socket'].value}", "start it with a port")
    host = settings.get("host", Setting("", "")).value
    host = "127.0.0.1" if host in _EVERYWHERE else host
    chosen = settings.get("port", Setting(port, "default port"))
    if not chosen.value.isdecimal() or len(chosen.value) > len("65535"):
        return not_supported(f"{chosen.source}: {chosen.value[:40]!r} is not a port", "give the URL")
    scheme = "https" if "certificate" in settings else "http"
    return reported(f"{scheme}://{f'[{host}]' if ':' in host else host}:{chosen.value}", chosen.source)


def is_local(url: str) -> bool:
    """Whether a URL stays on this machine."""
    try:
        return is_loopback(urlsplit(url).hostname or "")
    except ValueError:
        return False
