"""llama.cpp's server: alone, as a router's child, or behind llama-swap; in a container or not.

It is found by its process. Its command line and its environment tell what was asked for, its API what holds now, its
log what was decided: since b9151 only with `-lv 4`. None of its answers holds the layers, the split of memory, the
cache type or the threads.
"""

from unslow.facts.snapshot import Subject
from unslow.look.processes import Process
from unslow.look.runtimes._gguf_process import find_servers as find
from unslow.look.runtimes._gguf_process import takes_command
from unslow.look.runtimes._gguf_server import read_server
from unslow.look.runtimes.llama_cpp.bench import ask, score
from unslow.look.runtimes.llama_cpp.commands import commands_for
from unslow.look.runtimes.llama_cpp.flags import COMMANDS, read_options, read_own_options
from unslow.look.runtimes.llama_cpp.urls import read_url, with_log

NAME = "llama.cpp"
PORTS = (8080,)
RANK = 1  # /props is its own


def read(process: Process, api_key: str) -> tuple[Subject, ...]:
    """The server of a process: it holds one model, or none where it is a router."""
    return (read_server(process.system, process, api_key),)


__all__ = [
    "COMMANDS", "NAME", "PORTS", "RANK", "ask", "commands_for", "find", "read", "read_options", "read_own_options",
    "read_url", "score", "takes_command", "with_log",
]  # fmt: skip
