"""The log of a router, which passes on what its servers say: `[39699] ...` is from the one at that port."""

import re
from collections import deque

import msgspec

from unslow.facts.runtime import PastLoad
from unslow.facts.values import Fact, reported
from unslow.look.command_line import UNSET, Setting
from unslow.look.llama_server.process import FoundServer, found_server, is_server, parents_of
from unslow.look.logs.llama_cpp import LlamaLog, parse_log
from unslow.look.processes import is_file_path
from unslow.look.system import LookError

HEAD_BYTES = 8 * 1024**2
MOST_LOADS, _LONGEST_LINE = 1000, 1000
_STARTED = re.compile(r"spawning server instance with name=(\S{1,300}) on port")
_PASSED_ON = re.compile(r"\[ *\d{1,5}\] ")
"""How a line starts that a server wrote and the router passed on."""


def read_router_log(found: FoundServer, settings: dict[str, Setting]) -> tuple[Fact[str], LlamaLog] | None:
    """What the router of a server wrote down of it; None where it has no router, or none that writes to a file."""
    router = next((parent for parent in parents_of(found.process) if is_server(parent)), None)
    port = settings.get("port", UNSET).value
    if router is None or not port.isdecimal():
        return None
    for path in _paths(found_server(router)):
        try:
            text = found.process.system.read_head(path, HEAD_BYTES).decode("utf-8", "replace")
        except LookError:
            continue
        name = path.rpartition("/")[2]
        log = parse_log(lines_of(text, port), name)
        if not log.recognised_lines:
            return None
        runtime = msgspec.structs.replace(log.runtime, loads=reported(parse_loads(text, name), path))
        return reported(path, f"/proc/{router.pid}"), msgspec.structs.replace(log, runtime=runtime)
    return None


def parse_loads(text: str, source: str) -> list[PastLoad]:
    """Every server that the router started, in their order, each with its model."""
    found: deque[PastLoad] = deque(maxlen=MOST_LOADS)
    for number, line in enumerate(text.split("\n"), 1):
        started = _STARTED.search(line[:_LONGEST_LINE])
        if started and not _PASSED_ON.match(line):
            where = f"{source}:{number}"
            found.append(PastLoad(model=reported(started[1], where), source=where))
    return list(found)


def lines_of(text: str, port: str) -> list[str]:
    """The lines of the server at a port, without the mark; others are left blank, so that lines keep their number."""
    mark = f"[{port:>5}] "
    return [line.partition(mark)[2] for line in text.split("\n")]


def _paths(router: FoundServer) -> list[str]:
    told = router.settings().get("log_file", UNSET).value
    return list(dict.fromkeys([*([told] if is_file_path(told) else []), *router.process.outputs()]))
