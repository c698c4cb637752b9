"""The log of a running server: where it is, and its two ends where it is long."""

from unslow.facts.values import Fact, Unknown, not_found, reported
from unslow.look.command_line import Setting
from unslow.look.llama_server.process import FoundServer, absolute
from unslow.look.logs.llama_cpp import LlamaLog, parse_head_and_tail, parse_log
from unslow.look.processes import is_file_path
from unslow.look.system import LookError, System, unknown

HEAD_BYTES = 8 * 1024**2
TAIL_BYTES = 2 * 1024**2


def read_log(system: System, path: str) -> LlamaLog:
    """A log of any size: its load lines are at the start, its last requests (and a later load) at the end."""
    head = system.read_head(path, HEAD_BYTES)
    name = path.rpartition("/")[2]
    if len(head) < HEAD_BYTES:
        return parse_log(head.decode("utf-8", "replace").split("\n"), name)
    tail = system.read_tail(path, TAIL_BYTES)
    return parse_head_and_tail(head.decode("utf-8", "replace"), tail.decode("utf-8", "replace"), name)


def read_own_log(system: System, found: FoundServer, settings: dict[str, Setting]) -> tuple[Fact[str], LlamaLog]:
    """The first log that can be read: the file it was told to write, else where its output goes."""
    why: Unknown = not_found("the server writes no log file", "start it with --log-file FILE -lv 4")
    for path in _log_paths(found, settings):
        for root in found.process.roots():
            try:
                return reported(path, f"/proc/{found.pid}"), read_log(system, root + path)
            except LookError as error:
                why = unknown(error, why.how_to_get)
    return why, LlamaLog()


def _log_paths(found: FoundServer, settings: dict[str, Setting]) -> list[str]:
    told = absolute(settings["log_file"].value, found.folder).value_or("") if "log_file" in settings else ""
    return list(dict.fromkeys([*([told] if is_file_path(told) else []), *found.process.outputs()]))
