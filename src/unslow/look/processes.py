"""The processes of this machine, and which of them listens on a local port."""

import re
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from unslow.facts.values import Fact, Known, not_found, reported_fact
from unslow.look.system import LookError, System, read_text, try_fact, try_look, unknown

KEPT_VARIABLES = (
    "LLAMA_", "GGML_", "OLLAMA_", "VLLM_", "SGLANG_", "SGL_", "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_",
    "HSA_", "OMP_", "HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "MLX_", "TRANSFORMERS_",
)  # fmt: skip
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSW", re.IGNORECASE)
_SMALL = 65536
_CONTAINERS = {
    "docker": "docker",
    "libpod": "podman",
    "kubepods": "kubernetes",
    "containerd": "containerd",
    "lxc": "lxc",
}

_LISTENS, _ESTABLISHED = "0A", "01"
_STATE = 3  # The column of /proc/net/tcp
# any, 127.0.0.1, ::, ::1, ::ffff:127.0.0.1
_ANY_OR_LOOPBACK = re.compile(r"0{8}|0100007F|0{32}|0{24}01000000|0{16}FFFF00000100007F")
_LOCAL_NAMES = ("127.0.0.1", "0.0.0.0", "*", "::", "::1", "[::]", "[::1]")  # noqa: S104 (read, not bound)
_NETSTAT = {"darwin": ("netstat", "-an", "-p", "tcp"), "win32": ("netstat", "-an")}
_ROW = re.compile(r"^\s*tcp\S*\s+(?:\d+\s+\d+\s+)?(\S{1,60})[.:](\d{1,5})\s+(\S{1,60})", re.IGNORECASE)
_NOBODY = ("*.*", "*:*", "0.0.0.0:0", "[::]:0")
"""The far end of a socket that only listens: the word for its state is in the language of the system."""
_TIMEOUT_S = 10.0
_MOST_FILES = 4096
"""Open files of a process that are looked through: the socket that a server listens on is among its first."""
_MAPS_BYTES = 4 * 1024**2
_COMPUTES = re.compile(
    r"/[^/\n]*(?:ggml|llama|gguf|safetensors|torch|mlx|vllm|sglang|exllama|cuda|amdhip|rocblas|vulkan)"
    r"[^/\n]*$",
    re.MULTILINE | re.IGNORECASE,
)
"""Names of mapped files by which a process computes a model: its program, its libraries or its weights."""


class Listener(NamedTuple):
    """A port that can be reached over loopback; `inode` is that of its socket, and empty where unknown."""

    port: int
    inode: str


class Process(NamedTuple):
    """One process; everything but its name is read when asked for."""

    system: System
    pid: int
    name: str

    def command(self) -> Fact[list[str]]:
        """Its command line; a zombie has none."""
        path = f"/proc/{self.pid}/cmdline"
        try:
            words = read_text(self.system, path).split("\0")
        except LookError as error:
            return unknown(error)
        if not any(words):
            return not_found(f"{path} is empty")
        return reported_fact(words if words[-1] else words[:-1], path)

    def environment(self) -> Fact[dict[str, str]]:
        """The few variables that matter here, without secrets."""
        path = f"/proc/{self.pid}/environ"
        try:
            words = read_text(self.system, path).split("\0")
        except LookError as error:
            return unknown(error)
        pairs = (word.partition("=") for word in words if word.startswith(KEPT_VARIABLES))
        return reported_fact({name: value for name, _, value in pairs if not _SECRET.search(name)}, path)

    def parent_pid(self) -> int:
        """The process that started it; 0 where that cannot be read."""
        found = re.search(r"^PPid:\s*(\d{1,9})$", self.text("status"), re.MULTILINE)
        return int(found[1]) if found else 0

    def folder(self) -> Fact[str]:
        """Where its relative paths start."""
        return self.link("cwd")

    def container(self) -> Fact[str]:
        """What it is boxed in, by its control group."""
        text, path = self.text("cgroup"), f"/proc/{self.pid}/cgroup"
        kind = next((name for word, name in _CONTAINERS.items() if word in text), "")
        return reported_fact(kind, path) if kind else not_found(f"{path} names no container")

    def text(self, name: str) -> str:
        """A small file of the process; empty where it cannot be read."""
        return try_look("", read_text, self.system, f"/proc/{self.pid}/{name}", _SMALL)

    def roots(self) -> tuple[str, ...]:
        """What to put before a path that it names: a container has files of its own."""
        return f"/proc/{self.pid}/root", ""

    def outputs(self) -> list[str]:
        """The files that its output goes to; a pipe or a terminal is none."""
        paths = dict.fromkeys(self.link(f"fd/{descriptor}").value_or("") for descriptor in (1, 2))
        return [path for path in paths if is_file_path(path)]

    def link(self, name: str) -> Fact[str]:
        path = f"/proc/{self.pid}/{name}"
        return try_fact(lambda: reported_fact(self.system.read_link(path), path))


class ProcessSigns(NamedTuple):
    """How the processes of a program look: how their names start, and what is in the name or the command line."""

    names: tuple[str, ...]
    pattern: str = ""


def is_file_path(path: str) -> bool:
    """Whether a path may name a file that holds something."""
    in_memory = path.startswith("/dev/shm/")  # noqa: S108 (read; files in memory, unlike all else there)
    return in_memory or (path.startswith("/") and not path.startswith(("/dev/", "/proc/")))


def read_process(system: System, pid: int) -> Process:
    """One process with its name, which is empty where it is gone."""
    nameless = Process(system, pid, "")
    return nameless._replace(name=nameless.text("comm").strip())


