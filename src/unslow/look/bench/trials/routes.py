"""The ways to a server: its shortest question by the address that was given, and by the other names of this machine.

A name that stands for several addresses is tried one after the other. Where the server listens on one of them only, a
client may wait for the first to fail before it tries the second, with every request.
"""

from contextlib import suppress
from urllib.parse import urlsplit

from unslow.facts.bounded import bounded
from unslow.facts.run import Route, Run
from unslow.facts.values import measured
from unslow.look.bench.completions import Progress
from unslow.look.bench.guest import Plan, Target
from unslow.look.openai_api.server import Server
from unslow.look.system import LookError, System
from unslow.look.system.http import is_loopback

TRIES = 3
"""The fastest counts: a name that has to wait does so every time."""
_LOCAL = ("localhost", "127.0.0.1", "::1")
_SHORTEST = {"llama.cpp": "/health", "vLLM": "/health", "SGLang": "/health", "TGI": "/health", "Ollama": "/api/version"}
_ANY = "/v1/models"


def perform(system: System, target: Target, plan: Plan, progress: Progress) -> Run:  # noqa: ARG001 (every trial is called so)
    """Every way, and how long it takes."""
    path = next((path for name, path in _SHORTEST.items() if target.runtime.endswith(name)), _ANY)
    hosts = hosts_of(target.url)
    routes = []
    for number, host in enumerate(hosts):
        progress(f"asking {host} how it is", number / len(hosts))
        server = Server(system, _by(target.url, host), target.api_key)
        routes.append(Route(host=host, seconds=_fastest_s(server, path)))
    return bounded(Run(routes=measured(tuple(routes), f"fastest of {TRIES} answers of {path}")))


def hosts_of(url: str) -> list[str]:
    """The host as it was given, then the other names of this machine, where it is one of them and needs no TLS."""
    parts = urlsplit(url)
    given = parts.hostname or ""
    others = _LOCAL if is_loopback(given) and parts.scheme == "http" else ()
    return [given, *(host for host in others if host != given)]


def _by(url: str, host: str) -> str:
    """The same URL by another host."""
    parts = urlsplit(url)
    name = f"[{host}]" if ":" in host else host
    return parts._replace(netloc=f"{name}:{parts.port}" if parts.port else name).geturl()


def _fastest_s(server: Server, path: str) -> float | None:
    """Seconds until it answered, whatever it said; None where it never did."""
    found = []
    for _ in range(TRIES):
        start = server.system.clock()
        with suppress(LookError):
            server.ask(path)
            found.append(max(0.0, server.system.clock() - start))
    return min(found, default=None)
