"""LM Studio: the app, or its headless daemon `llmster`; both serve on port 1234 once the server is switched on.

Its REST API tells which models are loaded and with which context; of layers, devices and cache types it tells nothing:
those are in the command line of the llama-server that it starts and in `lms log stream --source runtime`. What changed:
REST v0 came with 0.3.6; REST v1, `llmster` and parallel requests with 0.4.0; since 0.4.15 the load lines of llama.cpp
are no longer in the Developer Logs, and until about 0.4.17 its llama-server wrote no log at all.
"""

from unslow.look.runtimes.lm_studio.commands import commands_for
from unslow.look.runtimes.lm_studio.server import NAME, find, read, read_url

__all__ = ["NAME", "PORTS", "RANK", "commands_for", "find", "read", "read_url"]

PORTS = (1234,)
RANK = 0
