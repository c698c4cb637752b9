"""The made-up models that a calibration measures: each one shows a cost that the others hide."""

from typing import NamedTuple

from unslow.facts.units import MIB

DEEP_TOKENS = 512
PROMPT_TOKENS = 192
LARGE_CACHE_BYTES = 50 * MIB
"""Half of this and more would hold a good part of `calibrate_types`."""

TYPES = ("Q4_0", "Q4_1", "Q4_K_M", "Q5_0", "Q5_1", "Q5_K_S", "Q6_K", "Q8_0", "F16")
"""Mixes whose main types are the common ones; llama.cpp has kernels of their own for each."""


class Trial(NamedTuple):
    """A made-up model, and what is asked of it."""

    name: str
    shape: str
    quant: str
    depth_tokens: int = 1
    """Tokens before those that are timed."""
    prompt_tokens: int = 0
    """The prompt whose reading is timed; 0 for none."""


_COSTS = (
    Trial("one step", "tiny", "Q8_0"),
    Trial("launches", "calibrate_launches", "Q8_0", prompt_tokens=PROMPT_TOKENS),
    *(Trial(f"short rows in {quant}", "calibrate_narrow", quant) for quant in ("Q8_0", "Q4_0", "Q5_0", "Q6_K")),
    *(Trial(f"long rows in {quant}", "calibrate_wide", quant) for quant in ("Q8_0", "Q4_1", "Q4_K_M")),
    Trial("vocabulary", "calibrate_words", "Q8_0"),
    Trial("experts", "calibrate_experts", "Q8_0", prompt_tokens=PROMPT_TOKENS),
    Trial("attention, shared heads", "calibrate_shared_heads", "Q8_0", DEEP_TOKENS, DEEP_TOKENS),
    Trial("attention, own heads", "calibrate_own_heads", "Q8_0", DEEP_TOKENS, DEEP_TOKENS),
)


def trials_for(cache_bytes: int) -> tuple[Trial, ...]:
    """The trials for a processor with so much cache: weights that lie in it would be read too fast."""
    shape = "calibrate_types_large" if cache_bytes > LARGE_CACHE_BYTES else "calibrate_types"
    return (*_COSTS, *(Trial(f"weights in {q}", shape, q, prompt_tokens=PROMPT_TOKENS) for q in TYPES))
