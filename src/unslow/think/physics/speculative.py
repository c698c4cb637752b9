"""Speculative decoding: a small model drafts some tokens, the large one checks them in one step.

tokens of a step = 1 + a + a^2 + ... + a^k    with k drafted tokens, each accepted with the chance a
time of a step   = checking k + 1 tokens at once + k steps of the draft model
"""

from unslow.think.physics.placement import largest_fitting

_STEPS = 1000


def accepted_tokens(drafted: int, acceptance: float) -> float:
    """How many tokens a step yields on average: those accepted in a row, and the one that the large model adds."""
    if acceptance >= 1:
        return drafted + 1.0
    return (1 - acceptance ** (drafted + 1)) / (1 - acceptance)


def break_even(drafted: int, check_s: float, draft_s: float, plain_s: float) -> float | None:
    """The acceptance from which on drafting is not slower than plain decoding; None where it always is."""
    needed = (check_s + drafted * draft_s) / plain_s
    if needed > drafted + 1:
        return None
    below = largest_fitting(0, _STEPS, lambda thousandths: needed - accepted_tokens(drafted, thousandths / _STEPS))
    return 0.0 if below is None else below / _STEPS
