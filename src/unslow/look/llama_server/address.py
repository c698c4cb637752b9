"""Where a server listens, who stands before it, and the key that it wants: what is needed to ask it anything."""

import re
from collections.abc import Mapping
from functools import partial

from unslow.facts.values import Fact, Known, Unknown, not_found, reported
from unslow.look.addresses import is_port, seen_host
from unslow.look.command_line import UNSET, Setting
from unslow.look.llama_server.arguments import parse_settings
from unslow.look.llama_server.process import FoundServer, absolute, is_server, parents_of
from unslow.look.processes import Process, words_of
from unslow.look.system import LookError
from unslow.look.system.recorded import UNRECORDED

ROUTER_PORT = "LLAMA_SERVER_ROUTER_PORT"
"""The variable by which a router tells the servers that it starts where it listens itself."""
SWAP = "llama-swap"
_SWAP_DEFAULT = ":8080"
_KEY_FILE_BYTES = 65536


def url_of(settings: Mapping[str, Setting]) -> Fact[str]:
    """Where the server listens, seen from this machine."""
    hosts = settings.get("host", Setting("127.0.0.1", "")).value.split(",")
    port = settings.get("port", Setting("8080", "")).value
    host = next((h.strip() for h in hosts if not h.strip().endswith(".sock")), None)
    if host is None:
        return Unknown(f"it listens on the socket {hosts[0]}", "give it a port with --port")
    if not is_port(port):
        return Unknown(f"{port[:40]!r} is not a port", "give the URL")
    scheme = "https" if "certificate" in settings else "http"
    prefix = settings.get("api_prefix", UNSET).value.strip("/")
    url = f"{scheme}://{seen_host(host)}:{port}"
    return reported(f"{url}/{prefix}" if prefix else url, settings.get("port", Setting("", "default port")).source)


def front_of(found: FoundServer) -> Fact[str]:
    """The router or the llama-swap that passes requests on to it."""
    for parent in parents_of(found.process):
        if parent.name.startswith(SWAP):
            return reported(f"{SWAP} at {_swap_url(words_of(parent.command()))}", f"/proc/{parent.pid}")
        if is_server(parent):
            settings = parse_settings(words_of(parent.command()), parent.environment().value_or({}))
            return reported(f"router at {url_of(settings).value_or('an unknown address')}", f"/proc/{parent.pid}")
    port = found.environment.value_or({}).get(ROUTER_PORT, "")
    if re.fullmatch(r"\d{1,5}", port):
        return reported(f"router at http://127.0.0.1:{port}", f"environment: {ROUTER_PORT}")
    return not_found("nothing stands before it")


def _swap_url(command: list[str]) -> str:
    flags = [i for i, word in enumerate(command[:-1]) if word.lstrip("-") == "listen"]
    attached = [word.partition("=")[2] for word in command if word.lstrip("-").startswith("listen=")]
    listen = command[flags[-1] + 1] if flags else attached[-1] if attached else _SWAP_DEFAULT
    host, _, port = listen.rpartition(":")
    return f"http://{seen_host(host)}:{port}"


def read_api_key(process: Process) -> str:
    """The first key that a server accepts: of its command line, its environment or its file of keys; empty with none.

    It is read when it is needed and kept in no fact.
    """
    command = words_of(process.command())
    settings = parse_settings(command, _key_variables(process))
    given = next((key for key in settings.get("api_key", UNSET).value.split(",") if key.strip()), "")
    return given.strip() or _first_key_in_file(process, settings.get("api_key_file", UNSET).value)


def _key_variables(process: Process) -> dict[str, str]:
    pairs = (word.partition("=") for word in process.text("environ").split("\0"))
    return {name: value for name, _, value in pairs if name in ("LLAMA_API_KEY", "LLAMA_ARG_API_KEY_FILE")}


def _first_key_in_file(process: Process, path: str) -> str:
    place = absolute(path, process.folder()) if path else not_found("no file of keys")
    if not isinstance(place, Known):
        return ""
    for root in process.roots():
        try:
            # a file of keys is the one file that a recording must not hold
            text = process.system.ask(f"{UNRECORDED}{root}{place.value}", partial(_read_file, root + place.value))
        except LookError:
            continue
        return parse_first_key(text) if isinstance(text, str) else ""
    return ""


def _read_file(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(_KEY_FILE_BYTES).decode("utf-8", "replace")
    except OSError as error:
        raise LookError(f"{path}: {error.strerror or error}") from error


def parse_first_key(text: str) -> str:
    """The first key of a file, one a line; lines that start with a hash are remarks."""
    return next((line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")), "")
