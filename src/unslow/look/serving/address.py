"""Where a server listens, by its command line."""

from collections.abc import Mapping

from unslow.facts.values import Fact, not_supported, reported
from unslow.look.addresses import LOCAL, is_port, seen_host
from unslow.look.command_line import UNSET, Setting


def url_of(settings: Mapping[str, Setting], port: str) -> Fact[str]:
    """The address as this machine sees it; `port` is the usual one."""
    if "socket" in settings:
        return not_supported(f"it listens on the socket {settings['socket'].value}", "start it with a port")
    host = settings.get("host", UNSET).value
    chosen = settings.get("port", Setting(port, "default port"))
    if not is_port(chosen.value):
        return not_supported(f"{chosen.source}: {chosen.value[:40]!r} is not a port", "give the URL")
    scheme = "https" if "certificate" in settings else "http"
    return reported(f"{scheme}://{LOCAL if host == 'localhost' else seen_host(host)}:{chosen.value}", chosen.source)
