"""Ollama: a server on port 11434 that starts one process for each model that it has loaded.

Since 0.30 (2026-05) that process is a llama-server of llama.cpp, whose lines stand in the log; before, it was a runner
of its own. Its API tells which models are loaded, how many bytes of each it planned for GPUs and the context of one
request; layers, devices, cache type, batch and threads are in the command line of the process and in the log. What
changed: several requests at once and several models 0.1.33; flash attention 0.1.39 (on by itself since 0.30); the type
of the cache 0.5.0; OLLAMA_CONTEXT_LENGTH 0.5.13; the column CONTEXT of `ollama ps` 0.9.6; Vulkan 0.12.11; a default
context that grows with VRAM 0.15.5; LLAMA_ARG_* of llama-server, drafting and OLLAMA_IGPU_ENABLE 0.30.
"""

from unslow.look.runtimes.ollama.bench import ask
from unslow.look.runtimes.ollama.commands import commands_for
from unslow.look.runtimes.ollama.server import NAME, find, read, read_url

__all__ = ["NAME", "PORTS", "RANK", "ask", "commands_for", "find", "read", "read_url"]

PORTS = (11434,)
RANK = 0
