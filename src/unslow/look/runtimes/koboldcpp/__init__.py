"""KoboldCpp: llama.cpp in one file with an interface of its own, on port 5001.

Its command line, or the `.kcpps` file that it was started with, tells what was asked for; its API which model, how long
a context and how fast the last answer was; its output, which holds the lines of llama.cpp, what was decided. What
changed: in 1.117 flash attention is on by default and models are not mapped into memory, the other way round in 1.76;
the fit of layers to memory, `--moecpu` and names such as q8_0 for `--quantkv` came in between.
"""

from unslow.look.runtimes.koboldcpp.commands import commands_for
from unslow.look.runtimes.koboldcpp.server import NAME, find, read, read_url

__all__ = ["NAME", "PORTS", "RANK", "commands_for", "find", "read", "read_url"]

PORTS = (5001,)
RANK = 0
