"""llama.cpp's server: how it is found, how its settings are read, how it spells each knob."""

from unslow.look.runtimes.llama_cpp.knobs import changed_command, spell
from unslow.look.runtimes.llama_cpp.log_file import read_log
from unslow.look.runtimes.llama_cpp.process import FoundServer, find, find_one
from unslow.look.runtimes.llama_cpp.server import read_server

__all__ = ["FoundServer", "changed_command", "find", "find_one", "read_log", "read_server", "spell"]