def read_processes(system: System) -> tuple[Process, ...]:
    """Every process, by its pid; LookError where they cannot be listed."""
    try:
        names = system.list_dir("/proc")
    except LookError as error:
        hint = "give the URL or the log of the server"
        raise LookError(f"cannot list processes: {error.why}", error.absence, hint) from error
    found = tuple(read_process(system, pid) for pid in sorted(int(name) for name in names if name.isdecimal()))
    if not found:
        raise LookError("/proc shows no processes", how_to_get="give the URL or the log of the server")
    return found


def families(system: System, pids: Collection[int]) -> list[int]:
    """The processes and all that they started."""
    processes = try_look((), read_processes, system) if pids else ()
    roots = [process for process in processes if process.pid in set(pids)]
    return list(dict.fromkeys([*pids, *(child.pid for root in roots for child in started_by(root, processes))]))


def started_by(process: Process, processes: Sequence[Process]) -> list[Process]:
    """Those that it started, directly or not; it is none of them."""
    return [p for p in processes if any(a.pid == process.pid for a in ancestors(p, processes))]


def ancestors(process: Process, processes: Sequence[Process]) -> Iterator[Process]:
    """Its parent, its parent's parent, and so on."""
    by_pid = {p.pid: p for p in processes}
    seen = {process.pid}
    while (pid := process.parent_pid()) in by_pid and pid not in seen:
        seen.add(pid)
        process = by_pid[pid]
        yield process


def outermost(
    these: Sequence[Process], processes: Sequence[Process], parents: Sequence[Process] | None = None
) -> list[Process]:
    """Those that none of the parents started, directly or not; none of the others, where no parents are given."""
    pids = {parent.pid for parent in (these if parents is None else parents)}
    return [p for p in these if not any(a.pid in pids for a in ancestors(p, processes))]


def words_of(command: Fact[list[str]]) -> list[str]:
    """The words of a command line that could be read; none otherwise."""
    return command.value if isinstance(command, Known) else []


def read_listening_process(system: System, port: int) -> Process | None:
    """The process that listens on a local port and computes a model, itself or in processes that it started.

    None where it cannot be seen (another user's, a container's), and where it only passes requests on, as do the
    proxies of Docker, of a web server or of ssh.
    """
    # one answer is recorded, not the open files of every process of the machine
    question = f"process listening on port {port}"
    pid = try_look(None, system.ask, question, lambda: find_listening_pid(system.live(), port))
    return read_process(system, pid) if isinstance(pid, int) and pid > 1 else None


def find_listening_pid(system: System, port: int) -> int | None:
    """The same by its number; LookError where processes cannot be listed."""
    inode = next((listener.inode for listener in read_listeners(system) if listener.port == port), "")
    if not inode.strip("0"):
        return None
    processes = read_processes(system)
    holders = []
    for process in processes:
        files = try_look([], system.list_dir, f"/proc/{process.pid}/fd")[:_MOST_FILES]  # of another user, or gone
        if any(process.link(f"fd/{name}").value_or("") == f"socket:[{inode}]" for name in files):
            holders.append(process)
    for process in outermost(holders, processes):  # workers inherit the socket of the one that started them
        for member in (process, *started_by(process, processes)):
            if _COMPUTES.search(try_look("", read_text, system, f"/proc/{member.pid}/maps", _MAPS_BYTES)):
                return process.pid
    return None


def read_listeners(system: System) -> tuple[Listener, ...]:
    """Ports open to this machine itself, by /proc/net/tcp and tcp6, else `netstat`; none where they cannot be read."""
    tables = [try_look(None, read_text, system, path) for path in ("/proc/net/tcp", "/proc/net/tcp6")]
    listed = [parse_listeners(table) for table in tables if table is not None]
    if not listed:  # only on systems that have no /proc: elsewhere it is hidden on purpose
        with suppress(LookError):
            command = _NETSTAT.get(str(system.ask("sys.platform", lambda: sys.platform)))
            printed = system.run(command, _TIMEOUT_S).stdout if command else ""
            rows = [found for line in printed.splitlines() if (found := _ROW.match(line))]
            listening = [row for row in rows if row[1] in _LOCAL_NAMES and row[3] in _NOBODY]
            listed = [[Listener(int(row[2]), "") for row in listening]]
    by_port = {listener.port: listener for table in reversed(listed) for listener in table}
    return tuple(by_port[port] for port in sorted(by_port))


def read_connections(system: System, pid: int, port: int) -> int:
    """How many clients are connected to a port of a process; LookError where its tables cannot be read."""
    tables = [try_look(None, read_text, system, f"/proc/{pid}/net/{name}") for name in ("tcp", "tcp6")]
    if tables == [None, None]:
        raise LookError(f"/proc/{pid}/net/tcp cannot be read")
    return sum(parse_connections(table, port) for table in tables if table is not None)


def parse_connections(text: str, port: int) -> int:
    """The established connections of a table whose own end is the port."""
    rows = (line.split() for line in text.splitlines()[1:])
    own = f":{port:04X}"
    return sum(len(row) > _STATE and row[1].endswith(own) and row[_STATE] == _ESTABLISHED for row in rows)


def parse_listeners(text: str) -> list[Listener]:
    """The listening sockets of a table; the kernel writes addresses as hexadecimal words."""
    result = []
    for line in text.splitlines()[1:]:
        columns = line.split()
        if len(columns) < 10 or columns[3] != _LISTENS:  # noqa: PLR2004 (the inode is the tenth column)
            continue
        address, _, port = columns[1].partition(":")
        if _ANY_OR_LOOPBACK.fullmatch(address) and re.fullmatch(r"[0-9A-F]{4}", port):
            result.append(Listener(int(port, 16), columns[9]))
    return result
