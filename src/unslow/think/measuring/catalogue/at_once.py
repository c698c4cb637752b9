"""Several requests at once, where the server takes them."""

from unslow.facts.runtime import IN_BATCHES
from unslow.facts.snapshot import Case
from unslow.facts.values import first_known
from unslow.think.measuring.measurement import Load, Measurement


def _serves_several(case: Case) -> bool:
    runtime = case.runtime
    places = first_known(runtime.slots, runtime.max_sequences).value_or(0)
    return (places > 1 or runtime.name.value_or("") in IN_BATCHES) and not _is_left_in_pieces(case)


def _is_left_in_pieces(case: Case) -> bool:
    """Whether several answers at once would cost the next request dearly.

    In a cache that all slots share, the tokens of answers at the same time lie in turns. llama-server copies idle slots
    to RAM before it starts the next request, and without flash attention, where values lie by rows of the context, it
    does so number by number: half a minute from a GPU.
    """
    runtime = case.runtime
    if not runtime.name.value_or("").endswith("llama.cpp"):
        return False
    fused, shared = runtime.flash_attention.value_or(default=True), runtime.kv_unified.value_or(default=True)
    return not fused and shared and runtime.cache_ram_bytes.value_or(1) != 0


MEASUREMENT = Measurement(
    "at_once",
    "answering several requests at once",
    "to see what several users would get",
    ("run.at_once",),
    lambda _case: Load(prompt_tokens=200, generated_tokens=640, seconds=0.2),
    possible=_serves_several,
    about=("gpu_underused_by_one_stream", "queueing", "kernel_launch_bound"),
)
