"""vLLM: how it is found, how its settings are read, how its commands are written."""

from unslow.look.runtimes.vllm.bench import score
from unslow.look.runtimes.vllm.commands import commands_for
from unslow.look.runtimes.vllm.flags import COMMANDS, NAME
from unslow.look.runtimes.vllm.server import find, read, read_url, takes_command

__all__ = ["COMMANDS", "NAME", "PORTS", "RANK", "commands_for", "find", "read", "read_url", "score", "takes_command"]

PORTS = (8000,)
RANK = 2
