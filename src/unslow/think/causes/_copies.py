"""What copying the host's weights to the GPU takes of the time of a prompt."""

import math
from typing import NamedTuple

from unslow.facts.snapshot import Case
from unslow.facts.values import Known, MissingFactError
from unslow.think.adapt.host_weights import host_weights_bytes
from unslow.think.adapt.prompt_speed import measured_prompt_tokens, prompt_speed
from unslow.think.adapt.who_computes import cpu_computes
from unslow.think.report import Cost

USUAL_UBATCH = 512
"""The default of llama.cpp."""
NEAR = (0.25, 1.6)
"""A measured speed within this of what copying allows is bound by it."""


class Price(NamedTuple):
    """How much faster prompts would be, and what each of their tokens loses."""

    speedup: float
    lost: Cost


class Copies(NamedTuple):
    """One copy for every micro-batch, beside the speed that was measured, of prompts of so many tokens."""

    copy_s: float
    ubatch: float
    tokens_per_s: float
    prompt_tokens: float = math.inf

    @property
    def is_bound(self) -> bool:
        """Whether the speed is about what copying allows."""
        return NEAR[0] <= self.tokens_per_s * self.copy_s / self.shared_by <= NEAR[1]

    @property
    def shared_by(self) -> float:
        """Tokens that share a copy: a prompt that is shorter than a micro-batch fills none."""
        return min(self.ubatch, self.prompt_tokens)

    def with_link(self, faster: float) -> Price:
        """The price of a link that could be so many times as fast."""
        return self._price(self.copy_s / faster / self.shared_by)

    def with_ubatch(self, ubatch: float) -> Price:
        """The price of sharing a copy among too few tokens."""
        return self._price(self.copy_s / min(ubatch, self.prompt_tokens))

    def _price(self, then_s: float) -> Price:
        """A token's time with another share of the copy: of the time that was measured it is at most all."""
        now_s = 1 / self.tokens_per_s
        lost_s = max(0.0, min(now_s, self.copy_s / self.shared_by) - then_s)
        return Price(now_s / max(then_s, now_s - lost_s), Cost(seconds=lost_s, per="prompt_token"))


def copies(case: Case, link_bytes_per_s: float) -> Copies | None:
    """The copies of this case; None where nothing is copied, or where no long prompt was measured."""
    speed = prompt_speed(case)
    if not isinstance(speed, Known) or speed.value <= 0 or link_bytes_per_s <= 0 or cpu_computes(case) is False:
        return None
    if case.runtime.op_offload.value_or(default=True) is False:
        return None
    try:
        copied = host_weights_bytes(case)
    except MissingFactError:
        return None
    ubatch = case.runtime.ubatch.value_or(0) or USUAL_UBATCH
    tokens = measured_prompt_tokens(case) or math.inf
    return Copies(copied / link_bytes_per_s, ubatch, speed.value, tokens) if copied > 0 else None
