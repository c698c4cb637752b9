"""One long prompt, read twice."""

from unslow.facts.snapshot import Case
from unslow.think.measuring.catalogue._here import ROOM, context_of, fits
from unslow.think.measuring.measurement import Load, Measurement

LONG_PROMPT_TOKENS = 2048
"""Four of llama.cpp's usual micro-batches of 512."""


def _load(case: Case) -> Load:
    context = context_of(case) or LONG_PROMPT_TOKENS + ROOM
    return Load(prompt_tokens=2 * min(LONG_PROMPT_TOKENS, max(64, context - ROOM)), generated_tokens=2, seconds=0.2)


MEASUREMENT = Measurement(
    "long_prompt",
    f"reading a prompt of {LONG_PROMPT_TOKENS:,} tokens",
    "to see whether prompts are read as fast as they could be",
    ("run.long_prompt",),
    _load,
    possible=lambda case: fits(case, 512),
    about=("prefill_batch_too_small", "prefill_pcie_bound"),
)
