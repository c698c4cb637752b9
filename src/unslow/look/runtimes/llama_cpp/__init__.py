"""llama.cpp's server: how it is found, how its settings are read, how it spells each knob."""

from unslow.look.llama_server.log_file import read_log
from unslow.look.llama_server.measuring import headers, key_of, unused_slot
from unslow.look.llama_server.process import FoundServer, find, find_one
from unslow.look.llama_server.server import read_server
from unslow.look.runtimes.llama_cpp.elsewhere import read_embedded, read_url, with_log
from unslow.look.runtimes.llama_cpp.knobs import changed_command, spell

__all__ = [
    "FoundServer",
    "changed_command",
    "find",
    "find_one",
    "headers",
    "key_of",
    "read_embedded",
    "read_log",
    "read_server",
    "read_url",
    "spell",
    "unused_slot",
    "with_log",
]
