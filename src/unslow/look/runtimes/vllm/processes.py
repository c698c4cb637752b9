"""Processes of vLLM: the server speaks for its engine and its workers."""

from collections.abc import Sequence

from unslow.look.processes import Process, not_started_by
from unslow.look.serving.processes import find_servers

_NAMES = ("vllm", "python", "pt_main_thread", "uv", "ray")
_TITLE = "VLLM::"
_ENGINE = "VLLM::EngineCor"  # the kernel keeps fifteen letters
_MODULES = ("vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server", "vllm.entrypoints.cli.main")


def find(processes: Sequence[Process]) -> list[Process]:
    """Every server, and every engine that some program runs without one."""
    servers = find_servers(processes, _NAMES, is_server)
    engines = [p for p in processes if p.name.startswith(_ENGINE)]
    return [*servers, *not_started_by(engines, servers, processes)]


def is_server(words: Sequence[str]) -> bool:
    """Whether a command line starts a server."""
    head = list(words[:6])
    programs = [at for at, word in enumerate(head) if word.rpartition("/")[2] in ("vllm", "vllm.exe")]
    return any(head[at + 1 : at + 2] == ["serve"] for at in programs) or any(word in _MODULES for word in head)


def is_engine(process: Process) -> bool:
    """Whether it is an engine rather than a server."""
    return process.name.startswith(_TITLE)
