"""llama-server processes of this machine, from /proc."""

import re
from typing import Any, Literal, NamedTuple

from unslow.facts.units import KIB
from unslow.facts.values import Fact, Known, Unknown, failed, not_found, reported
from unslow.look.kernel.cpu_lists import parse_cpu_list
from unslow.look.llama_server.arguments import Setting, parse_settings
from unslow.look.system import LookError, System, unknown
from unslow.look.system.door import read_text

KEPT_VARIABLES = ("LLAMA_", "GGML_", "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_", "OMP_")
_SMALL = 65536
_OWNERS = (("ollama", "ollama"), ("LM Studio", "lm_studio"), ("lm-studio", "lm_studio"), ("llmster", "lm_studio"))


class FoundServer(NamedTuple):
    """One process that looks like llama-server."""

    pid: int
    command: Fact[list[str]]
    environment: Fact[dict[str, str]]
    parent_pid: Fact[int]
    owner: Literal["", "ollama", "lm_studio", "router"]
    """Whose child it is; then that runtime speaks for it."""
    folder: Fact[str]
    resident_bytes: Fact[int]
    threads: Fact[int]
    allowed_cpus: Fact[int]

    def settings(self) -> dict[str, Setting]:
        """What its command line and environment say."""
        return parse_settings(self.command.value_or([]), self.environment.value_or({}))


def find(system: System) -> list[FoundServer]:
    """Every llama-server that runs here, children of other runtimes among them."""
    try:
        names = system.list_dir("/proc")
    except LookError as error:
        raise LookError(
            f"cannot list processes: {error.why}", error.absence, "give the URL or the log of the server"
        ) from error
    pids = sorted(int(name) for name in names if name.isdecimal())
    if not pids:
        raise LookError("/proc shows no process at all", how_to_get="give the URL or the log of the server")
    return [found for pid in pids if (found := find_one(system, pid))]


def find_one(system: System, pid: int) -> FoundServer | None:
    """The process if it is a llama-server; None for any other, and for one that is gone."""
    name = _read(system, pid, "comm").strip()
    if not name.startswith(("llama", "server")):
        return None
    command = _command(system, pid)
    if isinstance(command, Known) and not any(command.value):
        return None  # a zombie has a name and no command line
    if not is_llama_server(name, command.value_or([])):
        return None
    status = parse_status(_read(system, pid, "status"), f"/proc/{pid}/status")
    return FoundServer(
        pid=pid,
        command=command,
        environment=_environment(system, pid),
        parent_pid=status["PPid"],
        owner=_owner(system, status["PPid"], command.value_or([])),
        folder=_folder(system, pid),
        resident_bytes=status["VmRSS"],
        threads=status["Threads"],
        allowed_cpus=status["Cpus_allowed_list"],
    )


def is_llama_server(name: str, command: list[str]) -> bool:
    """Whether a process of this name and command line serves with llama.cpp."""
    if name.startswith("llama-server"):
        return True
    if name == "llama":
        return command[1:2] in (["serve"], ["server"])
    model = parse_settings(command, {}).get("model", Setting("", ""))
    return name == "server" and model.value.endswith(".gguf")


def parse_status(text: str, source: str) -> dict[str, Fact[Any]]:
    """Parent, resident bytes, threads and allowed CPUs of /proc/PID/status."""
    fields = dict(re.findall(r"^(\w+):[ \t]*(.*)$", text, re.MULTILINE))
    missing = not_found(f"{source} does not say")
    cpus = len(parse_cpu_list(fields.get("Cpus_allowed_list", "")))
    resident = re.fullmatch(r"(\d{1,15}) kB", fields.get("VmRSS", ""))
    return {
        "Pid": _count(fields, "Pid", source),
        "PPid": _count(fields, "PPid", source),
        "Threads": _count(fields, "Threads", source),
        "VmRSS": reported(int(resident[1]) * KIB, f"{source}: VmRSS") if resident else missing,
        "Cpus_allowed_list": reported(cpus, f"{source}: Cpus_allowed_list") if cpus else missing,
    }


def _count(fields: dict[str, str], name: str, source: str) -> Fact[int]:
    value = fields.get(name, "").strip()
    known = value.isdecimal() and len(value) <= len(str(2**53)) - 1
    return reported(int(value), f"{source}: {name}") if known else not_found(f"{source} does not say {name}")


def _read(system: System, pid: int, name: str) -> str:
    try:
        return read_text(system, f"/proc/{pid}/{name}", _SMALL)
    except LookError:
        return ""


def _command(system: System, pid: int) -> Fact[list[str]]:
    path = f"/proc/{pid}/cmdline"
    try:
        words = read_text(system, path).split("\0")
    except LookError as error:
        return unknown(error)
    return reported(words[:-1] if words[-1] == "" else words, path) if any(words) else not_found(f"{path} is empty")


def _environment(system: System, pid: int) -> Fact[dict[str, str]]:
    """The few variables that matter here; nobody else's environment is kept."""
    path = f"/proc/{pid}/environ"
    try:
        words = read_text(system, path).split("\0")
    except LookError as error:
        return unknown(error)
    pairs = (word.partition("=") for word in words if word.startswith(KEPT_VARIABLES))
    return reported({name: value for name, _, value in pairs}, path)


def _folder(system: System, pid: int) -> Fact[str]:
    try:
        return reported(system.read_link(f"/proc/{pid}/cwd"), f"/proc/{pid}/cwd")
    except LookError as error:
        return unknown(error)


def _owner(system: System, parent: Fact[int], command: list[str]) -> Literal["", "ollama", "lm_studio", "router"]:
    program = command[0] if command else ""
    if "/ollama/" in program or "/blobs/sha256-" in " ".join(command):
        return "ollama"
    name = _read(system, parent.value, "comm").strip() if isinstance(parent, Known) else ""
    if name.startswith("llama-server"):
        return "router"
    for start, owner in _OWNERS:
        if name.startswith(start):
            return "ollama" if owner == "ollama" else "lm_studio"
    return "lm_studio" if "/.lmstudio/" in program else ""


def absolute(path: str, folder: Fact[str]) -> Fact[str]:
    """A path as the process means it."""
    if path.startswith("/"):
        return reported(path, "command line")
    if isinstance(folder, Unknown):
        return failed(f"{path} is relative, and the folder of the process is unknown: {folder.why}", folder.how_to_get)
    return reported(f"{folder.value.rstrip('/')}/{path}", folder.source)
