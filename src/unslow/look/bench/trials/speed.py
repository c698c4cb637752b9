"""The usual speed: a warm-up, then as many completions as it takes until they agree, with eyes on the machine."""

from unslow.facts.bounded import bounded
from unslow.facts.run import Run
from unslow.look.bench.completions import Progress, Repeats, measure
from unslow.look.bench.guest import Plan, Target
from unslow.look.system import System

REPEATS = Repeats(fewest=2, most=5, apart=0.02)
"""Two are enough on a quiet machine, where repeats differ by less than 1 %; five, and the median leaves out two."""


def perform(system: System, target: Target, plan: Plan, progress: Progress) -> Run:
    """The standard measurement; what was measured before a server fails is kept."""
    return bounded(measure(system, target, plan, progress, REPEATS))
