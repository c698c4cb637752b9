"""Which machines an agent may have asked: this one, and those that the user names."""

from collections.abc import Collection
from urllib.parse import urlsplit

from unslow.app.fit.addresses import is_address, meant_by
from unslow.app.plan.subjects import is_target
from unslow.app.read_target import as_url
from unslow.facts.errors import UserError
from unslow.look.system.http import is_loopback

_TARGETS, _MODELS = ("target",), ("model", "draft")


def check_hosts(asked: object, allowed: Collection[str]) -> None:
    """UserError where an address leads to a machine that the user did not name: text in a chat may ask for anything."""
    for name in (*_TARGETS, *_MODELS):
        word = getattr(asked, name, None)
        if not isinstance(word, str):
            continue
        if word == "-":
            raise UserError(f"{name}: there is no standard input to read", "give a file, a name or an address")
        url = as_url(word) if name in _TARGETS or is_target(word) else _address(word)
        if url:
            _check(url, allowed)


def _address(word: str) -> str | None:
    """The address that is read for a model; None for a name, a file, or a page that only names one."""
    meant = meant_by(word)
    return meant if is_address(meant) else None


def _check(url: str, allowed: Collection[str]) -> None:
    try:
        host = urlsplit(url).hostname or ""
    except ValueError as error:
        raise UserError(f"{url!r} is not a URL: {error}", "such as http://127.0.0.1:8080") from error
    if not is_loopback(host) and host not in allowed:
        raise UserError(f"{host} is another machine", f"only the user can allow it: `unslow mcp --allow-host {host}`")
