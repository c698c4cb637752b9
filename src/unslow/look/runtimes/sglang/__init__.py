"""SGLang: how it is found, how its settings are read, how its commands are written.

Written by its documentation and by recorded text: it needs a GPU, and none of it was run here.
"""

from unslow.look.runtimes.sglang.commands import commands_for
from unslow.look.runtimes.sglang.server import COMMANDS, ENGINE, NAME, find

__all__ = ["COMMANDS", "NAME", "PORTS", "RANK", "commands_for", "find", "read", "read_url"]

PORTS = (30000,)
RANK = 2
read, read_url = ENGINE.read, ENGINE.read_url
