"""What a shorter context or other changes free: enough of the GPU to be called a cause, or RAM that nobody uses."""

from unslow.facts.snapshot import Case
from unslow.facts.units import GIB, MIB
from unslow.facts.values import first_known
from unslow.think.adapt.account import WORTH_COMPARING
from unslow.think.adapt.shape import kv_per_token
from unslow.think.adapt.vram import buffers_of
from unslow.think.adapt.who_computes import uses_no_gpu
from unslow.think.adapt.work import Cure
from unslow.think.predict import Prediction, predict

REAL_SHARE = 0.25
"""Of the layers on the host: what brings back fewer is no more than rounding, beside a model that is too large."""

USUAL_CONTEXT = 8192
"""Tokens: a shorter context is not what takes the memory."""
OUT_OF_PROPORTION = 2
"""Times the weights: what the context takes beyond that is worth a word, from a GiB on."""


def oversized_context(case: Case) -> str:
    """What a context takes of the RAM that is out of proportion to its model; empty where a GPU is asked about it.

    Only what was used of a context is read for a token, so it costs memory and time to load, not speed.
    """
    context = first_known(case.runtime.context_length, case.runtime.context_set).value_or(0)
    weights, used = case.model.weights_bytes.value_or(0), case.runtime.longest_sequence.value_or(0)
    wanted = max(used, case.wish.context_tokens.value_or(0), USUAL_CONTEXT)
    if not uses_no_gpu(case) or context < OUT_OF_PROPORTION * wanted or not weights:
        return ""
    buffers = sum(b.bytes for kind in ("kv", "compute") for b in buffers_of(case, kind, on_gpu=False))
    taken = buffers or kv_per_token(case) * context
    if taken < max(GIB, OUT_OF_PROPORTION * weights):
        return ""
    return (
        f"The context of {context:,} tokens takes {taken / GIB:.1f} GiB of RAM beside {weights / MIB:,.0f} MiB of "
        f"weights: a shorter one, as long as the conversations are, frees them and loads sooner."
    )


def brings_back_enough(case: Case, cure: Cure, gained: int, left: int) -> bool:
    """Whether a cure brings back a real share of the layers that are left on the host, or a gain by physics."""
    if gained <= 0:
        return False
    now, then = predict(case), predict(case, cure)
    if isinstance(now, Prediction) and isinstance(then, Prediction) and then.seconds.mid > 0:
        return gained >= REAL_SHARE * left or now.seconds.mid / then.seconds.mid >= WORTH_COMPARING
    return gained >= REAL_SHARE * left
