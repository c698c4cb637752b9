"""vLLM: how it is found, how its settings are read, how it spells each knob."""

from unslow.look.runtimes.vllm.knobs import spell
from unslow.look.runtimes.vllm.processes import find, takes_command
from unslow.look.runtimes.vllm.read import read, read_url
from unslow.look.runtimes.vllm.spell_all import spell_all
from unslow.look.serving.vllm_flags import PROGRAM as NAME

__all__ = ["NAME", "PORTS", "RANK", "find", "read", "read_url", "spell", "spell_all", "takes_command"]

PORTS = (8000,)
RANK = 2
