"""How long a request takes: a loop in Python that launches every kernel, or a compiled step; and what caches cost.

a growing cache is copied whole at every token, since it is joined with the new keys and values
keys that several heads share are written out for each head where attention needs a mask or is not fused
a quantised cache is unpacked whole at every token, an offloaded one comes over the link
"""

import math
from typing import NamedTuple

from unslow.catalog.learned_speed import learned_speed, spread_of
from unslow.think.physics.chip import Setting
from unslow.think.physics.interval import Interval
from unslow.think.physics.overheads import EAGER, launch_s, overlapped
from unslow.think.physics.terms import Term, least, total
from unslow.think.plan.hf_load import hf_load
from unslow.think.plan.transformers.memory import Laid
from unslow.think.plan.transformers.question import BYTES, Choice, Question
from unslow.think.speed.chips import gpu_chip
from unslow.think.speed.group import DEEP, DEEP_FROM, DENSE, MOE, PREFILL, SEVERAL
from unslow.think.speed.question import USUAL_LINK, prompt_terms, step_terms
from unslow.think.speed.question import Question as SpeedQuestion
from unslow.think.speed.totals import Totals, totals
from unslow.think.speed.trust import trust_in, widened

PYTHON_SPREAD = 1.3
"""On top of what was learned of kernels: the loop around them is the host's pace (as in think.adapt.gpu_question)."""
COPIES = {"dynamic": 2.0, "static": 0.0, "quantized": 6.0, "offloaded": 2.0}
"""How often the bytes of the plain cache go over the memory for a token beyond being looked at: read and written to be
joined; of a quantised one written in three steps of unpacking and read again."""
UNPACKING_LAYER_S = 250e-6
"""More launches in each layer of a quantised cache: a dozen small operations at 20 us each."""
THIS_YEAR = 2026.8


class Paced(NamedTuple):
    """What one conversation gets."""

    decode: Interval
    prefill: Interval
    request_s: Interval


class Pace:
    """The speed of a question's choices."""

    def __init__(self, question: Question) -> None:
        self.question = question

    def paced(self, choice: Choice, laid: Laid) -> Paced:
        """All users in one batch; `generate` reads the whole conversation anew each time."""
        goal = self.question.goal
        read = goal.kept_tokens + goal.prompt_tokens
        step = self._step(choice, laid)
        prompt = self._prompt(choice, laid, read)
        ends = [goal.users * read / fast + goal.answer_tokens / each for fast, each in zip(prompt, step, strict=True)]
        return Paced(step, prompt, Interval(ends[2], ends[1], ends[0]))

    def _step(self, choice: Choice, laid: Laid) -> Interval:
        """Tokens per second of each conversation."""
        goal = self.question.goal
        depth = goal.kept_tokens + goal.prompt_tokens + goal.answer_tokens / 2
        q = self._ask(choice, laid, depth)._replace(tokens=float(goal.users))
        terms = tuple(step_terms(q))
        alone = float(total(terms, learned_speed().factors)) + self._beside(choice, laid, q)
        seconds = alone + EAGER.step_s if choice.compiled else float(overlapped(alone, self._launches(choice, q)))
        return self._interval(1 / seconds, self._group(laid, depth), q, terms)

    def _prompt(self, choice: Choice, laid: Laid, tokens: int) -> Interval:
        """Prompt tokens per second; the whole prompt is one batch."""
        q = self._ask(choice, laid, 0.0)
        terms = tuple(prompt_terms(q, float(tokens), float(tokens)))
        alone = float(total(terms, learned_speed().factors)) * tokens + laid.spilled_bytes / USUAL_LINK
        seconds = float(overlapped(alone, self._launches(choice, q)))
        return self._interval(tokens / seconds, PREFILL, q, terms)

    def _ask(self, choice: Choice, laid: Laid, depth: float) -> SpeedQuestion:
        question, device = self.question, self.question.hardware.device
        setting = Setting(
            backend={"AMD": "rocm", "Apple": "metal"}.get(device.vendor, "cuda"), family=device.family,
            device=device.name, types=question.types, runtime="transformers", fused=choice.attention != "eager",
            graphs=choice.compiled,
        )  # fmt: skip
        chip = gpu_chip(device)
        if choice.dtype == "float32":  # which the matrix units do not take
            chip = chip._replace(matrix_flops_per_s=chip.flops_per_s)
        element = float(BYTES[choice.dtype])
        return SpeedQuestion(
            self._totals(choice), chip, setting, THIS_YEAR, depth, element, gpus=float(laid.cards or 1)
        )

    def _totals(self, choice: Choice) -> Totals:
        return totals(hf_load(self.question.shape, self.question.parts_as(choice.dtype), self.question.types))

    def _beside(self, choice: Choice, laid: Laid, q: SpeedQuestion) -> float:
        """Seconds of a token for copies of the cache, and for what comes over the link."""
        goal, shape = self.question.goal, self.question.shape
        whole = goal.kept_tokens + goal.prompt_tokens + goal.answer_tokens
        held = float(whole) if choice.cache == "static" else float(q.depth)
        whole_totals = q.totals or Totals()
        kept = float(whole_totals.cache_elements(held)) * float(q.element_bytes) * goal.users
        looked = float(whole_totals.cache_elements(float(q.depth))) * float(q.element_bytes) * goal.users
        repeated = 2 * shape.heads / max(1, shape.kv_heads) if self._repeats(choice) else 0.0
        moved = (COPIES[choice.cache] + repeated) * kept + kept - looked
        link = laid.spilled_bytes + (kept if choice.cache == "offloaded" else 0.0)
        return moved / float(q.chip.bytes_per_s) + link / USUAL_LINK

    def _repeats(self, choice: Choice) -> bool:
        """Whether keys are written out for every head: attention needs a mask, or is not fused."""
        shape = self.question.shape
        if shape.kv_heads == shape.heads or shape.kv_rank or choice.attention.startswith("flash"):
            return False
        masked = self.question.goal.users > 1 or choice.cache == "static"
        return choice.attention == "eager" or masked or choice.dtype == "float32"

    def _launches(self, choice: Choice, q: SpeedQuestion) -> float:
        whole = q.totals or Totals()
        more = UNPACKING_LAYER_S * float(whole.layers) if choice.cache == "quantized" else 0.0
        return float(launch_s(EAGER, whole.layers, whole.expert_layers)) + more

    def _interval(self, rate: float, group: str, q: SpeedQuestion, terms: tuple[Term, ...]) -> Interval:
        shortest = float(least(terms))  # of a prompt nothing is certain
        ceiling = 1 / shortest if shortest else math.inf
        spread = spread_of(group, q.setting.backend)
        found = Interval(rate * spread.low / PYTHON_SPREAD, rate, rate * spread.high * PYTHON_SPREAD)
        return widened(found, trust_in(self.question.hardware.device, q.setting).wider, max(ceiling, rate))

    def _group(self, laid: Laid, depth: float) -> str:
        if laid.cards > 1:
            return SEVERAL
        if 0 < self.question.shape.experts_used < self.question.shape.experts:
            return MOE
        return DEEP if depth >= DEEP_FROM else DENSE
