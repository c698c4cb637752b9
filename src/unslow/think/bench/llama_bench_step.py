"""The step of a token on the device, as llama-bench measures it: one token after the other, nobody samples or listens.

llama-bench times the same computation that a server does for one user: one token, its logits copied back, and a wait
for the device. Random tokens take the place of sampled ones. The deeper the context, the longer the step, so only a
test at about the same depth stands for it.
"""

from collections.abc import Sequence
from typing import NamedTuple

from unslow.facts.llama_bench import BenchRow
from unslow.think.bench.spread import spread_of

FARTHEST_TOKENS = 512
"""From the depth of the server's tokens: over so many, reading the context adds little to a step."""


class Step(NamedTuple):
    """The device's own time for a token."""

    seconds: float
    low_s: float
    high_s: float
    source: str


def step_at(rows: Sequence[BenchRow], depth: float) -> Step | None:
    """The step from the test nearest to that depth; None where none is near."""
    near = [row for row in rows if generates(row) and abs(middle_depth(row) - depth) <= FARTHEST_TOKENS]
    return _step(min(near, key=lambda row: abs(middle_depth(row) - depth))) if near else None


def generates(row: BenchRow) -> bool:
    """Whether the test generates and nothing else."""
    return row.n_gen > 0 and not row.n_prompt and row.avg_ts > 0


def middle_depth(row: BenchRow) -> float:
    """The context that the tokens of the test found, on average."""
    return row.n_depth + (row.n_gen - 1) / 2


def _step(row: BenchRow) -> Step:
    """From every repeat where the output has them, else from their mean alone, which has no interval."""
    seconds = [ns / 1e9 / row.n_gen for ns in row.samples_ns if ns > 0] or [1 / row.avg_ts]
    spread = spread_of(seconds)
    return Step(spread.median, spread.low, spread.high, f"llama-bench, {row.test}")
