"""llama-server processes: which they are, whose they are, and what they show of themselves."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from unslow.facts.units import KIB
from unslow.facts.values import NOT_LOOKED, Fact, Unknown, failed, not_found, reported
from unslow.look.command_line import UNSET, Setting
from unslow.look.kernel.cpu_lists import parse_cpu_list
from unslow.look.llama_server.arguments import parse_settings
from unslow.look.processes import Process, ancestors, read_process, words_of

_NAMES = ("llama", "server", "com.docker.llam")  # the kernel keeps fifteen letters of a name
_OWNERS = ("ollama", "LM Studio", "lm-studio", "llmster", ".lmstudio")
_OWNED_PATHS = ("/ollama/", "/.lmstudio/", "/lm-studio/")
_OLLAMA_BLOB = "/blobs/sha256-"


class FoundServer(NamedTuple):
    """One llama-server, as its process shows it."""

    process: Process
    command: Fact[list[str]]
    environment: Fact[dict[str, str]]
    folder: Fact[str] = NOT_LOOKED
    resident_bytes: Fact[int] = NOT_LOOKED
    threads: Fact[int] = NOT_LOOKED
    allowed_cpus: Fact[int] = NOT_LOOKED

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    def settings(self) -> dict[str, Setting]:
        """What its command line and environment say; keys that only the environment holds are not among them."""
        return parse_settings(words_of(self.command), self.environment.value_or({}))


def find(processes: Sequence[Process]) -> list[Process]:
    """Every llama-server that nobody else speaks for; a router with models is spoken for by their servers."""
    servers = [process for process in processes if is_server(process) and not is_owned(process, processes)]
    parents = {process.parent_pid() for process in servers}
    return [process for process in servers if process.pid not in parents]


def found_server(process: Process) -> FoundServer:
    """What the process of a server shows."""
    status = parse_status(process.text("status"), f"/proc/{process.pid}/status")
    return FoundServer(
        process=process,
        command=process.command(),
        environment=process.environment(),
        folder=process.folder(),
        resident_bytes=status["VmRSS"],
        threads=status["Threads"],
        allowed_cpus=status["Cpus_allowed_list"],
    )


def is_server(process: Process) -> bool:
    """Whether a process serves with llama.cpp; a zombie has a name and no command line."""
    if not process.name.startswith(_NAMES):
        return False
    command = process.command()
    if isinstance(command, Unknown) and command.why.endswith("is empty"):
        return False
    return is_llama_server(process.name, words_of(command))


def is_llama_server(name: str, command: list[str]) -> bool:
    """Whether a process of this name and command line serves with llama.cpp."""
    if name.startswith(("llama-server", "com.docker.llam")):
        return True
    if name == "llama":
        return command[1:2] in (["serve"], ["server"])
    model = parse_settings(command, {}).get("model", UNSET)
    return name == "server" and model.value.endswith(".gguf")


def is_owned(process: Process, processes: Sequence[Process]) -> bool:
    """Whether Ollama or LM Studio started it, which then speak for it."""
    command = words_of(process.command())
    program = command[0] if command else ""
    parents = list(ancestors(process, processes))
    if any(parent.name.startswith(_OWNERS) for parent in parents):
        return True
    # another program may start their binary, or one on their model; without a parent of its own, its paths tell
    hinted = any(path in program for path in _OWNED_PATHS) or _OLLAMA_BLOB in " ".join(command)
    return hinted and all(parent.pid <= 1 for parent in parents)


def parents_of(process: Process, most: int = 4) -> Iterator[Process]:
    """Its parent and grandparents, as far as they matter and can be seen."""
    for _ in range(most):
        pid = process.parent_pid()
        if pid <= 1:
            return
        process = read_process(process.system, pid)
        yield process


def parse_status(text: str, source: str) -> dict[str, Fact[Any]]:
    """Process id, resident bytes, threads and allowed CPUs of /proc/PID/status."""
    fields = dict(re.findall(r"^(\w+):[ \t]*(.*)$", text, re.MULTILINE))
    missing = not_found(f"{source} does not say")
    cpus = len(parse_cpu_list(fields.get("Cpus_allowed_list", "")))
    resident = re.fullmatch(r"(\d{1,15}) kB", fields.get("VmRSS", ""))
    return {
        "Pid": _count(fields, "Pid", source),
        "Threads": _count(fields, "Threads", source),
        "VmRSS": reported(int(resident[1]) * KIB, f"{source}: VmRSS") if resident else missing,
        "Cpus_allowed_list": reported(cpus, f"{source}: Cpus_allowed_list") if cpus else missing,
    }


def _count(fields: dict[str, str], name: str, source: str) -> Fact[int]:
    value = fields.get(name, "").strip()
    known = value.isdecimal() and len(value) <= len(str(2**53)) - 1
    return reported(int(value), f"{source}: {name}") if known else not_found(f"{source} does not say {name}")


def absolute(path: str, folder: Fact[str]) -> Fact[str]:
    """A path as the process means it."""
    if path.startswith("/"):
        return reported(path, "command line")
    if isinstance(folder, Unknown):
        return failed(f"{path} is relative, and the folder of the process is unknown: {folder.why}", folder.how_to_get)
    return reported(f"{folder.value.rstrip('/')}/{path}", folder.source)
