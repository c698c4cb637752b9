"""How speed grows with conversations that are brought forward together, and where that ends."""

from typing import NamedTuple

from unslow.think.physics.batching import ridge_tokens
from unslow.think.speed import outcome
from unslow.think.speed.question import Question

CONVERSATIONS = (1, 2, 4, 8, 16, 32, 64)


class BatchPoint(NamedTuple):
    """So many conversations: tokens per second of all together, and of each."""

    conversations: int
    together: float
    each: float


def batching_curve(question: Question, group: str) -> list[BatchPoint]:
    """The curve for one to 64 conversations, all at the same depth."""
    rates = [(n, outcome.decode(question._replace(tokens=float(n)), group).rate.mid) for n in CONVERSATIONS]
    return [BatchPoint(n, rate, rate / n) for n, rate in rates]


def ridge(question: Question) -> float | None:
    """From how many conversations on arithmetic takes as long as reading; None where a CPU computes."""
    step = question.totals.step(0.0) if question.totals else None
    if step is None or not step.dense_weights + step.expert_weights:
        return None
    bytes_per_weight = (step.dense_bytes + step.expert_bytes) / (step.dense_weights + step.expert_weights)
    return float(ridge_tokens(bytes_per_weight, question.chip))
