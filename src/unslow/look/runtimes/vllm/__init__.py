"""vLLM: how it is found, how its settings are read, how its commands are written."""

from unslow.look.runtimes.vllm.commands import commands_for
from unslow.look.runtimes.vllm.processes import find, takes_command
from unslow.look.runtimes.vllm.read import read, read_url
from unslow.look.serving.vllm_flags import PROGRAM as NAME

__all__ = ["NAME", "PORTS", "RANK", "commands_for", "find", "read", "read_url", "takes_command"]

PORTS = (8000,)
RANK = 2
