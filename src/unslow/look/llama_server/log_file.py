"""The log of a running server: where it is, and its two ends where it is long."""

from unslow.facts.values import Fact, Unknown, not_found, reported
from unslow.look.llama_server.arguments import Setting
from unslow.look.llama_server.process import FoundServer, absolute
from unslow.look.logs.llama_cpp import LlamaLog, parse_head_and_tail, parse_log
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
    for path in _log_paths(system, found, settings):
        for root in (f"/proc/{found.pid}/root", ""):  # a container has files of its own
            try:
                return reported(path, f"/proc/{found.pid}"), read_log(system, root + path)
            except LookError as error:
                why = unknown(error, why.how_to_get)
    return why, LlamaLog()


def _log_paths(system: System, found: FoundServer, settings: dict[str, Setting]) -> list[str]:
    paths = []
    if "log_file" in settings:
        paths.append(absolute(settings["log_file"].value, found.folder).value_or(""))
    for descriptor in (1, 2):
        try:
            paths.append(system.read_link(f"/proc/{found.pid}/fd/{descriptor}"))
        except LookError:
            continue  # a pipe, or not ours to see
    return [path for path in dict.fromkeys(paths) if path.startswith("/") and not path.startswith(("/dev/", "/proc/"))]
