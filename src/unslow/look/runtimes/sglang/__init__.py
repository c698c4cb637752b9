"""SGLang: how it is found, how its settings are read, how it spells each knob.

Written by its documentation and by recorded text: it needs a GPU, and none of it was run here.
"""

from unslow.look.runtimes.sglang.knobs import spell
from unslow.look.runtimes.sglang.read import ENGINE, find
from unslow.look.runtimes.sglang.spell_all import spell_all
from unslow.look.serving.sglang_flags import PROGRAM as NAME

__all__ = ["NAME", "PORTS", "RANK", "find", "read", "read_url", "spell", "spell_all"]

PORTS = (30000,)
RANK = 2
read, read_url = ENGINE.read, ENGINE.read_url
