"""The log of llama.cpp: llama-server, llama-cli, and whatever passes its lines on (Ollama, LM Studio, journals).

Lines are found by what they say, never by where they start: old and new builds, colours, timestamps and the prefixes of
journalctl or docker all read alike. Since b9151 most of these lines need `-lv 4`; a missing line is no evidence.
"""

from unslow.look.logs.llama_cpp.log import LlamaLog, parse_head_and_tail, parse_log
from unslow.look.logs.llama_cpp.reader import DIALECT
from unslow.look.logs.llama_cpp.run import run_of_log

__all__ = ["DIALECT", "LlamaLog", "parse_head_and_tail", "parse_log", "run_of_log"]
