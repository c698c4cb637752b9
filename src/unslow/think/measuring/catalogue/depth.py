"""The speed at several places of the context."""

from unslow.facts.snapshot import Case
from unslow.think.measuring.catalogue._here import context_of, fits
from unslow.think.measuring.measurement import Load, Measurement

DEEPEST_TOKENS = 8192


def _load(case: Case) -> Load:
    deepest = min(DEEPEST_TOKENS, context_of(case) or DEEPEST_TOKENS)
    return Load(prompt_tokens=deepest, generated_tokens=512, seconds=0.2)


MEASUREMENT = Measurement(
    "depth",
    "generating at the start of the context and further in",
    "to see what a longer conversation costs",
    ("run.depths",),
    _load,
    possible=lambda case: fits(case, 1536),
    about=("kv_cache_outgrows_vram", "flash_attention_off", "kv_cache_on_host"),
)
