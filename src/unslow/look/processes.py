"""The processes of this machine, from /proc: names first, the rest only of those that somebody asks for."""

import re
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from unslow.facts.values import Fact, Known, not_found, reported
from unslow.look.system import LookError, System, unknown
from unslow.look.system.door import read_text

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
        return reported(words[:-1] if words[-1] == "" else words, path) if any(words) else not_found(f"{path} is empty")

    def environment(self) -> Fact[dict[str, str]]:
        """The few variables that matter here; nobody's secrets, nobody else's environment."""
        path = f"/proc/{self.pid}/environ"
        try:
            words = read_text(self.system, path).split("\0")
        except LookError as error:
            return unknown(error)
        pairs = (word.partition("=") for word in words if word.startswith(KEPT_VARIABLES))
        return reported({name: value for name, _, value in pairs if not _SECRET.search(name)}, path)

    def parent_pid(self) -> int:
        """The process that started it; 0 where that can't be read."""
        found = re.search(r"^PPid:\s*(\d{1,9})$", self.text("status"), re.MULTILINE)
        return int(found[1]) if found else 0

    def folder(self) -> Fact[str]:
        """Where its relative paths start."""
        return self.link("cwd")

    def program(self) -> Fact[str]:
        """The file that it runs."""
        return self.link("exe")

    def container(self) -> Fact[str]:
        """What it is boxed in, by its control group."""
        text = self.text("cgroup")
        kind = next((name for word, name in _CONTAINERS.items() if word in text), "")
        return reported(kind, f"/proc/{self.pid}/cgroup") if kind else not_found(f"/proc/{self.pid}/cgroup names none")

    def text(self, name: str) -> str:
        """A small file of the process; empty where it can't be read."""
        try:
            return read_text(self.system, f"/proc/{self.pid}/{name}", _SMALL)
        except LookError:
            return ""

    def roots(self) -> tuple[str, ...]:
        """What to put before a path that it names: a container has files of its own."""
        return f"/proc/{self.pid}/root", ""

    def outputs(self) -> list[str]:
        """The files that its output goes to; a pipe or a terminal is none."""
        paths = dict.fromkeys(self.link(f"fd/{descriptor}").value_or("") for descriptor in (1, 2))
        return [path for path in paths if is_file_path(path)]

    def link(self, name: str) -> Fact[str]:
        """Where a link of the process leads."""
        path = f"/proc/{self.pid}/{name}"
        try:
            return reported(self.system.read_link(path), path)
        except LookError as error:
            return unknown(error)


def is_file_path(path: str) -> bool:
    """Whether a path may name a file that holds something."""
    if path.startswith("/dev/shm/"):  # noqa: S108 (read; files in memory, unlike all else there)
        return True
    return path.startswith("/") and not path.startswith(("/dev/", "/proc/"))


def read_process(system: System, pid: int) -> Process:
    """One process with its name, which is empty where it is gone."""
    nameless = Process(system, pid, "")
    return nameless._replace(name=nameless.text("comm").strip())


def read_processes(system: System) -> tuple[Process, ...]:
    """Every process, by its pid; LookError where nobody may look."""
    try:
        names = system.list_dir("/proc")
    except LookError as error:
        hint = "give the URL or the log of the server"
        raise LookError(f"cannot list processes: {error.why}", error.absence, hint) from error
    found = tuple(read_process(system, pid) for pid in sorted(int(name) for name in names if name.isdecimal()))
    if not found:
        raise LookError("/proc shows no process at all", how_to_get="give the URL or the log of the server")
    return found


def ancestors(process: Process, processes: Sequence[Process]) -> Iterator[Process]:
    """Its parent, its parent's parent, and so on."""
    by_pid = {p.pid: p for p in processes}
    seen = {process.pid}
    while (pid := process.parent_pid()) in by_pid and pid not in seen:
        seen.add(pid)
        process = by_pid[pid]
        yield process


def started_by(process: Process, processes: Sequence[Process]) -> list[Process]:
    """Those that it started, directly or not; it is none of them."""
    return [p for p in processes if any(a.pid == process.pid for a in ancestors(p, processes))]


def families(system: System, pids: Collection[int]) -> list[int]:
    """The processes and all that they started."""
    try:
        processes = read_processes(system) if pids else ()
    except LookError:
        return list(pids)
    roots = [process for process in processes if process.pid in set(pids)]
    return list(dict.fromkeys([*pids, *(child.pid for root in roots for child in started_by(root, processes))]))


def outermost(these: Sequence[Process], processes: Sequence[Process]) -> list[Process]:
    """Those that none of the others started, directly or not."""
    return not_started_by(these, these, processes)


def not_started_by(these: Sequence[Process], parents: Sequence[Process], processes: Sequence[Process]) -> list[Process]:
    """Those of `these` that none of the parents started, directly or not."""
    pids = {parent.pid for parent in parents}
    return [p for p in these if not any(a.pid in pids for a in ancestors(p, processes))]


def words_of(command: Fact[list[str]]) -> list[str]:
    """The words of a command line that could be read; none otherwise."""
    return command.value if isinstance(command, Known) else []
