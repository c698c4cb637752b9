"""vLLM's log, from the first engine to the second: `LEVEL MM-DD HH:MM:SS [file.py:line] message` and bare messages.

Every process of a server writes into it, with a name before the level or without; people quote fragments.
"""

from functools import partial

from unslow.look.logs.dialect import LineDialect
from unslow.look.logs.serving_rules import RuleReader, needles_of
from unslow.look.logs.torch_lines import CHATTY_ANYWHERE, TORCH_RULES
from unslow.look.logs.vllm.memory import MEMORY_RULES
from unslow.look.logs.vllm.start import START_RULES
from unslow.look.logs.vllm.trouble import TROUBLE_RULES
from unslow.look.logs.vllm.work import WORK_RULES

RULES = START_RULES + MEMORY_RULES + WORK_RULES + TROUBLE_RULES + TORCH_RULES

CHATTY = frozenset({"Avg generation throughput:", "KV cache usage", "Waiting: ", "refix cache hit rate", ".py:"})

DIALECT = LineDialect(needles_of(RULES), partial(RuleReader, "vLLM", RULES, alone=True), CHATTY | CHATTY_ANYWHERE)
