"""The type of the KV cache: whether there is a smaller one to be had."""

import re

from unslow.facts.snapshot import Case

_NO_FLASH_ATTENTION = re.compile(
    r"flash attention[^.]{0,40}(?:not supported|disabled)|quantized kv cache requested", re.IGNORECASE
)


def can_shrink_cache(case: Case) -> bool:
    """Whether the cache is not small already, and the runtime did not refuse to make it so."""
    kinds = {case.runtime.kv_type_k.value_or("f16"), case.runtime.kv_type_v.value_or("f16")}
    refused = any(_NO_FLASH_ATTENTION.search(line) for line in case.runtime.warnings.value_or([]))
    return kinds == {"f16"} and not refused
