"""The log of a router, which passes on what its servers say: `[39699] ...` is from the one at that port."""

from unslow.facts.values import Fact, reported
from unslow.look.command_line import UNSET, Setting
from unslow.look.llama_server.process import FoundServer, found_server, is_server, parents_of
from unslow.look.logs.llama_cpp import LlamaLog, parse_log
from unslow.look.processes import is_file_path
from unslow.look.system import LookError

HEAD_BYTES = 8 * 1024**2


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
        log = parse_log(lines_of(text, port), path.rpartition("/")[2])
        return (reported(path, f"/proc/{router.pid}"), log) if log.recognised_lines else None
    return None


def lines_of(text: str, port: str) -> list[str]:
    """The lines of the server at a port, without the mark; others are left blank, so that lines keep their number."""
    mark = f"[{port:>5}] "
    return [line.partition(mark)[2] for line in text.split("\n")]


def _paths(router: FoundServer) -> list[str]:
    told = router.settings().get("log_file", UNSET).value
    return list(dict.fromkeys([*([told] if is_file_path(told) else []), *router.process.outputs()]))
