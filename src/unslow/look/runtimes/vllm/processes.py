"""Processes of vLLM: the server speaks for its engine and its workers."""

from collections.abc import Sequence

from unslow.facts.model import Model
from unslow.look.paths import name_of
from unslow.look.processes import Process, ancestors, not_started_by, outermost, words_of
from unslow.look.serving.processes import find_servers

_NAMES = ("vllm", "python", "pt_main_thread", "uv", "ray")
_TITLE = "VLLM::"
_ENGINE = "VLLM::EngineCor"  # the kernel keeps fifteen letters
_MODULES = ("vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server", "vllm.entrypoints.cli.main")


def find(processes: Sequence[Process]) -> list[Process]:
    """Every server, and every engine that some program runs without one."""
    servers = find_servers(processes, _NAMES, is_server)
    engines = [p for p in processes if p.name.startswith(_ENGINE)]
    alone = not_started_by(engines, servers, processes)
    by_engine = {
        p.pid: p for engine in alone for p in ancestors(engine, processes) if takes_command(words_of(p.command()))
    }
    servers += outermost(list(by_engine.values()), processes)
    return [*servers, *not_started_by(engines, servers, processes)]


def is_server(words: Sequence[str]) -> bool:
    """Whether a command line starts a server, by the names in it."""
    head = list(words[:6])
    programs = [at for at, word in enumerate(head) if "vllm" in name_of(word).lower()]
    return any(head[at + 1 : at + 2] == ["serve"] for at in programs) or any(word in _MODULES for word in head)


def takes_command(words: Sequence[str], _model: Model | None = None) -> bool:
    """Whether a command line has the flags of `vllm serve`, of a process that is known to run vLLM by other signs.

    A script of any name may call the function behind that command.
    """
    return is_server(words) or "serve" in words[1:6]


def is_engine(process: Process) -> bool:
    """Whether it is an engine rather than a server."""
    return process.name.startswith(_TITLE)
